"""The risks of a proposal that the contract allows, and what to do about them.

Pure functions of what was explored and of what a process holds. Knows the anomalies by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mrtr_options.review.bench.faults import names_of
from mrtr_options.review.explore.counterexamples import Explored, rank
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.properties import Property

ALSO = ("key-rotation",)
"""Schedules of a call that should go on, and that no fault stands for."""


_KEYED = (
    "end a round whose effect fails in error -32603, which a client sends again; give one that may have"
    " happened an idempotency key that its destination honours (in the guard: single_use: attempts=2)"
)
INSTEAD = {
    (
        "duplicate bill",
        "every call",
    ): "charge in one line, after the last answer; no guard helps here",
    (
        "duplicate bill",
        "at an effect",
    ): "give the bill an idempotency key that its destination honours",
    ("orphan bill", "at an effect"): _KEYED,
    ("lost call", "at an effect"): _KEYED,
    (
        "lost call",
        "key-rotation",
    ): "verify a state with each of the server's keys, not the first alone",
}
"""What to do about an anomaly where its remedy does not help: by its name, and what causes it."""


@dataclass(frozen=True)
class Risk:
    """An anomaly that a proposal shows.

    Attributes:
        anomaly: Which.
        counterexamples: The smallest sets of faults that show it, as `play` takes them, the most
            common first; "" for no fault. Or the name of a schedule.
    """

    anomaly: Property
    counterexamples: tuple[str, ...]

    @property
    def remedy(self) -> tuple[str, tuple[str, ...]]:
        """What to do about its first counterexample, and the subjects that show how."""
        first = self.counterexamples[0]
        where = "at an effect" if "@" in first else first or "every call"
        other = INSTEAD.get((self.anomaly.name, where))
        return (other, ()) if other else (self.anomaly.remedy, self.anomaly.shown_by)

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "anomaly": self.anomaly.name,
            "says": self.anomaly.says,
            "harms": self.anomaly.harms,
            "witnesses": self.counterexamples,
            "remedy": self.remedy[0],
            "subjects": self.remedy[1],
        }


def risks(explored: Explored, shown: Mapping[str, Collection[str]]) -> list[Risk]:
    """The anomalies that were found, money first.

    Args:
        explored: The results of a call under faults.
        shown: The anomalies of the schedules in `ALSO`, by slug.
    """
    found: list[Risk] = []
    for anomaly in ANOMALIES:
        counterexamples = [
            names_of(faults) for faults in explored.counterexamples.get(anomaly.name, [])
        ]
        if "" not in counterexamples:
            counterexamples += [slug for slug, names in shown.items() if anomaly.name in names]
        if counterexamples:
            found.append(Risk(anomaly, tuple(sorted(counterexamples, key=rank))))
    return found


# --- what is kept ----------------------------------------------------------------------------

Outcome = Literal["reported", "declined", "did not fit", "refused", "abandoned"]
"""How each call of a batch ends: with a report; declined; answered with what does not fit, and
left; with a state that was changed, and left; left when the question comes.
"""

CALLS: dict[Outcome, int] = {
    "reported": 50,
    "declined": 50,
    "did not fit": 50,
    "refused": 50,
    "abandoned": 50,
}
"""How many calls with each outcome are made to see what is left of them."""

MAY_GROW = {"tasks": 20, "threads": 60, "files": 20, "bytes": 32 * 2**20}
"""How much more a process may hold after a batch: a pool of workers, and what the allocator
keeps.
"""


def kept(before: dict[str, int], after: dict[str, int], calls: int, outcome: str) -> str:
    """Return what a process still holds of a batch of calls, once their states have expired; empty
    for nothing.
    """
    grown = {what: after[what] - before[what] for what in before if what in after}
    held = [
        f"{count / 2**20:.0f} MiB of memory" if what == "bytes" else f"{count} {what}"
        for what, count in grown.items()
        if count > MAY_GROW[what]
    ]
    return f"{', '.join(held)} more, after {calls} calls that were {outcome}" if held else ""
