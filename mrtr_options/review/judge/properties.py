"""A property of histories: a rule of the contract, an anomaly, or a guarantee of an option.

The properties themselves are rows of three tables: `contract.rules`, `anomalies` and `guarantees`.
Knows nothing of them, and of histories only what is given to a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mrtr_options.review.bench.faults import ERAS, Era


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
        kind: The table that it is a row of.
        check: Given a `facts.Reading`, yields the problems of its history.
        words: An anomaly in the words of people, as every table and line has it; JSON has its name.
        harms: The person who is harmed by a history without the property.
        remedy: The advice against that.
        shown_by: The subjects of this package that have the property under any one fault.
        source: The sentence of the specification that it follows from, with its MUST or SHOULD;
            empty for a property of this project's own.
        schedules: The schedules that can show it; empty for all.
        eras: The eras of the clients that can show it.
        needs_two: Whether it takes two instances to show it.
    """

    name: str
    says: str
    kind: Literal["contract", "anomaly", "declared"]
    check: Callable[[Any], Iterable[Problem]]
    words: str = ""
    harms: str = ""
    remedy: str = ""
    shown_by: tuple[str, ...] = ()
    source: str = ""
    schedules: tuple[str, ...] = ()
    eras: tuple[Era, ...] = ERAS
    needs_two: bool = False

    def applies_to(self, schedule: str, era: Era, deployment: str) -> bool:
        """Return whether a run can show the property."""
        if era not in self.eras or (self.needs_two and deployment == "one"):
            return False
        return not self.schedules or schedule in self.schedules
