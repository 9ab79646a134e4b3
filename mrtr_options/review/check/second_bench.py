"""A second bench: a process that makes some of the runs of a review, on servers of its own.

It is a process, since tasks of one process take turns. While one task judges a run or waits for a
ledger's lock, another one ends a client or an instance too late. Then the verdict would depend on
the other runs.

Multiprocessing pickles the results. Both ends of that pipe are ours: nothing that a server or a
client sends is unpickled.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import anyio
import anyio.to_thread

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.deployments import quiet_servers, scratch
from mrtr_options.review.bench.deployments.children import Children
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.starting import end, start

Result = tuple[History, list[str]] | UsageError
"""A run with the tracebacks of the author's exceptions so far, or why it was not made."""


# --- the process --------------------------------------------------------------------------------


def _make_runs(
    subject: Subject,
    scenarios: Sequence[Scenario],
    folder: Path,
    hang_seconds: float,
    results: Connection,
) -> None:
    """Make runs in this order, and send the result of each; a task for `starting`."""

    async def make() -> None:
        servers = Children(subject.option, folder, hang_seconds=hang_seconds)
        try:
            async with servers.running():
                for scenario in scenarios:
                    history = await run(subject, scenario, servers)
                    results.send((history, servers.raised))
        except UsageError as error:
            results.send(error)

    with quiet_servers():
        anyio.run(make)


# --- in the first bench -------------------------------------------------------------------------


class SecondBench:
    """The runs that the second bench makes.

    Args:
        scenarios: The scenarios of the runs, in their order.
        results: The results, by number.

    Attributes:
        raised: The tracebacks of the author's exceptions, up to the last run that was taken.
    """

    def __init__(
        self, scenarios: Sequence[Scenario] = (), results: Sequence[Future[Result]] = ()
    ) -> None:
        self.raised: list[str] = []
        self._scenarios = scenarios
        self._results = results
        # Scenarios may be equal, so ids tell them apart. They are kept, so no id is used again.
        self._numbers = {id(scenario): number for number, scenario in enumerate(scenarios)}

    def makes(self, scenario: Scenario) -> bool:
        """Return whether this bench makes the run of a scenario."""
        return id(scenario) in self._numbers

    async def take(self, scenario: Scenario) -> History:
        """Return the run of a scenario, as soon as it is made.

        Raises:
            UsageError: The servers do not come up again, or the second bench has ended.
        """
        coming = self._results[self._numbers[id(scenario)]]
        try:
            result = await anyio.to_thread.run_sync(coming.result, abandon_on_cancel=True)
        except (EOFError, OSError) as error:
            reason = "a process that makes runs of the review has ended; check the file again"
            raise UsageError(reason) from error
        if isinstance(result, UsageError):
            raise result
        history, self.raised = result
        return replace(history, scenario=scenario)


@asynccontextmanager
async def second_bench(
    subject: Subject, hang_seconds: float, scenarios: Sequence[Scenario]
) -> AsyncGenerator[SecondBench]:
    """Start a second bench, which makes runs in this order. It is killed with the block."""
    results, its_results = multiprocessing.Pipe(duplex=False)
    with scratch() as folder, results, ThreadPoolExecutor(max_workers=1) as reader:
        with its_results:
            process = start(_make_runs, subject, scenarios, folder, hang_seconds, its_results)
        try:
            # One thread reads ahead, since a pipe that is full would keep the second bench waiting.
            coming = [reader.submit(results.recv) for _ in scenarios]
            yield SecondBench(scenarios, coming)
        finally:
            end(process)  # then there is nothing more to read
