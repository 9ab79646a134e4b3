"""The risks of a proposal that the contract allows, and what to do about them.

Pure functions of what was explored. Knows the anomalies by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mrtr_options.review.bench.faults import names_of
from mrtr_options.review.explore.counterexamples import Explored, rank
from mrtr_options.review.judge.anomalies import ANOMALIES, Anomaly

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

    def as_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "anomaly": self.anomaly.name,
            "says": self.anomaly.says,
            "harms": self.anomaly.harms,
            "witnesses": self.counterexamples,
            "remedy": self.remedy[0],
            "subjects": self.remedy[1],
        }


def risks(explored: Explored, shown: Mapping[str, Collection[str]]) -> list[Risk]:
    """Return the anomalies that were found, money first.

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
