"""The steps of a review: make the runs, hold each against the contract, and shrink the findings.

Knows deployments by their protocol; nothing of how the servers of a proposal are found or started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.deployments import Deployment
from mrtr_options.review.bench.deployments.children import CannotStart, Children
from mrtr_options.review.bench.faults import names_of
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import run as run_one
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.setup import ERAS
from mrtr_options.review.check import batches
from mrtr_options.review.check.cases import TASKS
from mrtr_options.review.check.exploration import Exploration
from mrtr_options.review.check.findings import (
    GIVE_UP,
    Finding,
    on_its_own,
    smallest,
)
from mrtr_options.review.check.lanes import Lane, Outcome, Part, Runs, caught_up, take_in_order
from mrtr_options.review.check.pace import Pace
from mrtr_options.review.check.plan import Extent, Plan, Planner, Proposal
from mrtr_options.review.check.report import Report
from mrtr_options.review.check.risks import ALSO
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge import guarantees
from mrtr_options.review.judge.anomalies import anomalies_in
from mrtr_options.review.judge.contract.allowed import ROOM

SMALLER_RUNS = 200
"""The number of runs, about, that may be made to shrink the findings."""

FRESH_RUNS = 60
"""The number of runs on fresh servers after which no further finding is tried there."""

OnRun = Callable[[str, int], None]
"""Called with the name of each run, and with the number of runs, as far as it is known by then."""

OnFinding = Callable[[Finding], None]
"""Called with each broken rule as soon as it is found."""

_TOO_MANY = f"of over {ROOM:,} calls, since in another run a request had no response"
_NOT_SMALLER = f"to make findings smaller, after {SMALLER_RUNS} of them"
_STOPPED_EARLY = f"since in {GIVE_UP} others a request had no response, or the server was gone"


@dataclass(frozen=True)
class Listeners:
    """The functions that hear of a review while it goes on."""

    on_run: OnRun
    on_finding: OnFinding


class Review:
    """The review of a proposal.

    The first lane serves single runs and the cases. If there is a second one, the schedules, the
    calls under faults and the drawn cases are made there at the same time.
    """

    def __init__(
        self,
        proposal: Proposal,
        lanes: Sequence[Lane],
        extent: Extent,
        report: Report,
        listeners: Listeners,
    ) -> None:
        self.proposal = proposal
        self.lanes = lanes
        self.extent = extent
        self.report = report
        self.pace = Pace()
        self.raised: list[str] = []
        """The exceptions of modern runs in which nothing goes wrong at an effect."""
        self.legacy = Counter[str]()
        """The exceptions of an old client's runs."""
        self._listeners = listeners
        self._begun = 0
        self._expected = 1
        self._fresh_runs = 0
        self._kept: list[Finding] = []

    # --- single runs ----------------------------------------------------------------------------

    def begin(self, name: str) -> None:
        """Report the name of a run that is about to be made."""
        self._begun += 1
        self._expected = max(self._expected, self._begun)
        self._listeners.on_run(name, self._expected)

    def begin_scenario(self, scenario: Scenario) -> None:
        """Report the name of a scenario that is about to be played."""
        instances = "one instance" if scenario.instances == 1 else "two instances"
        self.begin(f"{scenario.name}, {scenario.setup.era}, {instances}")

    async def play(self, scenario: Scenario, lane: Lane | None = None) -> History:
        """Make a run in a lane, or in the first one, and count it."""
        self.begin_scenario(scenario)
        outcome = await (lane or self.lanes[0]).make(self.proposal.subject, scenario)
        self.count(outcome)
        return outcome.history

    async def play_elsewhere(self, scenario: Scenario, where: Deployment) -> History:
        """Make a run on other servers than those of the review, and count it."""
        self.begin_scenario(scenario)
        history = await run_one(self.proposal.subject, scenario, where)
        self.report.runs += 1
        return history

    def count(self, outcome: Outcome) -> None:
        """Count a run, and take its exceptions."""
        self.report.runs += 1
        scenario = outcome.history.scenario
        if scenario.setup.era == "legacy":
            self.legacy += outcome.raised
        elif not scenario.at_effects:
            self.raised += outcome.raised
        if outcome.is_gone:
            self.report.unanswered += GIVE_UP

    def hold(self, history: History) -> None:
        """Hold a run against the contract, and report rules that are broken for the first time."""
        known = {*self.report.first}
        self.report.hold(history)
        for finding in self.report.findings:
            if finding.rule not in known:
                self._listeners.on_finding(finding)

    # --- the runs -------------------------------------------------------------------------------

    async def make_runs(self, before: Sequence[Scenario] = ()) -> Plan:
        """Make all runs, and shrink the findings. Only the deadly cases are left.

        Args:
            before: Cases that are held against the contract before all others.
        """
        planner = Planner(self.proposal, self.lanes[0].where, self.extent, self.report)
        plan = await planner.make_plan(before)
        self.pace = plan.pace
        setups = self.proposal.setups if self.extent.bound else ()
        self._expected = self.report.runs + plan.size + len(setups)
        first = 0
        second = len(self.lanes) - 1
        parts = [
            self._part(first, self._look([*plan.controls, *plan.before, *plan.quick])),
            self._part(first, self._look_at_tasks(planner)),
            self._part(second, self._look_by_name(plan.schedules)),
            self._part(first, self._look(plan.long)),
        ]
        for setup in setups:
            explored = Explored(self.proposal.subject, setup, self.extent.bound)
            parts.append(self._part(second, self._explore(explored)))
        parts.append(self._part(second, self._look(plan.drawn)))
        if second and not self.pace.is_slow:
            parts.append(self._part(second, self._look_at_memory()))
        await take_in_order(parts, lambda: self.report.stopped_early)
        if self.report.stopped_early:
            not_made = len(plan.schedules) - len(self.report.observations)
            self.report.left_out[_STOPPED_EARLY] += not_made
            return plan
        await self._make_smaller()
        for finding in self._kept:
            self.report.first.setdefault(finding.rule, finding)
        return plan

    def _part(self, lane: int, runs: Callable[[Lane], Runs]) -> Part:
        return Part(lane, runs(self.lanes[lane]))

    async def look(self, scenarios: Iterable[Scenario]) -> None:
        """Make runs in the first lane, and hold each against the contract."""
        for scenario in scenarios:
            if self.report.stopped_early:
                return
            self.hold(await self.play(scenario))

    def _look(self, scenarios: Sequence[Scenario]) -> Callable[[Lane], Runs]:
        """Make runs, and hold each against the contract."""

        async def runs(lane: Lane) -> Runs:
            for scenario in scenarios:
                if len(scenario.callers) >= ROOM:
                    async for take in caught_up():
                        yield take
                    if self.report.unanswered:
                        # Each request may take nearly as long as a hang.
                        yield partial(self._leave_out_for, _TOO_MANY)
                        continue
                async for take in self._make(lane, scenario, self.hold):
                    yield take

        return runs

    def _leave_out_for(self, why: str) -> None:
        self.report.left_out[why] += 1

    async def _make(
        self, lane: Lane, scenario: Scenario, take_history: Callable[[History], None]
    ) -> Runs:
        """Make a run. Yield what takes it into the report."""
        self.begin_scenario(scenario)
        outcome = await lane.make(self.proposal.subject, scenario)
        async for take in self._taken(outcome, take_history):
            yield take

    async def _taken(self, outcome: Outcome, take_history: Callable[[History], None]) -> Runs:
        """Yield what takes a run into the report. Wait for that if it may end the review."""

        def take() -> None:
            self.count(outcome)
            take_history(outcome.history)

        yield take
        if outcome.is_hung or outcome.is_gone:
            async for waits in caught_up():
                yield waits

    def _look_at_tasks(self, planner: Planner) -> Callable[[Lane], Runs]:
        """Judge the tasks of a server that hands some out to clients that declare the extension."""

        async def runs(lane: Lane) -> Runs:
            async for take in caught_up():
                yield take
            if not self.report.tasks_seen or self.proposal.subject.option.takes_tasks:
                return  # an option that takes tasks has these among its schedules
            modern = [SCHEDULES[slug].modern for slug in TASKS]
            both = [each for run in modern if run is not None for each in (run.on_one(), run)]
            async for take in self._look(planner.able(both))(lane):
                yield take

        return runs

    def _look_by_name(self, schedules: Sequence[Scenario]) -> Callable[[Lane], Runs]:
        """Make the runs of the schedules, and store the observation of each."""
        report = self.report

        def take_schedule(history: History) -> None:
            self.hold(history)
            scenario = history.scenario
            report.observations.append(guarantees.judge_history(history, report.own))
            if scenario.name in ALSO and scenario.setup.era == "modern":
                report.shown[scenario.name] = anomalies_in(history)
                report.histories[scenario.name] = history

        async def runs(lane: Lane) -> Runs:
            for scenario in schedules:
                async for take in self._make(lane, scenario, take_schedule):
                    yield take

        return runs

    def _explore(self, found: Explored) -> Callable[[Lane], Runs]:
        """Make a call under every set of faults up to a bound, and store its anomalies."""

        async def runs(lane: Lane) -> Runs:
            exploration = Exploration(self.proposal, found, lane, self.report)
            outcomes: list[Outcome] = []

            async def play(scenario: Scenario) -> History:
                self.begin(names_of(scenario.faults) or "no fault")
                outcomes.append(await lane.make(self.proposal.subject, scenario))
                return outcomes[-1].history

            def take_history(history: History) -> None:
                self.hold(history)
                exploration.take(history)

            yield exploration.begin
            async for history in exploration.runs(play):
                if not history.scenario.faults:
                    self._expected += exploration.following(history).count(None)
                async for take in self._taken(outcomes.pop(), take_history):
                    yield take

        return runs

    def _look_at_memory(self) -> Callable[[Lane], Runs]:
        """Check how much a process holds of calls with one outcome, for each outcome and era."""

        async def runs(lane: Lane) -> Runs:
            children = lane.where
            assert isinstance(children, Children)
            for era in ERAS:
                subject = self.proposal.subject
                async for outcome, came in batches.held(subject, children, era, self._begin_batch):
                    scenario = batches.one_call(outcome, era)
                    take = partial(self._take_too_much, came)
                    async for each in self._make(lane, scenario, take):
                        yield each

        return runs

    def _begin_batch(self, name: str) -> None:
        self.report.runs += 1
        self.begin(name)

    def _take_too_much(self, came: str, history: History) -> None:
        problem = rules.NOTHING_IS_KEPT.broken(None, "about as much as before", came)
        self._kept.append(Finding(history, problem))

    # --- smaller runs ---------------------------------------------------------------------------

    async def _make_smaller(self) -> None:
        """Shrink the findings."""
        report = self.report
        begun = report.runs
        requests = self.pace.shrink_requests
        for rule, finding in list(report.first.items()):
            if report.runs - begun >= SMALLER_RUNS:
                report.left_out[_NOT_SMALLER] += 0
                return
            if finding.follows:
                continue
            lane = self._lane_of(finding)
            play = partial(self.play, lane=lane)
            smaller = await smallest(play, finding, report.tools, requests=requests)
            smaller = await self._on_its_own(smaller, finding, lane)
            if smaller.rule != rule:  # another rule is broken there, which may be reported already
                del report.first[rule]
                smaller = report.first.get(smaller.rule, smaller)
            report.first[smaller.rule] = smaller

    def _lane_of(self, finding: Finding) -> Lane:
        """Return the lane in which a finding was made."""
        scenario = finding.history.scenario
        for lane in self.lanes:
            if any(made.scenario is scenario for made in lane.made):
                return lane
        return self.lanes[0]

    async def _on_its_own(self, finding: Finding, whole: Finding, lane: Lane) -> Finding:
        """Return a shrunk finding of a whole run as fresh servers show it."""
        fresh = self.proposal.fresh
        if fresh is None or self._fresh_runs >= FRESH_RUNS:
            return replace(finding, set_up=None if fresh else False)
        scenario = whole.history.scenario
        scenarios = [made.scenario for made in lane.made]
        until = next((at for at, made in enumerate(scenarios, start=1) if made is scenario), 0)
        earlier = lane.made[:until]

        async def play(scenario: Scenario) -> History:
            self._fresh_runs += 1
            async with fresh() as servers:
                return await self.play_elsewhere(scenario, servers)

        try:
            requests = self.pace.shrink_requests
            return await on_its_own(play, finding, whole, earlier, self.report.tools, requests)
        except CannotStart:  # it is as it was found
            return finding
