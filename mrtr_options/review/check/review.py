"""The steps of a review: make the runs, hold each against the contract, and shrink the breaches.

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
from mrtr_options.review.bench.deployments.remote import Remote
from mrtr_options.review.bench.faults import Fault, names_of
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import ERAS
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.task_schedules import TASK_SCHEDULES
from mrtr_options.review.check import batches
from mrtr_options.review.check.breaches import (
    GIVE_UP,
    Breach,
    Made,
    on_its_own,
    smallest,
    waiting_calls,
)
from mrtr_options.review.check.cases import TASKS
from mrtr_options.review.check.plan import Extent, Pace, Plan, Planner, Proposal
from mrtr_options.review.check.report import ALSO, Report
from mrtr_options.review.check.second_bench import SecondBench
from mrtr_options.review.explore import explore, not_tried, possible
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge import guarantees
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.review.judge.facts import anomalies_in

SMALLER_RUNS = 200
"""The number of runs, about, that may be made to shrink the breaches."""

FRESH_RUNS = 60
"""The number of runs on fresh servers after which no further breach is tried there."""

_TOO_MANY = f"of over {ROOM:,} calls, since in another run a request had no response"
_NO_TASKS = "with a task: no client was handed one"
_NOT_SMALLER = f"to make breaches smaller, after {SMALLER_RUNS} of them"
_STOPPED_EARLY = f"since in {GIVE_UP} others a request had no response, or the server was gone"


def _ignore(*_: object) -> None:
    return


@dataclass(frozen=True)
class Listeners:
    """The functions that hear of a review while it goes on.

    Attributes:
        on_run: Called with the name of each run of the proposal before it is made, and with the
            number of runs, as far as it is known by then.
        on_option: Called with the name of each run of an option that the proposal is compared with.
        on_breach: Called with each broken rule as soon as it is found.
    """

    on_run: Callable[[str, int], None] = _ignore
    on_option: Callable[[str], None] = _ignore
    on_breach: Callable[[Breach], None] = _ignore


NOBODY = Listeners()


class Review:
    """The review of a proposal, on servers on which one run is made after the other.

    A second bench may make some of the runs. They are held against the contract in their turn.
    """

    def __init__(
        self,
        proposal: Proposal,
        where: Deployment,
        extent: Extent,
        report: Report,
        listeners: Listeners,
    ) -> None:
        self.proposal = proposal
        self.where = where
        self.extent = extent
        self.report = report
        self.pace = Pace()
        self.second = SecondBench()
        """The runs that are not made on these servers."""
        self.raised: list[str] = []
        """The exceptions of modern runs in which nothing goes wrong at an effect."""
        self.legacy = Counter[str]()
        """The exceptions of an old client's runs."""
        self._listeners = listeners
        self._planner = Planner(proposal, where, extent, report)
        self._made: list[Made] = []
        self._begun = 0
        self._expected = 1
        self._fresh_runs = 0

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

    async def play(self, scenario: Scenario) -> History:
        """Make a run, and count it."""
        self.begin_scenario(scenario)
        return await self._make(scenario)

    async def play_elsewhere(self, scenario: Scenario, where: Deployment) -> History:
        """Make a run on servers of its own, and count it."""
        self.begin_scenario(scenario)
        history = await run(self.proposal.subject, scenario, where)
        self.report.runs += 1
        return history

    @property
    def tracebacks(self) -> list[str]:
        """The latest exceptions of the author's code."""
        here = self.where.raised if isinstance(self.where, Children) else []
        return here + self.second.raised

    async def _make(self, scenario: Scenario) -> History:
        """Make a run, or take it from the second bench, and count it and its exceptions."""
        before = Counter(self.tracebacks)
        if self.second.makes(scenario):
            history = await self.second.take(scenario)
        else:
            history = await run(self.proposal.subject, scenario, self.where)
        open_calls = len(waiting_calls(history))
        self._made.append(Made(scenario, len(history.exchanges), open_calls))
        raised = Counter(self.tracebacks) - before
        self.report.runs += 1
        if scenario.setup.era == "legacy":
            self.legacy += raised
        elif not scenario.at_effects:
            self.raised += raised
        if isinstance(self.where, Remote) and self.where.is_gone:
            self.report.stop_early()
        return history

    def hold(self, history: History) -> None:
        """Hold a run against the contract, and report rules that are broken for the first time."""
        known = {*self.report.first}
        self.report.hold(history)
        for breach in self.report.breaches:
            if breach.rule not in known:
                self._listeners.on_breach(breach)

    # --- the runs -------------------------------------------------------------------------------

    async def make_plan(self, before: Sequence[Scenario] = ()) -> Plan:
        """Return the runs of the review.

        Args:
            before: Cases that are held against the contract before all others.
        """
        plan = await self._planner.make_plan(before)
        self.pace = plan.pace
        return plan

    async def make_runs(self, plan: Plan) -> None:
        """Make all runs, and shrink the breaches. Only the deadly cases are left."""
        setups = self.proposal.setups if self.extent.bound else ()
        self._expected = self.report.runs + plan.size + len(setups)
        await self.look([*plan.first, *plan.quick])
        await self._look_at_tasks()
        await self._look_by_name(plan.schedules)
        await self.look(plan.long)
        for setup in setups:
            if not self.report.stopped_early:
                await self._explore(Explored(self.proposal.subject, setup, self.extent.bound))
        await self.look(plan.drawn)
        if self.report.stopped_early:
            not_made = len(plan.schedules) - len(self.report.observations)
            self.report.leave_out(_STOPPED_EARLY, not_made)
            return
        await self._make_smaller()
        await self._look_at_memory()

    async def look(self, scenarios: Iterable[Scenario]) -> None:
        """Make runs, and hold each against the contract."""
        for scenario in scenarios:
            if self.report.stopped_early:
                return
            if self.report.unanswered and len(scenario.callers) >= ROOM:
                # Each request may take nearly as long as a hang.
                self.report.leave_out(_TOO_MANY, 1)
            else:
                self.hold(await self.play(scenario))

    async def _look_at_tasks(self) -> None:
        """Judge the tasks of a server that hands some out to clients that declare the extension."""
        if self.proposal.subject.option.takes_tasks:
            return  # it has these among its schedules
        if not self.report.tasks_seen:
            asked_for = [each for each in TASK_SCHEDULES if each.name in self.extent.only]
            if asked_for:
                self.report.leave_out(_NO_TASKS, len(asked_for))
            return
        modern = [SCHEDULES[slug].modern for slug in TASKS]
        both = [each for run in modern if run is not None for each in (run.on_one(), run)]
        await self.look(self._planner.able(both))

    async def _look_by_name(self, schedules: Sequence[Scenario]) -> None:
        """Make the runs of the schedules, and store the observation of each."""
        report = self.report
        for scenario in schedules:
            if report.stopped_early:
                return
            history = await self.play(scenario)
            self.hold(history)
            report.observations.append(guarantees.judge_history(history, report.own))
            if scenario.name in ALSO and scenario.setup.era == "modern":
                report.shown[scenario.name] = anomalies_in(history)
                report.histories[scenario.name] = history

    async def _explore(self, found: Explored) -> None:
        """Make a call under every set of faults up to a bound, and store its anomalies."""
        is_first = self.report.explored is None
        if is_first:
            self.report.explored = found
        else:
            self.report.otherwise.append(found)
        kinds = tuple(self.proposal.kinds)
        cannot = partial(self._cannot, found.scenario)

        async def play(scenario: Scenario) -> History:
            self.begin(names_of(scenario.faults) or "no fault")
            return await self._make(scenario)

        can = [name for name in kinds if cannot(name) is None]
        async for history in explore(self.proposal.subject, found.scenario, found.bound, play, can):
            self.hold(history)
            self._take_anomalies(found, history, is_first=is_first)
            if not history.scenario.faults:
                found.not_tried = not_tried(
                    self.proposal.subject,
                    found.scenario,
                    can_strike=history.can_strike,
                    kinds=kinds,
                    cannot=cannot,
                )
                following = possible(self.proposal.subject, history, kinds)
                reasons = [cannot(fault.name) for fault in following]
                if is_first:
                    self.report.left_out.update(filter(None, reasons))
                self._expected += reasons.count(None)
            if self.report.stopped_early:
                return

    def _cannot(self, scenario: Scenario, name: str) -> str | None:
        """Return why a kind of fault cannot happen there; None if it can."""
        return self.where.cannot(scenario.under((Fault(1, 1, name),)))

    def _take_anomalies(self, found: Explored, history: History, *, is_first: bool) -> None:
        """Store the anomalies of a run, and the history of a counterexample of the first call."""
        shown = anomalies_in(history)
        faults = history.scenario.faults
        found.take(faults, shown)
        if is_first and any(faults in found.counterexamples[name] for name in shown):
            self.report.histories[names_of(faults)] = history

    async def _look_at_memory(self) -> None:
        """Find calls with one outcome and era of which a process holds too much, the first ones."""
        children = self.where
        is_whole = not self.extent.only and not self.pace.is_slow
        if not isinstance(children, Children) or not is_whole:
            return
        subject = self.proposal.subject
        for era in ERAS:
            found = await batches.find_held(subject, children, era, self._begin_batch)
            if found is not None:
                outcome, came = found
                history = await self.play(batches.one_call(outcome, era))
                problem = rules.NOTHING_IS_KEPT.broken(None, "about as much as before", came)
                self.report.first[problem.property] = Breach(history, problem)
                return

    def _begin_batch(self, name: str) -> None:
        self.report.runs += 1
        self.begin(name)

    # --- smaller runs ---------------------------------------------------------------------------

    async def _make_smaller(self) -> None:
        """Shrink the breaches."""
        report = self.report
        begun = report.runs
        requests = self.pace.shrink_requests
        for rule, breach in list(report.first.items()):
            if report.runs - begun >= SMALLER_RUNS:
                report.leave_out(_NOT_SMALLER)
                return
            if breach.follows:
                continue
            smaller = await smallest(self.play, breach, report.tools, requests=requests)
            smaller = await self._on_its_own(smaller, breach)
            if smaller.rule != rule:  # another rule is broken there, which may be reported already
                del report.first[rule]
                smaller = report.first.get(smaller.rule, smaller)
            report.first[smaller.rule] = smaller

    async def _on_its_own(self, breach: Breach, whole: Breach) -> Breach:
        """Return a shrunk breach of a whole run as fresh servers show it."""
        fresh = self.proposal.fresh
        if fresh is None or self._fresh_runs >= FRESH_RUNS:
            return replace(breach, set_up=None if fresh else False)
        scenario = whole.history.scenario
        scenarios = [made.scenario for made in self._made]
        until = next((at for at, made in enumerate(scenarios, start=1) if made is scenario), 0)
        is_second = self.second.makes(scenario)
        earlier = [
            made for made in self._made[:until] if self.second.makes(made.scenario) == is_second
        ]

        async def play(scenario: Scenario) -> History:
            self._fresh_runs += 1
            async with fresh() as servers:
                return await self.play_elsewhere(scenario, servers)

        try:
            requests = self.pace.shrink_requests
            return await on_its_own(play, breach, whole, earlier, self.report.tools, requests)
        except CannotStart:  # it is as it was found
            return breach
