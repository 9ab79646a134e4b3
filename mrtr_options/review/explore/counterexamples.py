"""Counterexamples: the smallest sets of faults that show an anomaly, among all up to a bound.

A run that breaks a rule of the contract or a guarantee of the option, and shows no anomaly that the
clean run does not show, lacks a name: that is an error in the definitions, and it is kept.

Knows the exploration, the anomalies and the guarantees; nothing of how results are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mrtr_options.review.bench.deployments import quiet_servers, scratch
from mrtr_options.review.bench.faults import KINDS, Fault, Faults, names_of
from mrtr_options.review.bench.faults.kinds import RAREST
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES, name_of
from mrtr_options.review.bench.situations import OWN_LEDGER
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore import explore, not_tried, possible
from mrtr_options.review.judge import grid, guarantees
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.contract import violations
from mrtr_options.review.judge.facts import anomalies_in

Lists = dict[str, dict[str, list[str]]]
"""Names in lists, each under two names; see `play_schedules`."""

Made = dict[Faults, list[History]]
"""Runs of one call with clients that differ in their policy alone, by their faults."""


@dataclass
class Explored:
    """The results of a scenario under every set of faults up to a bound.

    Attributes:
        subject: The subject that was called.
        scenario: The call without faults.
        bound: The most faults at a time.
        histories: The number of runs.
        counterexamples: For each anomaly that was shown, the sets of faults that show it and of
            which no smaller part does.
        unclassified: The breach in a line, for each set of faults that breaks a rule and shows no
            anomaly of its own.
        not_tried: The kinds of faults that were left out, with the reasons.
        possible: The faults that are possible in the run without faults, where that was made here.
    """

    subject: Subject
    scenario: Scenario
    bound: int
    histories: int = 0
    counterexamples: dict[str, list[Faults]] = field(default_factory=dict[str, list[Faults]])
    unclassified: dict[Faults, str] = field(default_factory=dict[Faults, str])
    not_tried: dict[str, str] = field(default_factory=dict[str, str])
    possible: Faults = field(default=(), compare=False)

    def as_json(self) -> JsonObject:
        """Return one JSON object; it has what is unusual only where there is something."""
        setup = self.scenario.setup
        unusual: JsonObject = {}
        if setup.words != "same":
            unusual["words"] = setup.words
        if self.scenario.also:
            unusual["also"] = list(self.scenario.also)
        if self.not_tried:
            unusual["not_tried"] = self.not_tried
        return {
            "subject": self.subject.name,
            "fleet": setup.fleet,
            "policy": setup.policy,
            "era": setup.era,
            "location": self.scenario.location,
            "destination": setup.destination,
            "bound": self.bound,
            "histories": self.histories,
            "witnesses": {
                name: [names_of(faults) for faults in self.counterexamples[name]]
                for name in (anomaly.name for anomaly in ANOMALIES)
                if name in self.counterexamples
            },
            **unusual,
        }

    def take(self, faults: Faults, shown: frozenset[str]) -> None:
        """Record a run and the anomalies it shows. Runs come with the fewest faults first."""
        self.histories += 1
        for name in shown:
            smallest = self.counterexamples.setdefault(name, [])
            if not any(is_part(each, faults) for each in smallest):
                smallest.append(faults)


def first_breach(subject: Subject, history: History) -> str | None:
    """Return the first breach of the contract or of the option's guarantees, in a line.

    Return None without a breach. A guarantee under a schedule holds under the same set of faults.
    """
    own = guarantees.guarantees_of(subject)
    departs = own.departs if own else ()
    for each in violations(history):
        if each.property not in departs:
            return f"{each.property}: allowed is {each.allowed}; came {each.came}"
    like = name_of(history.scenario)
    if like is None or own is None:
        return None
    # Where rounds go to the instance that asked, one is enough.
    deployment = "two" if history.scenario.setup.fleet == "free" else "one"
    alike = replace(history, scenario=replace(history.scenario, name=like), deployment=deployment)
    seen = guarantees.judge_history(alike, own)
    for each, _ in guarantees.find_broken([seen], guarantees.declared(own), own):
        if each.name not in departs:
            return f"{each.name}: {seen.breaks[each.name]}"
    return None


def is_part(less: Faults, more: Faults) -> bool:
    """Return whether a set of faults is a part of another one.

    A fault at a later attempt of a round counts as the same fault at the first attempt.
    """
    return Counter(map(_round_and_name, less)) <= Counter(map(_round_and_name, more))


def _round_and_name(fault: Fault) -> tuple[int, str]:
    return fault.round, fault.name


async def counterexamples(
    subject: Subject,
    scenario: Scenario,
    bound: int,
    *,
    first: Faults | None = None,
    made: Made | None = None,
) -> Explored:
    """Make every run with at most `bound` faults, and keep the smallest counterexamples.

    Args:
        subject: The subject that is called.
        scenario: The call without faults.
        bound: The most faults at a time.
        first: The faults with which the sets begin; all sets if it is left out. The run in which
            nothing goes wrong then counts for no counterexample: another part has it.
        made: Runs of clients that differ in their policy alone. One that is a run of this client,
            or begins with it, is not made again, and those that are made here are added.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    policy = POLICIES[scenario.setup.policy]
    found = Explored(subject, scenario, bound)
    clean = frozenset[str]()
    with scratch() as versions, quiet_servers():
        async with in_memory([subject], versions=versions) as memory:

            async def play(scenario: Scenario) -> History:
                alike = [] if made is None else made.setdefault(scenario.faults, [])
                history = next(filter(None, (each.with_client(policy) for each in alike)), None)
                if history is None:
                    history = await run(subject, scenario, memory)
                    alike.append(history)
                return replace(history, scenario=scenario)

            async for history in explore(subject, scenario, bound, play, first=first):
                faults = history.scenario.faults
                shown = anomalies_in(history)
                if not faults:
                    clean = shown
                    found.not_tried = not_tried(subject, scenario, can_strike=history.can_strike)
                    found.possible = tuple(possible(subject, history))
                if first is None or faults:
                    breach = first_breach(subject, history) if shown <= clean else None
                    if breach is not None:
                        found.unclassified[faults] = breach
                    found.take(faults, shown)
    return found


def join(bound: int, parts: Sequence[Explored]) -> Explored:
    """Join the results of parts of a scenario's sets of faults.

    Args:
        bound: The most faults at a time.
        parts: The first has the run in which nothing goes wrong.
    """
    whole = Explored(parts[0].subject, parts[0].scenario, bound)
    whole.not_tried = parts[0].not_tried
    for name in (anomaly.name for anomaly in ANOMALIES):
        sets = [faults for part in parts for faults in part.counterexamples.get(name, [])]
        for faults in sorted(sets, key=len):
            whole.take(faults, frozenset({name}))
    for part in parts:
        whole.unclassified |= part.unclassified
    whole.histories = sum(part.histories for part in parts)
    return whole


async def play_schedules(
    subjects: Sequence[Subject], on_begin: Callable[[str], None] = lambda name: None
) -> tuple[Lists, Lists]:
    """Play the schedules with names.

    Returns the anomalies that each schedule shows, with the subjects in which it does; and for each
    subject the schedules that were not tried on it, by the reason.

    Args:
        subjects: The subjects that are played. A schedule whose client takes tasks is only played
            with subjects that have tasks.
        on_begin: Called with the name of each schedule before it is played.
    """
    shown: Lists = {slug: {} for slug in SCHEDULES}
    left_out: Lists = {}

    def leave_out(subject: Subject, why: str, slug: str) -> None:
        left_out.setdefault(subject.name, {}).setdefault(why, []).append(slug)

    async with in_memory(subjects) as memory:
        for slug, schedule in SCHEDULES.items():
            on_begin(slug)
            two = schedule.modern is not None and schedule.modern.needs_two
            deployment = "two" if two or slug == "failover" else "one"
            cells, missing = grid.split(
                subjects, schedules=[schedule], eras=("modern",), deployments=(deployment,)
            )
            for cell in missing:
                leave_out(cell.subject, cell.missing, slug)
            for cell in cells:
                history = await run(cell.subject, cell.scenario, memory)
                if cell.scenario.at_effects and not history.can_strike:
                    leave_out(cell.subject, OWN_LEDGER, slug)
                    continue
                for name in sorted(anomalies_in(history)):
                    shown[slug].setdefault(name, []).append(cell.subject.name)
    return shown, left_out


def weakest_of(sets: Sequence[str]) -> str:
    """Return the smallest of some sets of faults; of several, the one with the commonest faults."""
    return min(sets, key=lambda faults: (len(faults.split()), rank(faults)))


def rank(faults: str) -> list[int]:
    """Return a key that sorts faults, the most common first."""
    kinds = [re.split(r"\d", name)[0] for name in faults.split()]
    return [KINDS[kind].rarity if kind in KINDS else RAREST for kind in kinds]
