"""The kinds of response that the contract may allow, in words.

Knows replies and the words of the weather tool; nothing of when a response is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from mrtr_options.bench.history import Reply
from mrtr_options.judge.contract.answers import UNITS, Name, place_messages
from mrtr_options.tool import weather

INVALID, CANNOT_ASK = types.INVALID_PARAMS, types.MISSING_REQUIRED_CLIENT_CAPABILITY


@dataclass(frozen=True)
class Asks:
    """A question."""

    name: Name
    messages: tuple[str, ...]
    choices: tuple[str, ...]

    def fits(self, reply: Reply) -> bool:
        if len(reply.questions) != 1 or reply.others:
            return False
        ((key, message),) = reply.questions.items()
        schema = reply.schemas[key]
        properties: dict[str, Any] = schema.get("properties") or {}
        part: dict[str, Any] = properties.get(self.name) or {}
        return (
            message in self.messages
            and list(properties) == [self.name]
            and schema.get("required") == [self.name]
            and part.get("type") == "string"
            and part.get("enum") == list(self.choices)
        )

    def __str__(self) -> str:
        return f"the question {self.messages[0]!r} ({self.name}: {', '.join(self.choices)})"


@dataclass(frozen=True)
class Reports:
    """The report of a place, which is billed."""

    text: str
    bill: str | None

    def fits(self, reply: Reply) -> bool:
        return reply.text == self.text and not reply.is_error

    def __str__(self) -> str:
        return f"the text {self.text!r}"


@dataclass(frozen=True)
class Ends:
    """A plain text that says what the user did."""

    word: str

    def fits(self, reply: Reply) -> bool:
        return reply.text is not None and not reply.is_error and self.word in reply.text

    def __str__(self) -> str:
        return f"a text with {self.word!r}"


@dataclass(frozen=True)
class ToolError:
    """An `isError` result."""

    naming: str = ""

    def fits(self, reply: Reply) -> bool:
        return reply.text is not None and reply.is_error and self.naming in reply.text

    def __str__(self) -> str:
        return "an isError result" + (f" naming {self.naming!r}" if self.naming else "")


@dataclass(frozen=True)
class Refused:
    """A JSON-RPC error."""

    codes: tuple[int, ...] = (INVALID,)
    naming: str = ""

    def fits(self, reply: Reply) -> bool:
        if reply.code is None or (self.codes and reply.code not in self.codes):
            return False
        return self.naming in (reply.message or "")

    def __str__(self) -> str:
        codes = " or ".join(map(str, self.codes)) or "any code"
        return f"error {codes}" + (f" naming {self.naming!r}" if self.naming else "")


Allowed = Asks | Reports | Ends | ToolError | Refused


def asks_place(location: str, matches: tuple[str, ...]) -> Asks:
    """The question which of some places a location is."""
    return Asks("place", place_messages(location), matches)


def asks_units(place: str) -> Asks:
    """The question about the units for a place."""
    return Asks("units", (f"Which units for {place}?",), UNITS)


def report(place: str, units: str | None) -> str:
    """The report of a place; without units, metric ones are assumed."""
    answer = (
        weather.UnitsAssumed(units="metric")
        if units is None
        else weather.UnitsAnswer.model_validate({"units": units})
    )
    return weather.report(place, answer)


def in_words(allowed: Sequence[Allowed]) -> str:
    """What is allowed, in a sentence."""
    return "; or ".join(map(str, allowed))
