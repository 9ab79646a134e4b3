"""The effects of the steps of a fleet's calls, where they run: activities of Temporal.

Knows `temporalio` and `events`; nothing of workflows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from temporalio import activity, exceptions

from mrtr_options.sdk.durable.events import Run, Stepped
from mrtr_options.sdk.durable.sealing import Seal

ALIVE_SECONDS = 30.0
"""The longest silence of a process in a step, before another process begins that step again."""
KEPT = 100
"""The most stored results of effects that held up the loop for too long."""

ELSEWHERE = "elsewhere"
ENDED = "ended"

Place = tuple[str, str]
"""A step: the run of its call, and its key."""


class Effects:
    """The running steps of a store, by the run of their call and their key.

    Args:
        seal: Seals what they come to.
    """

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._ready: dict[Place, Run] = {}
        self._running: dict[Place, asyncio.Task[Stepped]] = {}
        self._done: dict[Place, asyncio.Task[Stepped]] = {}

    @contextmanager
    def ready(self, place: Place, run: Run) -> Generator[None]:
        """Have an effect found in a block."""
        self._ready[place] = run
        try:
            yield
        finally:
            # A worker that drops a call from its cache may end this block after the call began
            # again.
            if self._ready.get(place) is run:
                del self._ready[place]

    def cancel(self, place: Place) -> None:
        """Stop an effect, if it runs here. From any thread."""
        if running := self._running.get(place):
            running.get_loop().call_soon_threadsafe(running.cancel)

    @activity.defn(name="mrtr-step")
    async def step(self, run_id: str, key: str) -> str:
        """Run the effect of a step, and say now and then that it goes on."""
        place = run_id, key
        running = self._running.get(place) or self._done.get(place)
        if running is None:  # or else Temporal did not hear of it in time
            if (run := self._ready.get(place)) is None:
                raise exceptions.ApplicationError(
                    "its call is on another worker by now", type=ELSEWHERE
                )
            running = self._running[place] = asyncio.ensure_future(run())
            running.add_done_callback(lambda done: self._is_done(place, done))
        try:
            # A first sign at once would cost the server as much as the step.
            while not (await asyncio.wait([running], timeout=ALIVE_SECONDS / 3))[0]:
                activity.heartbeat()
        except asyncio.CancelledError:
            why = activity.cancellation_details()
            if why is not None and why.cancel_requested:
                running.cancel()
            if why is not None and why.worker_shutdown:
                # The effect goes on until the worker has ended. Several activities may wait for it,
                # and a worker that ends may hang if one of them is done before it is cancelled.
                raise exceptions.ApplicationError("this worker ends", type=ELSEWHERE) from None
            raise
        if running.cancelled():
            raise exceptions.ApplicationError("the effect was stopped in the middle", type=ENDED)
        return self._seal.write(running.result(), key)

    def _is_done(self, place: Place, done: asyncio.Task[Stepped]) -> None:
        del self._running[place]
        if not done.cancelled() and not done.exception():
            self._done[place] = done
            if len(self._done) > KEPT:
                del self._done[next(iter(self._done))]

    def forget(self, place: Place) -> None:
        """Let go of what came of an effect: its call has it."""
        self._done.pop(place, None)

    def close(self) -> None:
        """Cancel the running steps."""
        for running in self._running.values():
            running.cancel()
