"""A property of histories, and a problem where a history lacks it.

The properties are the rows of three tables, each with a class of its own: `Rule` in
`contract.rules`, `Anomaly` in `anomalies`, and `Guarantee` in `guarantees`. This module knows
nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrtr_options.review.bench.setup import Era


@dataclass(frozen=True)
class Problem:
    """One place where a history lacks a property.

    Attributes:
        property: The property's name.
        exchange: The number of the request; None if the problem concerns no single request.
        allowed: The allowed responses in words; empty if `came` says it all.
        came: A description of what came instead.
    """

    property: str
    exchange: int | None
    allowed: str
    came: str

    def why(self) -> str:
        """Return the problem in a line."""
        return f"{self.came}, not {self.allowed}" if self.allowed else self.came


@dataclass(frozen=True)
class Property:
    """One thing that a history has or lacks.

    Attributes:
        name: Its name.
        says: A sentence: the description of an anomaly, or the requirement of any other property.
    """

    name: str
    says: str

    def applies_to(self, schedule: str, era: Era, deployment: str) -> bool:
        """Return whether a run can show the property."""
        return True
