"""What the figures are held against. A target that is missed is reported, and nothing else happens.

Knows the report and nothing of how it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mrtr_options.cost.memory import BATCH, VERBS
from mrtr_options.cost.report import Report


@dataclass(frozen=True)
class Target:
    """A target of cost, and the figure beside it.

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
    def says(self) -> str:
        """The bound in words."""
        return f"{self.bound} {self.target:g} {self.unit}"

    @property
    def met(self) -> bool:
        """Whether the figure keeps to the bound."""
        if self.bound == "at most":
            return self.measured <= self.target
        return self.measured >= self.target


TO_THE_FLOOR = {"E": 1.10, "F": 1.10, "G": 1.10, "H": 1.10, "J": 1.25}
THAN_THE_RESOLVER = 2.0
J_TO_RESOLVER = 0.5
BARE_TASKS = 3.0
FLAT = 1.25
"""How much longer than in a small store something may take that does not grow: the noise, and a
processor's cache that a hundred thousand calls do not fit into."""
GUARD_MILLISECONDS = 1.0
L_TO_RAW = 1.5
L_MILLISECONDS = 100.0


def targets(report: Report) -> list[Target]:
    """Every target with its figure; one whose figure was not measured is left out."""
    return list(_targets(report))


def _targets(report: Report) -> Iterator[Target]:
    cost = {row.subject: row for row in report.rows["calls"]}

    def at_most(name: str, target: float, measured: float, unit: str) -> Target:
        return Target(name, target, "at most", measured, unit)

    for letter, most in TO_THE_FLOOR.items():
        yield at_most(f"{letter}: a call in memory", most, cost[letter].number("ratio"), "of the floor")
    for letter in TO_THE_FLOOR:
        if cost[letter]["resolver_ratio"] is not None:
            times = 1 / cost[letter].number("resolver_ratio")
            name = f"{letter}: faster than the SDK's resolver"
            yield Target(name, THAN_THE_RESOLVER, "at least", times, "times")
    for row in report.rows["questions"]:
        if (row.subject, row["questions"]) == ("J", 3) and row["resolver_ratio"] is not None:
            measured = row.number("resolver_ratio")
            yield at_most("J: three questions", J_TO_RESOLVER, measured, "of the resolver")
    most_parked = report.rows["parked"][-1]
    calls = f"{most_parked['calls']:,}"
    bytes_name = f"H: {calls} parked calls, bytes each"
    yield at_most(bytes_name, BARE_TASKS, most_parked.number("to_task"), "bare tasks")
    for verb in VERBS:
        measured = most_parked.number(f"{verb}_ratio")
        yield at_most(f"H: to {verb} one of {calls}", FLAT, measured, f"of one of {BATCH:,}")
    for row in report.rows["guards"]:
        if row["store"] == "sqlite":
            name = "single-use guard on SQLite: added to a round"
            yield at_most(name, GUARD_MILLISECONDS, row.number("added_milliseconds"), "ms")
    for row in report.rows["rounds"]:
        if row.subject == "L":
            name = f"L: a round on {row['database']}"
            yield at_most(name, L_TO_RAW, row.number("ratio"), "of the engine by hand")
            yield at_most(name, L_MILLISECONDS, row.number("p50"), "ms at the median")
