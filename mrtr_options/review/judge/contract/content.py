"""The content of requests: answers to questions, and the places that a location may mean.

Knows requests and the places that there are; nothing of the call that a request belongs to.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from mrtr_options.review.bench.messages import Request, as_json
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL

Name = Literal["place", "units"]

UNITS = ("metric", "imperial")

_RESPONSES: TypeAdapter[types.InputResponses] = TypeAdapter(types.InputResponses)


@dataclass(frozen=True)
class Meaning:
    """The meaning of a user's answer to a question.

    Attributes:
        what: "fits", "loose" (it fits and has more than was asked), "bad", "decline" or "cancel".
        value: The choice.
    """

    what: Literal["fits", "loose", "bad", "decline", "cancel"]
    value: str = ""


def interpret(answer: types.InputResponse, name: Name, choices: Sequence[str]) -> Meaning:
    """Return the meaning of an answer to a question with some choices."""
    if not isinstance(answer, types.ElicitResult):
        return Meaning("bad")
    if answer.action in ("decline", "cancel"):
        return Meaning(answer.action)
    content: Any = answer.content
    if answer.action != "accept" or not isinstance(content, dict):
        return Meaning("bad")
    value = cast("dict[str, Any]", content).get(name)
    if not isinstance(value, str) or value not in choices:
        return Meaning("bad")
    return Meaning("fits" if len(cast("dict[str, Any]", content)) == 1 else "loose", value)


def is_of_the_protocol(answers: types.InputResponses | None) -> bool:
    """Return whether the protocol's schema accepts a request's answers: no form has a `null`."""
    try:
        found = _RESPONSES.validate_python(
            {key: as_json(each) for key, each in (answers or {}).items()}
        )
    except ValidationError:
        return False
    forms = [each.content or {} for each in found.values() if isinstance(each, types.ElicitResult)]
    return not any(value is None for form in forms for value in form.values())


_SPACE = " \t\n\v\f\r"


def _normalize(location: str) -> str:
    """Return a location as the page compares it: without surrounding ASCII space, in lower case."""
    return re.sub(r"[A-Z]", lambda found: found[0].lower(), location.strip(_SPACE))


def _normalize_loosely(location: str) -> str:
    """Return a location as a generous server may read it.

    It takes compatible letters, any space and any case, and leaves accents out.
    """
    letters = unicodedata.normalize("NFKD", location.strip()).casefold().strip()
    return "".join(each for each in letters if not unicodedata.combining(each))


def _find_places(wanted: str) -> tuple[str, ...]:
    return tuple(
        label
        for label in weather.REPORTS
        if wanted in (label.lower(), label.partition(",")[0].lower())
    )


@lru_cache(256)
def places_meant(location: str) -> tuple[tuple[str, ...], ...]:
    """Return the places that a location may mean; several sets if the page leaves it open."""
    strict = _find_places(_normalize(location))
    loose = _find_places(_normalize_loosely(location))
    return (strict,) if strict or strict == loose else (strict, loose)


def place_messages(location: str) -> tuple[str, ...]:
    """Return the allowed wordings of the question about a location.

    The page leaves open what white space is.
    """
    return tuple(
        dict.fromkeys(f"Which {each}?" for each in (location.strip(_SPACE), location.strip()))
    )


def fits_the_schema(request: Request) -> bool:
    """Return whether a request calls the tool with a location that fits."""
    arguments = request.sent_arguments
    if request.tool != TOOL or not isinstance(arguments, dict):
        return False
    location = cast("dict[str, Any]", arguments).get("location")
    return isinstance(location, str) and 1 <= len(location) <= 100


def has_control(location: str) -> bool:
    """Return whether a location has a control character besides the space around it."""
    return any(unicodedata.category(letter) == "Cc" for letter in location.strip(_SPACE))


def has_more(request: Request) -> bool:
    """Return whether a request has more arguments, which a server may refuse or ignore."""
    return list(request.sent_arguments) != ["location"]


def location_of(request: Request) -> str:
    """Return the location of a request whose arguments fit."""
    return request.sent_arguments["location"]
