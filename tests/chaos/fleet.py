"""Server processes for many clients at once, one of which is replaced whenever it ends.

What `processes` has for the one client of a schedule, for a crowd of them: a request goes to one
process and takes no notice of the others. Knows how a process is started and asked.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from mrtr_options.review.bench.client import connections, exchange_at
from mrtr_options.review.bench.deployments.processes import Served, Worker
from mrtr_options.review.bench.history import LOST, Reply, Request
from mrtr_options.sdk.serving import GRACE_SECONDS, PATH

REPLACE_SECONDS = 0.5
"""After how long a process that ended is replaced, unless told otherwise."""
END_SECONDS = GRACE_SECONDS + 13.0
"""How long a process may take to end after SIGTERM."""
REQUEST_SECONDS = 20.0
"""How long a client waits for a response. Longer than a server holds a request."""


PROGRESS_SECONDS = 10.0


@asynccontextmanager
async def progress(tell: Callable[[str], None], said: Callable[[], str]) -> AsyncGenerator[None]:
    """Tell now and then how far the block is."""

    async def keep_telling() -> None:
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            tell(said())

    async with anyio.create_task_group() as group:
        group.start_soon(keep_telling)
        yield
        group.cancel_scope.cancel()


class Fleet:
    """Some server processes. Enter `running` to use it.

    Args:
        served: What they serve and share.
        size: How many.
        replace_seconds: After how long a process that ended is replaced.

    Attributes:
        workers: The process at each place; None while it is being replaced.
        ended: How many processes have ended, however they did.
        overdue: How many had to be killed since they did not end after SIGTERM.
    """

    def __init__(self, served: Served, size: int, replace_seconds: float | None = None) -> None:
        self.size = size
        self._replace_seconds = REPLACE_SECONDS if replace_seconds is None else replace_seconds
        self.ended = self.overdue = 0
        self._served = served
        self.workers: list[Worker | None] = [None] * size
        self._gone = [anyio.Event() for _ in range(size)]
        self._http = connections(most=None)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Fleet]:
        """Start the processes; kill them with the block."""
        async with self._http:
            try:
                async with anyio.create_task_group() as group:
                    for place in range(self.size):
                        group.start_soon(self._keep, place)
                    for place in range(self.size):
                        await self.until_up(place)
                    yield self
                    group.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    for worker in self.workers:
                        if worker is not None:
                            await anyio.to_thread.run_sync(worker.end)

    async def _keep(self, place: int) -> None:
        """Keep a process running at this place."""
        while True:
            # To its end also where the fleet ends: only this code knows of the process.
            worker = self.workers[place] = await anyio.to_thread.run_sync(
                Worker.started, self._served
            )
            await anyio.wait_readable(worker.process.sentinel)
            self.ended += 1
            self.workers[place] = None
            await anyio.to_thread.run_sync(worker.end)
            self._gone[place].set()
            self._gone[place] = anyio.Event()
            await anyio.sleep(self._replace_seconds)

    async def until_up(self, place: int) -> None:
        """Wait until the process at a place responds."""
        while True:
            if (await self.send(place, Request("Tokyo"))).nothing is None:
                return
            await anyio.sleep(self._replace_seconds)

    async def send(self, place: int, request: Request, seconds: float = REQUEST_SECONDS) -> Reply:
        """Send one request to the process at a place; lost if there is none."""
        worker = self.workers[place]
        if worker is None:
            return Reply(nothing=LOST)
        return await exchange_at(worker.origin + PATH, self._http, request, seconds=seconds)

    def signal(self, place: int, number: signal.Signals) -> None:
        """Send the process at a place a signal, if there is one."""
        if (worker := self.workers[place]) is not None:
            worker.signal(number)

    async def shut_down(self, place: int) -> None:
        """End the process at a place by SIGTERM; by SIGKILL if it takes too long."""
        worker = self.workers[place]
        if worker is None:
            return
        worker.signal(signal.SIGTERM)
        with anyio.move_on_after(END_SECONDS) as in_time:
            await self._gone[place].wait()
        if in_time.cancelled_caught:
            self.overdue += 1
            worker.signal(signal.SIGKILL)
