"""An event loop whose clock moves only when a test moves it, for Hypothesis's state machines.

The loop runs in a thread of its own, on asyncio or trio, so that its tasks outlive a machine's
rules.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import trio
import trio.testing
from anyio.from_thread import BlockingPortal

T = TypeVar("T")

TURNS = 40
"""More turns of the loop than any task takes between two waits."""


class _AsyncioLoop(asyncio.SelectorEventLoop):
    now = 0.0

    def time(self) -> float:
        return self.now


async def _let_all_run() -> None:
    for _ in range(TURNS):
        await anyio.lowlevel.checkpoint()


class StoppedTime:
    """An event loop that runs only when it is told to.

    Attributes:
        now: The loop's time, in seconds.
    """

    def __init__(self, backend: str) -> None:
        self.now = 0.0
        self._clock = trio.testing.MockClock()
        self._loop = _AsyncioLoop() if backend == "asyncio" else None
        ready = Future[BlockingPortal]()
        self._thread = Thread(target=self._run, args=[ready])
        self._thread.start()
        self._portal = ready.result()

    def _run(self, ready: Future[BlockingPortal]) -> None:
        async def serve() -> None:
            async with BlockingPortal() as portal:
                ready.set_result(portal)
                await portal.sleep_until_stopped()

        if self._loop is None:  # anyio before 4.14 cannot hand a clock to trio
            trio.run(serve, clock=self._clock)
        else:
            anyio.run(serve, backend_options={"loop_factory": lambda: self._loop})

    def run(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the loop, and let all tasks run until they wait."""
        self._portal.call(function, *args)
        self._portal.call(_let_all_run)

    def start(self, function: Callable[..., Awaitable[T]], *args: Any) -> Future[T]:
        """Start a task and let it run until it waits; cancelling the future cancels it."""
        future = self._portal.start_task_soon(function, *args)
        self._portal.call(_let_all_run)
        return future

    def cancel(self, future: Future[Any]) -> None:
        """Cancel a task, as happens when its client's connection ends."""
        future.cancel()
        self._portal.call(_let_all_run)

    def move(self, seconds: float) -> None:
        """Move the clock in one step."""
        self.now += seconds
        if self._loop is None:
            self._portal.call(self._clock.jump, seconds)
        else:
            self._loop.now = self.now
        self._portal.call(_let_all_run)

    def close(self) -> None:
        """Cancel all tasks and end the loop."""
        self._portal.call(self._portal.stop, True)
        self._thread.join()
