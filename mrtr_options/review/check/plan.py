"""The plan of a review: which runs are made, in which order, and what is left out.

Knows what a deployment cannot do, and how long a request takes there; makes no runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice, takewhile

import anyio

from mrtr_options.review.bench.deployments import Deployment
from mrtr_options.review.bench.deployments.children import HANG_SECONDS
from mrtr_options.review.bench.faults import EXPLORED
from mrtr_options.review.bench.history import Request
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.setup import ERAS, Era, Words
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.check.drawn import at_random
from mrtr_options.review.check.pace import CASE_SECONDS, DRAWN_SECONDS, SCHEDULE_SECONDS, Pace
from mrtr_options.review.check.report import Report
from mrtr_options.review.judge.grid import Cell, split

DRAWN = 40
"""The number of runs that are drawn at random, besides the schedules and the cases."""

FAULTS = 1
"""The default number of faults at a time that a call is made under, to look for risks."""

CONTROLS = "clean-tokyo", "clean-springfield"
"""The calls that have to end well, or else a refused attack does not count."""

MEASURED = 3
"""The number of requests that are made to measure how long one takes."""

LONG_FROM = "crowd"
"""The first of the cases that take long; the cases before it come before the schedules."""

_NOT_NAMED = "that --only does not name"
_NO_RISKS = ", those that look for risks among them"


@dataclass(frozen=True)
class Extent:
    """The extent of a review.

    Attributes:
        drawn: The number of runs that are drawn at random. A number of seconds would make the
            verdict depend on the machine.
        seed: The seed of the runs that are drawn at random.
        hang_seconds: The longest time for one request before it is called hung.
        faults: The most faults at a time, to look for risks; 0 not to look. None for `FAULTS`, or 0
            if only some runs are made.
        only: Slugs; if there are any, only these runs are made.
        also: The kinds of faults that are tried besides the usual ones.
        words: The words of a client that calls again.
    """

    drawn: int = DRAWN
    seed: int = 0
    hang_seconds: float = HANG_SECONDS
    faults: int | None = None
    only: Collection[str] = ()
    also: Collection[str] = ()
    words: Words = "same"

    @property
    def bound(self) -> int:
        """The number of faults at a time."""
        if self.faults is not None:
            return self.faults
        return 0 if self.only else FAULTS


@dataclass(frozen=True)
class Proposal:
    """A proposal, and how it is called.

    Attributes:
        subject: The proposal as a subject.
        fit: Adapts a case to the deployment.
        kinds: The kinds of faults that are tried in a call.
        setups: The clients and the fleets of that call; the risks are those of the first.
        fresh: Starts servers that have answered nothing; None if none can be started.
        measured_by: The era of the client that measures how long a request takes.
    """

    subject: Subject
    fit: Callable[[Scenario], Scenario] = lambda scenario: scenario
    kinds: Collection[str] = tuple(EXPLORED)
    setups: Sequence[Scenario] = (calling(),)
    fresh: Callable[[], AbstractAsyncContextManager[Deployment]] | None = None
    measured_by: Era = "modern"


@dataclass(frozen=True)
class Plan:
    """The runs of a review.

    Attributes:
        controls: The calls that have to end well.
        before: Cases that come before all others.
        quick: The most revealing cases.
        schedules: The schedules with names.
        long: The cases that take long.
        drawn: The cases that are drawn at random.
        deadly: The cases in which an instance dies in a round. They come last.
        pace: The time of one request, by which the runs were chosen.
    """

    controls: Sequence[Scenario]
    before: Sequence[Scenario]
    quick: Sequence[Scenario]
    schedules: Sequence[Scenario]
    long: Sequence[Scenario]
    drawn: Sequence[Scenario]
    deadly: Sequence[Scenario]
    pace: Pace

    @property
    def size(self) -> int:
        """The number of runs, but for the deadly ones."""
        parts = (self.controls, self.before, self.quick, self.schedules, self.long, self.drawn)
        return sum(map(len, parts))


class Planner:
    """Chooses the runs of a review, and counts in the report those that are left out."""

    def __init__(
        self, proposal: Proposal, where: Deployment, extent: Extent, report: Report
    ) -> None:
        self._proposal = proposal
        self._where = where
        self._extent = extent
        self._report = report

    async def make_plan(self, before: Sequence[Scenario]) -> Plan:
        """Return the runs that are asked for and possible. Count the others as left out.

        Args:
            before: Cases that are held against the contract before all others.
        """
        extent = self._extent
        schedules, missing = schedules_of(self._proposal.subject)
        schedules = self.able(schedules)
        for cell in missing:
            self._leave_out(cell)
        cases = self.able(map(self._proposal.fit, systematic()))
        deadly = [each for each in cases if each.is_deadly]
        cases = [each for each in cases if not each.is_deadly]
        drawn = () if extent.only else islice(at_random(extent.seed), extent.drawn)
        at_last = self.able(map(self._proposal.fit, drawn))
        if extent.only:
            why = _NOT_NAMED if extent.bound else _NOT_NAMED + _NO_RISKS
            self._report.leave_out(why)
        pace = await self._measured_pace()
        cases = self._in_pace(pace, cases, CASE_SECONDS)
        schedules = self._in_pace(pace, schedules, SCHEDULE_SECONDS)
        at_last = self._in_pace(pace, at_last, DRAWN_SECONDS)
        # The most revealing runs come first: a broken server has its first finding within seconds.
        quick = [*takewhile(lambda case: case.name != LONG_FROM, cases)]
        long = cases[len(quick) :]
        controls = self._controls()
        return Plan(controls, before, quick, schedules, long, at_last, deadly, pace)

    def able(self, scenarios: Iterable[Scenario]) -> list[Scenario]:
        """Return the runs that are asked for and possible there. Count the others as left out."""
        able: list[Scenario] = []
        for scenario in scenarios:
            if self._extent.only and scenario.name not in self._extent.only:
                continue
            why = self._where.cannot(scenario)
            if why is None:
                able.append(scenario)
            else:
                self._report.leave_out(why, 1)
        return able

    def _leave_out(self, cell: Cell) -> None:
        """Count a chosen run as left out because there is no version to deploy."""
        if self._extent.only and cell.scenario.name not in self._extent.only:
            return
        why = self._where.cannot(cell.scenario) or f"with a redeploy: {cell.missing}"
        self._report.leave_out(why, 1)

    def _controls(self) -> list[Scenario]:
        """Return the clean calls that have to end well.

        A server that refuses every state withstands every attack. The first call was clean, too,
        but was not held against the contract.
        """
        clean = [SCHEDULES[slug].of(era) for slug in CONTROLS for era in ERAS]
        on_one = [each.on_one() for each in clean if each is not None]
        calls = [each for each in on_one if self._where.cannot(each) is None]
        newest = [call for call in calls if call.setup.era == "modern"]
        return newest or calls

    async def _measured_pace(self) -> Pace:
        """Measure how long a request with one effect takes."""
        era = self._proposal.measured_by
        scenario = named("unknown-place", era).on_one()
        times: list[float] = []
        async with self._where.started(self._proposal.subject, scenario) as instances:
            for _ in range(MEASURED):
                began = anyio.current_time()
                await instances.send(0, Request("Atlantis", era=era))
                times.append(anyio.current_time() - began)
        return Pace(min(times))

    def _in_pace(self, pace: Pace, scenarios: Sequence[Scenario], seconds: float) -> list[Scenario]:
        """Return the runs that are tried of a slow server, and count those that are left out."""
        some, parts, left_out = pace.within(scenarios, seconds)
        if parts:
            self._report.leave_out(f"in part, {pace}", parts)
        if left_out:
            self._report.leave_out(str(pace), left_out)
        return some


def schedules_of(subject: Subject) -> tuple[list[Scenario], list[Cell]]:
    """Return the schedules on one instance and on two, and the runs that lack a version to deploy.

    A schedule that deploys a version is played on one instance if that is enough.
    """
    made, missing = (_once(found) for found in split([subject]))
    return [cell.scenario for cell in made], missing


def _once(found: Sequence[Cell]) -> list[Cell]:
    alone = {cell.scenario.name for cell in found if cell.deployment == "one"}
    return [
        cell
        for cell in found
        if cell.deployment == "one" or not (cell.scenario.changes and cell.scenario.name in alone)
    ]
