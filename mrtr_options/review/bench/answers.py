"""The user's answers to the questions of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

RoundName = Literal["first", "place", "units", "consent"]

AGREE = {"place": "Springfield, Illinois", "units": "metric", "consent": "yes"}
"""The user's answers unless a step has others."""


@dataclass(frozen=True)
class Accept:
    """The user fills the form in with `content`, valid or not."""

    content: Any


@dataclass(frozen=True)
class Refuse:
    """The user declines or cancels, perhaps with content."""

    action: Literal["decline", "cancel"]
    content: Any = None


@dataclass(frozen=True)
class Roots:
    """The result of a roots request, which answers no form."""


@dataclass(frozen=True)
class Nothing:
    """The lack of an answer: the round goes out while the user is not done yet."""


UserAnswer = Accept | Refuse | Roots | Nothing
