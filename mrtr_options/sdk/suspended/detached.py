"""Tasks that outlive the request that started them, and the cheapest way to park one.

anyio ties every task to a task group, and a task group to the task that opened it. A parked call
has to outlive its request and cost next to nothing, so this adapter goes below anyio, once for
asyncio and once for trio. Knows neither MCP nor the options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol


class Parking(Protocol):
    """A place where one task waits for one value: `await` it."""

    def __await__(self) -> Generator[Any, Any, Any]: ...

    def wake(self, value: object) -> None:
        """Hand over the value. Call it once."""
        ...


class Task(Protocol):
    """A running detached task; see `stop`."""

    def cancel(self) -> object: ...


def on_asyncio() -> bool:
    """Return whether the running event loop is asyncio's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _AsyncioParking:
    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._future.__await__()

    def wake(self, value: object) -> None:
        if not self._future.done():  # the waiting task was cancelled in the same turn of the loop
            self._future.set_result(value)


class _TrioParking:
    __slots__ = ("_event", "_value")

    def __init__(self) -> None:
        import trio

        self._event = trio.Event()
        self._value: object = None

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from self._event.wait().__await__()
        return self._value

    def wake(self, value: object) -> None:
        self._value = value
        self._event.set()


def parking() -> Parking:
    """Return a place to park for the running event loop."""
    return _AsyncioParking() if on_asyncio() else _TrioParking()


def spawn(run: Callable[[], Coroutine[Any, Any, None]], context: Context) -> Task:
    """Start a task that belongs to no request and ends with the event loop at the latest.

    Args:
        run: The task. Must not raise anything but a cancellation. On asyncio the caller keeps the
            returned task, since the loop itself does not.
        context: The context variables it starts with; the task gets a copy.
    """
    if on_asyncio():
        return asyncio.create_task(run(), context=context.copy())
    import trio

    scope = trio.CancelScope()

    async def system_task() -> None:
        with scope:
            await run()

    trio.lowlevel.spawn_system_task(system_task, context=context.copy())
    return scope


def stop(task: Task) -> None:
    """Ask a task to stop at its next await."""
    if on_asyncio():
        # In the next turn: asyncio drops a task that is cancelled before its first line, and with
        # it what that line would have set up.
        asyncio.get_running_loop().call_soon(task.cancel)
    else:
        task.cancel()
