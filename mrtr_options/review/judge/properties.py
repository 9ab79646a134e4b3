"""A property of histories, and a problem where a history lacks it.

The properties are the rows of three tables, each with a class of its own. A *rule*
(`contract.rules`) is what the contract demands of every server. A *guarantee* (`guarantees`) is
what an option declares of itself beyond the contract. An *anomaly* (`anomalies`) is what a user
would call wrong, whether a rule forbids it or not. This module knows nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from mrtr_options.review.bench.messages import Era


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
        noun: The word for such a property.
    """

    noun: ClassVar[str] = "property"
    name: str
    says: str

    def applies_to(self, schedule: str, era: Era, deployment: str) -> bool:
        """Return whether a run can show the property."""
        return True
