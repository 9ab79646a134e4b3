"""The kinds of response that the contract may allow, in words.

Knows replies and the words of the weather tool; nothing of when a response is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mcp_types as types

from mrtr_options.review.bench.history.narrate import quoted
from mrtr_options.review.bench.messages import Reply, fields_of
from mrtr_options.review.judge.contract.content import UNITS, Name, place_messages
from mrtr_options.tool import weather

INVALID = types.INVALID_PARAMS
CANNOT_ASK = types.MISSING_REQUIRED_CLIENT_CAPABILITY
UNREADABLE = (INVALID, types.INVALID_REQUEST, types.PARSE_ERROR, types.HEADER_MISMATCH)


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
        fields = fields_of(schema)
        part = fields.get(self.name, {})
        return (
            message in self.messages
            and list(fields) == [self.name]
            and schema.get("required") == [self.name]
            and part.get("type") == "string"
            and part.get("enum") == list(self.choices)
        )

    def __str__(self) -> str:
        return f"the question {quoted(self.messages[0])} ({self.name}: {', '.join(self.choices)})"


@dataclass(frozen=True)
class Reports:
    """The report of a place, which is billed."""

    text: str
    bill: str | None

    def fits(self, reply: Reply) -> bool:
        return reply.text == self.text and not reply.is_error

    def __str__(self) -> str:
        return f"the text {quoted(self.text)}"


@dataclass(frozen=True)
class Ends:
    """The end of a call that the user declined or cancelled: a plain text, or an error.

    Attributes:
        word: The word for what the user did, which a text has.
        other: The word for what the user did not do. An error must not have it alone.
        codes: The codes of the error; see `Refused`.
    """

    word: str
    other: str
    codes: tuple[int, ...] = (INVALID,)

    def fits(self, reply: Reply) -> bool:
        says = reply.text or reply.message or ""
        if Refused(self.codes).fits(reply):
            return self.word in says or self.other not in says
        return reply.is_result and self.word in says

    def __str__(self) -> str:
        return f"a text with {self.word!r}; or {Refused(self.codes)}, but not just {self.other!r}"


@dataclass(frozen=True)
class ToolError:
    """An `isError` result."""

    def fits(self, reply: Reply) -> bool:
        return reply.text is not None and reply.is_error

    def __str__(self) -> str:
        return "an isError result"


@dataclass(frozen=True)
class Refused:
    """A JSON-RPC error or an `isError` result: SDKs turn exceptions into the one or the other.

    Attributes:
        codes: The codes of which the error has one; empty for any code.
        naming: The words of which the error's message or the result's text has one; empty for any
            text.
    """

    codes: tuple[int, ...] = (INVALID,)
    naming: tuple[str, ...] = ()

    def fits(self, reply: Reply) -> bool:
        if reply.code is None:
            return ToolError().fits(reply) and _has_name(self.naming, reply.text or "")
        has_code = not self.codes or reply.code in self.codes
        return has_code and _has_name(self.naming, reply.message or "")

    def covers(self, other: Allowed) -> bool:
        """Return whether this refusal, naming nothing, allows all that another kind allows."""
        if not isinstance(other, Refused):
            return isinstance(other, ToolError)
        return not self.codes or (bool(other.codes) and {*other.codes} <= {*self.codes})

    def __str__(self) -> str:
        codes = " or ".join(map(str, self.codes)) or "any code"
        return f"error {codes} or {ToolError()}{_name_clause(self.naming)}"


def _has_name(naming: tuple[str, ...], text: str) -> bool:
    return not naming or any(each in text for each in naming)


def _name_clause(naming: tuple[str, ...]) -> str:
    return f" naming {' or '.join(map(repr, naming))}" if naming else ""


Allowed = Asks | Reports | Ends | ToolError | Refused


def asks_place(location: str, matches: tuple[str, ...]) -> Asks:
    """Return the question which of some places a location is."""
    return Asks("place", place_messages(location), matches)


def asks_units(place: str) -> Asks:
    """Return the question about the units for a place."""
    return Asks("units", (f"Which units for {place}?",), UNITS)


def place_in(question: str) -> str | None:
    """Return the place that a question about units names; None in any other text."""
    place = question.removeprefix("Which units for ").removesuffix("?")
    return place if place in weather.REPORTS else None


def report(place: str, units: str | None) -> str:
    """Return the report of a place; without units, metric ones are assumed."""
    answer = (
        weather.UnitsAssumed(units="metric")
        if units is None
        else weather.UnitsAnswer.model_validate({"units": units})
    )
    return weather.report(place, answer)


def in_words(allowed: Sequence[Allowed]) -> str:
    """Describe allowed responses in a sentence, each alternative once."""
    found = list(dict.fromkeys(allowed))
    refusals = [each for each in found if isinstance(each, Refused) and not each.naming]
    if refusals:
        codes = dict.fromkeys(code for each in refusals for code in each.codes)
        wide = Refused(tuple(codes) if all(each.codes for each in refusals) else ())
        found = [*(each for each in found if not wide.covers(each)), wide]
    return "; or ".join(map(str, found))
