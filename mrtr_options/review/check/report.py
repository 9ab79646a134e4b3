"""The report on a proposal: its breaches, and the risks that the contract allows.

Knows breaches and anomalies; nothing of how they were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.faults import names_of
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.bench.messages import HUNG, JsonObject, Reply, Tools
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.check.breaches import GIVE_UP, Breach, breaches
from mrtr_options.review.check.compared import Nearest, Way
from mrtr_options.review.check.story import breach_as_json
from mrtr_options.review.explore.counterexamples import Explored, rank
from mrtr_options.review.judge.anomalies import ANOMALIES, Anomaly
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.contract.task_rules import has_tasks
from mrtr_options.review.judge.guarantees import Broken, declared, find_broken
from mrtr_options.review.judge.observation import Observation
from mrtr_options.tool.guarantees import Guarantees

ALSO = ("key-rotation",)
"""Schedules of a call that should go on, and that no fault stands for."""


_KEYED = (
    "end a round whose effect fails in error -32603, which a client sends again; give one that may"
    " have happened an idempotency key that its destination honours (in the guard: single_use:"
    " attempts=2)"
)
INSTEAD = {
    (
        "charged twice",
        "every call",
    ): "charge in one line, after the last answer; no guard helps here",
    (
        "charged twice",
        "at an effect",
    ): "give the bill an idempotency key that its destination honours",
    ("charged, told of an error", "at an effect"): _KEYED,
    ("call lost", "at an effect"): _KEYED,
    (
        "call lost",
        "key-rotation",
    ): "verify a state with each of the server's keys, not the first alone",
}
"""Advice for anomalies whose remedy does not help, by the anomaly's name and its cause."""


@dataclass(frozen=True)
class Risk:
    """An anomaly that a proposal shows.

    Attributes:
        anomaly: The anomaly.
        counterexamples: The smallest sets of faults that show it, as `play` takes them, the most
            common first; "" for no fault. Or the name of a schedule.
    """

    anomaly: Anomaly
    counterexamples: tuple[str, ...]

    @property
    def remedy(self) -> tuple[str, tuple[str, ...]]:
        """The advice for its first counterexample, and the subjects that it has spared the risk."""
        first = self.counterexamples[0]
        where = "at an effect" if "@" in first else first or "every call"
        other = INSTEAD.get((self.anomaly.name, where))
        return (other, ()) if other else (self.anomaly.remedy, self.anomaly.spared)

    def as_json(self) -> JsonObject:
        """Return one JSON object."""
        return {
            "anomaly": self.anomaly.name,
            "says": self.anomaly.says,
            "harms": self.anomaly.harms,
            "witnesses": self.counterexamples,
            "remedy": self.remedy[0],
            "subjects": self.remedy[1],
        }


NEVER_LOOKED_AT = (
    "standard input and output",
    "effects of other tools, resources and prompts",
    "sampling and roots of old clients",
    "room for calls after a thousand abandoned ones",
)
"""What a review has no case for."""


@dataclass
class Report:
    """The results of a review.

    Attributes:
        target: The proposal: its file or its URL.
        own: The guarantees that it declares besides the contract; None if it declares none.
        first: The first run that breaks each rule, or a smaller one.
        tools: The server's listing, once it was read.
        observations: The observations under the schedules.
        explored: The result of a call under each set of faults; None if that was not tried.
        otherwise: The same results for a client that calls again, and for other fleets.
        shown: The anomalies of the schedules in `ALSO`, by slug.
        histories: The history of each counterexample, by its faults as `play` takes them, or its
            slug.
        nearest: The most similar option; None if too little was seen.
        compared: The proposal beside the most similar option and the default; nothing if risks
            were not looked for.
        raised: The tracebacks of exceptions that no fault caused, each once.
        left_out: The number of runs that were not made, by the reason; 0 if it is unknown.
        judged: A remark on the clients of the review, if the target leaves them open.
        runs: The number of runs.
        unanswered: The number of runs with a request without a response.
        tasks_seen: Whether a client that declares the Tasks extension was handed a task.
        state_only_calm: The runs with a response of a state and no question, though nothing goes
            wrong in them.
        state_only_else: The other runs with such a response.
    """

    target: str
    own: Guarantees | None = None
    first: dict[str, Breach] = field(default_factory=dict[str, Breach])
    tools: Tools = field(default_factory=Tools)
    observations: list[Observation] = field(default_factory=list[Observation])
    explored: Explored | None = None
    otherwise: list[Explored] = field(default_factory=list[Explored])
    shown: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    histories: dict[str, History] = field(default_factory=dict[str, History])
    nearest: Nearest | None = None
    compared: list[Way] = field(default_factory=list[Way])
    raised: list[str] = field(default_factory=list[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    judged: str = ""
    runs: int = 0
    unanswered: int = 0
    tasks_seen: bool = False
    state_only_calm: dict[str, None] = field(default_factory=dict[str, None])
    state_only_else: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def stopped_early(self) -> bool:
        """Return whether so many requests go unanswered that the rest need not be tried."""
        return self.unanswered >= GIVE_UP

    @property
    def not_tried(self) -> dict[str, str]:
        """The kinds of faults that a call was not made under, with the reasons."""
        return self.explored.not_tried if self.explored else {}

    @property
    def broken(self) -> Broken:
        """Its own guarantees that it breaks, each with an observation."""
        if self.own is None:
            return []
        return find_broken(self.observations, declared(self.own), self.own)

    @property
    def risks(self) -> list[Risk]:
        """The anomalies that the contract allows and users may not want, money first."""
        if self.explored is None:
            return []
        found: list[Risk] = []
        for anomaly in ANOMALIES:
            sets = [*map(names_of, self.explored.counterexamples.get(anomaly.name, []))]
            if "" not in sets:
                sets += [slug for slug, names in self.shown.items() if anomaly.name in names]
            if sets:
                found.append(Risk(anomaly, tuple(sorted(sets, key=rank))))
        return found

    def leave_out(self, why: str, runs: int | None = None) -> None:
        """Note a reason why runs were not made.

        Args:
            why: The reason.
            runs: The number of runs that were not made for it; None if it is unknown.
        """
        self.left_out[why] += runs or 0

    def stop_early(self) -> None:
        """Have no more runs made: the server is gone for good."""
        self.unanswered += GIVE_UP

    def hold(self, history: History) -> None:
        """Hold a run against the contract."""
        replies = [event.reply for event in history.events if isinstance(event, Received)]
        for reply in replies:
            self.tools = reply.tools or self.tools
        self.tasks_seen |= has_tasks(history)
        self._note_state_only(history.scenario, replies)
        found = breaches(history, self.tools)
        is_hung = any(reply.nothing == HUNG for reply in replies)  # maybe in a redeploy, unjudged
        if is_hung or any(each.rule == rules.EVERY_REQUEST_IS_ANSWERED.name for each in found):
            self.unanswered += 1
        for each in found:
            if self.own is not None and each.rule in self.own.departs:
                continue
            before = self.first.get(each.rule)
            if before is None or (before.follows and not each.follows):
                self.first[each.rule] = each

    def _note_state_only(self, scenario: Scenario, replies: Sequence[Reply]) -> None:
        """Note a run in which the server sends a state without a question."""
        if any(reply.later for reply in replies):
            is_calm = not (scenario.faults or scenario.at_effects or scenario.needs)
            where = self.state_only_calm if is_calm else self.state_only_else
            where.setdefault(scenario.name)

    @property
    def breaches(self) -> list[Breach]:
        """The breaches of the contract, each rule with the smallest run that shows it.

        A breach that follows from another one is left out.
        """
        in_verdict = [each for each in self._first_breaches if RULES[each.rule].in_verdict]
        return [each for each in in_verdict if not each.follows]

    @property
    def departures(self) -> list[Breach]:
        """The breaches of rules that are reported and are no part of the verdict."""
        return [each for each in self._first_breaches if not RULES[each.rule].in_verdict]

    @property
    def _first_breaches(self) -> list[Breach]:
        return [self.first[rule] for rule in RULES if rule in self.first]

    def following(self, breach: Breach) -> list[str]:
        """Return the rules that are broken because of a breach."""
        return [each.rule for each in self._first_breaches if each.follows == breach.rule]

    @property
    def longest_state(self) -> int:
        """The length of the longest state under the schedules with names, in bytes."""
        return max((size for seen in self.observations for size in seen.state_bytes), default=0)

    @property
    def broken_names(self) -> dict[str, list[str]]:
        """The names of the rules, and of the guarantees, that turn the verdict, each once."""
        names = {
            "rule": [each.rule for each in self.breaches],
            "guarantee": list(dict.fromkeys(each.name for each, _ in self.broken)),
        }
        return {noun: found for noun, found in names.items() if found}

    @property
    def holds(self) -> bool:
        """Return whether the proposal keeps the contract and what it guarantees itself."""
        return not (self.breaches or self.broken)

    def _as_told(self, breach: Breach) -> JsonObject:
        return breach_as_json(breach) | {"followed_by": self.following(breach)}

    def as_json(self) -> JsonObject:
        """Return one JSON object."""
        nearest = self.nearest
        return {
            "target": self.target,
            "holds": self.holds,
            "runs": self.runs,
            "judged": self.judged,
            "findings": list(map(self._as_told, self.breaches)),
            "departs": list(map(self._as_told, self.departures)),
            "longest_state": self.longest_state,
            "broken": [name for names in self.broken_names.values() for name in names],
            "guarantees_broken": [
                {
                    "guarantee": each.name,
                    "says": each.says,
                    "schedule": seen.schedule,
                    "era": seen.era,
                    "deployment": seen.deployment,
                    "why": seen.breaks[each.name],
                }
                for each, seen in self.broken
            ],
            "hurts": [each.as_json() for each in self.risks],
            "explored": None if self.explored is None else self.explored.as_json(),
            "explored_otherwise": [each.as_json() for each in self.otherwise],
            "state_only": {
                "where_nothing_goes_wrong": list(self.state_only_calm),
                "elsewhere": list(self.state_only_else),
            },
            "hands_out_tasks": self.tasks_seen,
            "raised": self.raised,
            "nearest": None if nearest is None else nearest.as_json(),
            "compared": [each.as_json() for each in self.compared],
            "never_looked_at": list(NEVER_LOOKED_AT),
            "left_out": [{"runs": runs, "why": why} for why, runs in self.left_out.items()],
            "observations": [seen.as_json() for seen in self.observations],
        }
