"""What a history can be held to: a rule of the contract, an anomaly, or what an option declares.

The properties themselves are rows of three tables: `contract.rules`, `anomalies` and `guarantees`.
Knows nothing of them, and of histories only what a check is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mrtr_options.review.bench.faults import ERAS, Era


@dataclass(frozen=True)
class Problem:
    """Where a history does not have a property.

    Attributes:
        property: The property's name.
        exchange: The request; None where it is about none.
        allowed: What is allowed there, in words; empty where `came` says it all.
        came: What came instead.
    """

    property: str
    exchange: int | None
    allowed: str
    came: str

    def why(self) -> str:
        """What is wrong, in a line."""
        return f"{self.came}, not {self.allowed}" if self.allowed else self.came


@dataclass(frozen=True)
class Property:
    """One thing that a history has or lacks.

    Attributes:
        name: Its name.
        says: An anomaly: what it is. Else: what must hold. A sentence.
        kind: Which table it is a row of.
        check: Given a `reading.Reading`, yields what is wrong with its history.
        words: An anomaly in the words of people, as every table and line has it; JSON has its name.
        harms: Who is harmed where it is missing.
        remedy: What to do about that.
        shown_by: The subjects of this package that show how: they do not lack it under one fault.
        source: The sentence of the specification that it follows from, with its MUST or SHOULD;
            empty for one of this project's own.
        schedules: Where it can be seen; empty for everywhere.
        eras: Of which clients.
        needs_two: Whether one instance cannot show it.
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
        """Whether a run can show it."""
        if era not in self.eras or (self.needs_two and deployment == "one"):
            return False
        return not self.schedules or schedule in self.schedules
