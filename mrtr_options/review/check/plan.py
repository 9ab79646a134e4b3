"""The plan of a review: which runs are made, in which order, and what is left out.

Parts of the cases are tried of a slow server, within a budget of seconds. The cost of a run is
computed from the time of one request, and not read from a clock, so that the same server is always
held to the same cases. Knows what a deployment cannot do; makes no runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import islice, takewhile

import anyio

from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.deployments import Deployment
from mrtr_options.review.bench.deployments.children import HANG_SECONDS
from mrtr_options.review.bench.faults import EXPLORED
from mrtr_options.review.bench.history import Request
from mrtr_options.review.bench.messages import ERAS
from mrtr_options.review.bench.scenario import Scenario, Words, calling
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.steps import Step
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.breaches import RUN_REQUESTS, without
from mrtr_options.review.check.cases import at_random, systematic
from mrtr_options.review.check.report import Report
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.review.judge.grid import Cell, split

SLOW_SECONDS = 0.12
"""The time from which a request counts as slow; a busy machine takes less for one of `MEASURED`."""

CASE_SECONDS = 150.0
"""The longest time for all cases of a slow server."""
SCHEDULE_SECONDS = 120.0
"""The longest time for all schedules of a slow server."""
DRAWN_SECONDS = 20.0
"""The longest time for all drawn runs of a slow server."""

SHRINK_SECONDS = 20.0
"""The longest time to shrink one breach of a slow server."""

MOST_CALLS = 12
MOST_FORGED = 10
MOST_REQUESTS = 40
"""The most calls, forged states and requests of one case that a slow server gets."""


@dataclass(frozen=True)
class Pace:
    """The time of one request with one effect at a server."""

    seconds: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Return whether the cases are too long for the server."""
        return self.seconds > SLOW_SECONDS

    @property
    def shrink_requests(self) -> int | None:
        """The requests that may be sent to shrink a breach; None for the usual number."""
        return math.ceil(SHRINK_SECONDS / self.seconds) if self.is_slow else None

    def __str__(self) -> str:
        return f"since a request takes {self.seconds:.1f} s here"

    def within(
        self, scenarios: Sequence[Scenario], seconds: float
    ) -> tuple[list[Scenario], int, int]:
        """Choose the runs that are tried: the first ones, in part, until the seconds are used up.

        Returns:
            The runs that are tried, the number of parts among them, and the number left out.
        """
        if not self.is_slow:
            return list(scenarios), 0, 0
        chosen: list[Scenario] = []
        parts = 0
        for scenario in scenarios:
            some = part_of(scenario)
            cost = self.seconds * requests_of(some.script)
            if cost > seconds:
                continue
            seconds -= cost
            chosen.append(some)
            if some is not scenario:
                parts += 1
        return chosen, parts, len(scenarios) - len(chosen)


def requests_of(script: Sequence[Step]) -> int:
    """Return how many effects, about, the requests of a script have."""
    return sum(step.effects for step in script) if script else 4


def part_of(scenario: Scenario) -> Scenario:
    """Return the same scenario with fewer calls, fewer forged states and fewer requests.

    A scenario that is short enough is returned itself.
    """
    if not scenario.script or requests_of(scenario.script) <= MOST_REQUESTS:
        return scenario
    calls = list(dict.fromkeys(call for step in scenario.script for call in step.calls))
    steps = list(scenario.script)
    if len(calls) > MOST_CALLS:
        every = math.ceil(len(calls) / MOST_CALLS)
        left_out = [call for at, call in enumerate(calls) if at % every]
        thinned = list(without(steps, left_out))
        steps = thinned or steps
    some: list[Step] = []
    left = MOST_REQUESTS
    for step in steps:
        if isinstance(step, Forge):
            step = replace(step, most=MOST_FORGED)
        left -= step.effects
        if left < 0:
            break
        some.append(step)
    return replace(scenario, script=tuple(some or steps[:1]))


DRAWN = 40
"""The number of runs that are drawn at random, besides the schedules and the cases."""

FAULTS = 1
"""The default number of faults at a time that a call is made under, to look for risks."""

CONTROLS = "clean-tokyo", "clean-springfield"
"""The calls that have to end well, or else a refused attack does not count."""

MEASURED = 20
"""The most requests that are made to measure how long one takes: until one is not slow."""

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
    """

    subject: Subject
    fit: Callable[[Scenario], Scenario] = lambda scenario: scenario
    kinds: Collection[str] = tuple(EXPLORED)
    setups: Sequence[Scenario] = (calling(),)
    fresh: Callable[[], AbstractAsyncContextManager[Deployment]] | None = None


@dataclass(frozen=True)
class Plan:
    """The runs of a review.

    Attributes:
        first: The calls that have to end well, and the cases that come before all others.
        quick: The most revealing cases.
        schedules: The schedules with names.
        long: The cases that take long.
        drawn: The cases that are drawn at random.
        deadly: The cases in which an instance dies in a round. They come last.
        pace: The time of one request, by which the runs were chosen.
    """

    first: Sequence[Scenario]
    quick: Sequence[Scenario]
    schedules: Sequence[Scenario]
    long: Sequence[Scenario]
    drawn: Sequence[Scenario]
    deadly: Sequence[Scenario]
    pace: Pace

    @property
    def size(self) -> int:
        """The number of runs, but for the deadly ones."""
        parts = (self.first, self.quick, self.schedules, self.long, self.drawn)
        return sum(map(len, parts))

    @property
    def second_part(self) -> list[Scenario]:
        """The runs of a second bench, so that both benches end at about the same time.

        It makes the drawn cases while the first bench explores, and the deadly cases while the
        first one looks at the memory. The crowd is not among them, since it may be left out.
        """
        chosen: list[Scenario] = []
        first = second = 0
        for scenario in (*self.quick, *self.schedules, *self.long):
            requests = RUN_REQUESTS + requests_of(scenario.script)
            is_crowd = len(scenario.callers) >= ROOM
            if second < first and not is_crowd:
                chosen.append(scenario)
                second += requests
            else:
                first += requests
        return [*chosen, *self.drawn, *self.deadly]


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
            if self.able([cell.scenario]):
                self._report.leave_out(f"with a redeploy: {cell.missing}", 1)
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
        # The most revealing runs come first: a broken server has its first breach within seconds.
        quick = [*takewhile(lambda case: case.name != LONG_FROM, cases)]
        long = cases[len(quick) :]
        first = [*self._controls(), *before]
        return Plan(first, quick, schedules, long, at_last, deadly, pace)

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
        era = self._proposal.setups[0].setup.era
        scenario = named("unknown-place", era).on_one()
        times: list[float] = []
        async with self._where.started(self._proposal.subject, scenario) as instances:
            for _ in range(MEASURED):
                began = anyio.current_time()
                await instances.send(0, Request("Atlantis", era=era))
                times.append(anyio.current_time() - began)
                if times[-1] <= SLOW_SECONDS:
                    break
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
