"""What must not show in a response or a state: a stack trace, a key, and what another user said.

Knows the requests of a history.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from mrtr_options.bench.attacks import readings
from mrtr_options.judge.contract.answers import fits_the_schema, location_of, on_the_wire
from mrtr_options.judge.contract.calls import Calls
from mrtr_options.judge.contract.rules import Violation
from mrtr_options.tool import weather

_TRACE = re.compile(
    r'Traceback \(most recent call last\)|File "[^"]+", line \d+|\n\s+at \S+ \(\S+:\d+:\d+\)'
)

_COMMON = re.compile(r"[a-z_]*|.{1,3}")
"""What anybody may say, as a name in JSON for one."""

_TELLING = 12
"""How many characters of a key are never there by chance. Three bytes are four characters of base64."""

_KNOWN = {*weather.REPORTS, *(label.partition(",")[0] for label in weather.REPORTS)}

_SKIES = {each.sky for each in weather.REPORTS.values()}
"""What a state says too early if its user has not been told."""


def leaks(calls: Calls) -> Iterator[Violation]:
    """Every response that shows what it must not."""
    words = _words(calls)
    names = _names_in(words)
    keys = [spelled for secret in calls.history.secrets for spelled in _spellings(secret)]
    heard: dict[str, set[str]] = {}
    for one in calls.responses:
        reply = one.reply
        shown = [
            *(text for text in (reply.text, reply.message) if text),
            *reply.questions.values(),
            *([str(reply.data)] if reply.data else []),
            *([str(reply.structured)] if reply.structured else []),
        ]
        states = readings(reply.state) if reply.state else []
        for text in (*shown, *states):
            if found := _TRACE.search(text):
                yield one.breaks("nothing-leaks", "no stack trace", f"{found[0]!r} in {text[:80]!r}")
                break
        if any(key in text for text in (*shown, *states) for key in keys):
            yield one.breaks("nothing-leaks", "no state key", "a state key")
        told = heard.setdefault(one.request.principal, set())
        for sky in sorted(_SKIES.intersection(states) - told):
            yield one.breaks("nothing-leaks", "a state without what the user was not told", repr(sky))
        told |= {sky for sky in _SKIES if sky in (reply.text or "")}
        own = words[one.request.principal]
        others = {word for who in words if who != one.request.principal for word in words[who]}
        for word in others:
            if any(word in mine for mine in own):
                continue
            if any(word in text for text in states):
                where = "the state"
            elif word not in _KNOWN and any(word in text for text in shown):
                where = "the response"
            else:
                continue
            yield one.breaks("nothing-leaks", "nothing of another user's", f"{word!r} in {where}")
        # Not in a state: three letters are in some random ones by chance.
        if found := (names - _names_in([one.request.principal])) & _names_in(shown):
            named = ", ".join(map(repr, sorted(found)))
            yield one.breaks("nothing-leaks", "no other user's name", f"{named} in the response")


def _names_in(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", text.lower())}


def _spellings(secret: str) -> set[str]:
    """The beginning and the end of a key as they may be written in a text."""
    texts: set[str] = set()
    for part in (secret[:_TELLING], secret[-_TELLING:]):
        data = part.encode()
        texts |= {
            part,
            data.hex(),
            base64.b64encode(data).decode(),
            base64.urlsafe_b64encode(data).decode(),
        }
    return texts


def _words(calls: Calls) -> dict[str, set[str]]:
    """What each user said or was asked."""
    words: dict[str, set[str]] = {}
    for one in calls.exchanges.values():
        request, reply = one.request, one.reply
        own = words.setdefault(request.principal, {request.principal})
        if fits_the_schema(request):
            own.add(location_of(request).strip())
        for answer in (request.answers or {}).values():
            own |= set(_strings(on_the_wire(answer)))
        own |= {*reply.questions.values()}
        for schema in reply.schemas.values():
            own |= set(_strings(schema))
    return {who: {word.strip() for word in own if _says_something(word)} for who, own in words.items()}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in cast("dict[str, Any]", value).items():
            yield str(key)
            yield from _strings(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from _strings(part)


def _says_something(word: str) -> bool:
    """Whether a word of one user's would be told from one that anybody may use."""
    return not _COMMON.fullmatch(word.strip())
