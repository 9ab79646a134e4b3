"""The parts of a review, whose runs are made side by side and held in one order.

Servers wait for clocks, files and processes half of the time. So the parts of a review are shared
out to lanes, each with servers of its own. The parts of one lane are made one after the other; the
lanes run side by side. The results are taken in the order of the parts, whichever lane was faster,
so a report is always the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from mrtr_options.review.bench.deployments import Deployment, remote
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.bench.messages import HUNG
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.findings import Made, waiting_calls

Take = Callable[[], None]
"""Takes the result of a run into the report."""

Runs = AsyncGenerator[Take]
"""Makes the runs of a part. Yields what takes each result into the report."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        history: The run's history.
        raised: The exceptions that the author's code raised in it.
        is_gone: Whether nothing answers at the server's address any more.
    """

    history: History
    raised: Counter[str] = field(default_factory=Counter[str])
    is_gone: bool = False

    @property
    def is_hung(self) -> bool:
        """Whether a request had no response."""
        replies = [event.reply for event in self.history.events if isinstance(event, Received)]
        return any(reply.nothing == HUNG for reply in replies)


@dataclass
class Lane:
    """Servers of a proposal, on which one run is made after the other.

    Attributes:
        where: The deployment.
        made: The runs that were made there, in order.
    """

    where: Deployment
    made: list[Made] = field(default_factory=list[Made])

    @property
    def tracebacks(self) -> list[str]:
        """The latest exceptions of the author's code."""
        return self.where.raised if isinstance(self.where, Children) else []

    async def make(self, subject: Subject, scenario: Scenario) -> Outcome:
        """Make a run."""
        before = Counter(self.tracebacks)
        history = await run(subject, scenario, self.where)
        open_calls = len(waiting_calls(history))
        self.made.append(Made(scenario, len(history.exchanges), open_calls))
        raised = Counter(self.tracebacks) - before
        is_gone = isinstance(self.where, remote.Remote) and self.where.is_gone
        return Outcome(history, raised, is_gone)


class Part:
    """A part of a review: some runs in a lane."""

    def __init__(self, lane: int, runs: Runs) -> None:
        self.lane = lane
        self._runs = runs
        self._send, self.results = anyio.create_memory_object_stream[Take](math.inf)
        self.failed: Exception | None = None

    async def make(self) -> None:
        """Make the runs, and hand their results on. An error is raised where these are taken."""
        with self._send:
            try:
                async for take in self._runs:
                    self._send.send_nowait(take)
            except Exception as error:
                self.failed = error

    def close(self) -> None:
        """Drop the results that nobody takes."""
        self._send.close()
        self.results.close()


async def caught_up() -> AsyncGenerator[Take]:
    """Wait, in a part, until all earlier results are in the report. Yield what ends the wait."""
    taken = anyio.Event()
    yield taken.set
    await taken.wait()


async def take_in_order(parts: Sequence[Part], is_over: Callable[[], bool]) -> None:
    """Make the runs of all parts, and take their results in the order of the parts.

    Args:
        parts: The parts.
        is_over: Returns whether no further result is taken, and no further run is made.
    """
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        for lane in dict.fromkeys(part.lane for part in parts):
            group.start_soon(_make_lane, [part for part in parts if part.lane == lane])
        try:
            await _take(parts, is_over)
        except Exception as error:
            failed = error  # raised below, where no group wraps it
        group.cancel_scope.cancel()
    for part in parts:
        part.close()
    if failed is not None:
        raise failed


async def _make_lane(parts: Sequence[Part]) -> None:
    for part in parts:
        await part.make()


async def _take(parts: Sequence[Part], is_over: Callable[[], bool]) -> None:
    for part in parts:
        async for take in part.results:
            if is_over():
                return
            take()
        if part.failed is not None:
            raise part.failed
