"""What a review has to say of a proposal. Knows findings and risks; nothing of how they were
found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mrtr_options.review.bench.deployments.children import HANG_SECONDS
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.check.findings import GIVE_UP, Finding, findings
from mrtr_options.review.check.risks import Risk
from mrtr_options.review.check.story import finding_as_json
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge.contract import LISTED, RULES
from mrtr_options.review.judge.contract.tasks import has_tasks
from mrtr_options.review.judge.properties import Property
from mrtr_options.review.judge.reading import Observation
from mrtr_options.tool.guarantees import Guarantees


@dataclass(frozen=True)
class Nearest:
    """The option that behaves most like a proposal, alone or in a wrapper.

    Attributes:
        option: Its name: "F", "F+single-use".
        differs: (the proposal's observation, the option's) wherever they are not the same.
    """

    option: str
    differs: list[tuple[Observation, Observation]]


@dataclass
class Report:
    """What the review has to say of a proposal.

    Attributes:
        target: The proposal: its file or its URL.
        own: What it guarantees besides the contract; None for nothing.
        first: The first run that breaks each rule, or a smaller one.
        tools: The server's listing, once it was read.
        observations: What was seen under the schedules with names.
        broken: Its own guarantees that it breaks, each with what was seen.
        risks: What the contract allows and users may not want.
        explored: The result of a call under each set of faults; None if that was not tried.
        otherwise: The same by a client that calls again, and by other ways to the instances.
        shown: The anomalies of the schedules in `risks.ALSO`, by slug.
        histories: What happened under each counterexample: faults as `play` takes them, or a slug.
        nearest: The option it is most like; None where too little was seen to say so.
        raised: The tracebacks of what its code raised though nothing was made to fail, each once.
        left_out: How many runs were not made, by why; 0 for what cannot be counted.
        hang_seconds: How long it had for one request.
        judged: How, in words, where the target leaves something open: by which clients.
        runs: How many runs were made.
        unanswered: How many of them had a request without a response.
        tasks_seen: Whether a client that declares the Tasks extension was handed a task.
        state_only_calm: The runs with a response of a state and no question, though nothing goes
            wrong in them.
        state_only_else: The other runs with such a response.
    """

    target: str
    own: Guarantees | None = None
    first: dict[str, Finding] = field(default_factory=dict[str, Finding])
    tools: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    observations: list[Observation] = field(default_factory=list[Observation])
    broken: list[tuple[Property, Observation]] = field(
        default_factory=list[tuple[Property, Observation]]
    )
    risks: list[Risk] = field(default_factory=list[Risk])
    explored: Explored | None = None
    otherwise: list[Explored] = field(default_factory=list[Explored])
    shown: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    histories: dict[str, History] = field(default_factory=dict[str, History])
    nearest: Nearest | None = None
    raised: list[str] = field(default_factory=list[str])
    left_out: Counter[str] = field(default_factory=Counter[str])
    hang_seconds: float = HANG_SECONDS
    judged: str = ""
    runs: int = 0
    unanswered: int = 0
    tasks_seen: bool = False
    state_only_calm: dict[str, None] = field(default_factory=dict[str, None])
    state_only_else: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def stopped_early(self) -> bool:
        """Whether so many requests go unanswered that the rest need not be tried."""
        return self.unanswered >= GIVE_UP

    @property
    def not_tried(self) -> dict[str, str]:
        """The kinds of faults that a call was not made under, each with why."""
        return self.explored.not_tried if self.explored else {}

    def hold(self, history: History) -> None:
        """Hold a run against the contract."""
        for event in history.events:
            if isinstance(event, Received) and event.reply.tools:
                self.tools = event.reply.tools
        self.tasks_seen |= has_tasks(history)
        self._note_state_only(history)
        found = findings(history, self.tools)
        self.unanswered += any(each.rule == "every-request-is-answered" for each in found)
        for each in found:
            if self.own is not None and each.rule in self.own.departs:
                continue
            before = self.first.get(each.rule)
            if before is None or (before.follows and not each.follows):
                self.first[each.rule] = each

    def _note_state_only(self, history: History) -> None:
        """Note in which runs the server sends a state without a question."""
        replies = [event.reply for event in history.events if isinstance(event, Received)]
        if any(reply.later for reply in replies):
            scenario = history.scenario
            is_calm = not (scenario.faults or scenario.at_effects or scenario.needs)
            where = self.state_only_calm if is_calm else self.state_only_else
            where.setdefault(scenario.name)

    @property
    def findings(self) -> list[Finding]:
        """What the contract does not allow, each rule with the smallest run that shows it. What
        follows from another finding is none.
        """
        return [each for each in self._found if each.rule not in LISTED and not each.follows]

    @property
    def departures(self) -> list[Finding]:
        """The same of rules that are told and are no part of the verdict."""
        return [each for each in self._found if each.rule in LISTED]

    @property
    def _found(self) -> list[Finding]:
        return [self.first[rule] for rule in RULES if rule in self.first]

    def following(self, finding: Finding) -> list[str]:
        """The rules that are broken because of a finding."""
        return [each.rule for each in self._found if each.follows == finding.rule]

    @property
    def longest_state(self) -> int:
        """The length of the longest state under the schedules with names, in bytes."""
        return max((size for seen in self.observations for size in seen.state_bytes), default=0)

    @property
    def broken_names(self) -> list[str]:
        """The rules and the guarantees that turn the verdict, each once."""
        rules = [each.rule for each in self.findings]
        return list(dict.fromkeys([*rules, *(each.name for each, _ in self.broken)]))

    @property
    def holds(self) -> bool:
        """Whether the proposal keeps the contract and what it guarantees itself."""
        return not (self.findings or self.broken)

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        nearest = self.nearest
        return {
            "target": self.target,
            "holds": self.holds,
            "runs": self.runs,
            "judged": self.judged,
            "findings": [
                finding_as_json(each) | {"followed_by": self.following(each)}
                for each in self.findings
            ],
            "departs": [
                finding_as_json(each) | {"followed_by": self.following(each)}
                for each in self.departures
            ],
            "longest_state": self.longest_state,
            "broken": self.broken_names,
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
            "nearest": None
            if nearest is None
            else {
                "option": nearest.option,
                "differs": [
                    {
                        "schedule": own.schedule,
                        "era": own.era,
                        "here": own.cell,
                        "there": other.cell,
                    }
                    for own, other in nearest.differs
                ],
            },
            "left_out": [{"runs": runs, "why": why} for why, runs in self.left_out.items()],
            "observations": [seen.as_json() for seen in self.observations],
        }
