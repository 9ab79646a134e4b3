"""Server processes for many clients at once; a process that ends is replaced.

The deployment `processes` serves the one client of a schedule, and this fleet serves a crowd: a
request goes to one process and is independent of the others. Knows how a process is started and
asked.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from mrtr_options.review.bench.client import connections, fetch_at
from mrtr_options.review.bench.deployments.processes import Served, Worker
from mrtr_options.review.bench.messages import LOST, Reply, Request
from mrtr_options.sdk.serving import GRACE_SECONDS, PATH

REPLACE_SECONDS = 0.5
"""The default delay before a process that ended is replaced."""
END_SECONDS = GRACE_SECONDS + 13.0
"""The time a process may take to end after SIGTERM."""
REQUEST_SECONDS = 20.0
"""The time a client waits for a response. It is longer than a server holds a request."""


PROGRESS_SECONDS = 10.0


@asynccontextmanager
async def progress(tell: Callable[[str], None], said: Callable[[], str]) -> AsyncGenerator[None]:
    """Report the progress of the block now and then."""

    async def keep_telling() -> None:
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            tell(said())

    async with anyio.create_task_group() as group:
        group.start_soon(keep_telling)
        yield
        group.cancel_scope.cancel()


class Fleet:
    """A fleet of server processes. Enter `running` to use it.

    Args:
        served: The subject that the processes serve, and the files and keys that they share.
        size: The number of processes.
        replace_seconds: The delay before a process that ended is replaced.

    Attributes:
        workers: The process at each place; None while it is being replaced.
        ended: The number of processes that have ended, for any reason.
        overdue: The number of processes that had to be killed, as SIGTERM did not end them.
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
        """Start the processes, and kill them at the end of the block."""
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
        """Replace the process at this place whenever it ends."""
        while True:
            # The thread finishes also when the fleet ends: nobody else knows of the process yet.
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
        """Send one request to the process at a place; it is lost while the place is empty."""
        worker = self.workers[place]
        if worker is None:
            return Reply(nothing=LOST)
        return await fetch_at(worker.origin + PATH, self._http, request, seconds=seconds)

    def signal(self, place: int, number: signal.Signals) -> None:
        """Send a signal to the process at a place, if one runs there."""
        worker = self.workers[place]
        if worker is not None:
            worker.signal(number)

    async def shut_down(self, place: int) -> None:
        """End the process at a place by SIGTERM, or by SIGKILL if it takes too long."""
        worker = self.workers[place]
        if worker is None:
            return
        worker.signal(signal.SIGTERM)
        with anyio.move_on_after(END_SECONDS) as in_time:
            await self._gone[place].wait()
        if in_time.cancelled_caught:
            self.overdue += 1
            worker.signal(signal.SIGKILL)
