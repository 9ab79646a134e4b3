"""What the figures are held against. A target that is missed is reported, and nothing else happens.

Knows the report and nothing of how it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mrtr_options.cost.memory import BATCH
from mrtr_options.cost.report import Report


@dataclass(frozen=True)
class Target:
    """A promise about cost, and the figure beside it.

    Attributes:
        name: What is measured.
        target: The bound.
        bound: "at most" or "at least".
        measured: The figure; the median where it was measured several times.
        unit: Of both.
    """

    name: str
    target: float
    bound: str
    measured: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the figure keeps to the bound."""
        if self.bound == "at most":
            return self.measured <= self.target
        return self.measured >= self.target


TO_THE_FLOOR = {"E": 1.10, "F": 1.10, "G": 1.10, "H": 1.10, "J": 1.25}
THAN_THE_RESOLVER = 2.0
BARE_TASKS = 3.0
FLAT = 1.25
"""How much longer than in a small store something may take that does not grow: the noise, and a
processor's cache that a hundred thousand calls do not fit into."""
GUARD_MILLISECONDS = 1.0
J_TO_RESOLVER = 0.5
L_TO_RAW = 1.5
L_MILLISECONDS = 100.0


def targets(report: Report) -> list[Target]:
    """Every target with its figure; one whose figure was not measured is left out."""
    return [
        *_of_calls(report),
        *_of_parked_calls(report),
        *_of_guards(report),
        *_of_databases(report),
    ]


def _of_calls(report: Report) -> Iterator[Target]:
    cost = {each.option: each for each in report.calls}
    for letter, most in TO_THE_FLOOR.items():
        measured = cost[letter].ratio.median
        yield Target(f"{letter}: a call in memory", most, "at most", measured, "of the floor")
    for letter in TO_THE_FLOOR:
        to_resolver = cost[letter].resolver_ratio
        if to_resolver is not None:
            name = f"{letter}: faster than the SDK's resolver"
            yield Target(name, THAN_THE_RESOLVER, "at least", 1 / to_resolver.median, "times")
    for each in report.questions:
        if (each.option, each.questions) == ("J", 3) and each.resolver_ratio is not None:
            measured = each.resolver_ratio.median
            yield Target("J: three questions", J_TO_RESOLVER, "at most", measured, "of the resolver")


def _of_parked_calls(report: Report) -> Iterator[Target]:
    most = report.parked[-1]
    name = f"H: {most.calls:,} parked calls, bytes each"
    yield Target(name, BARE_TASKS, "at most", most.to_task, "bare tasks")
    of_one = f"of one of {BATCH:,}"
    for verb, to_small in (
        ("park", most.park_ratio),
        ("resume", most.resume_ratio),
        ("evict", most.evict_ratio),
    ):
        yield Target(f"H: to {verb} one of {most.calls:,}", FLAT, "at most", to_small.median, of_one)


def _of_guards(report: Report) -> Iterator[Target]:
    for guard in report.guards:
        if guard.store == "sqlite":
            measured = guard.added_milliseconds.median
            name = "guard of single use on SQLite: added to a round"
            yield Target(name, GUARD_MILLISECONDS, "at most", measured, "ms")


def _of_databases(report: Report) -> Iterator[Target]:
    for each in report.rounds:
        if each.option == "L":
            name = f"L: a round on {each.database}"
            yield Target(name, L_TO_RAW, "at most", each.ratio.median, "of the engine by hand")
            yield Target(name, L_MILLISECONDS, "at most", each.milliseconds, "ms at the median")
