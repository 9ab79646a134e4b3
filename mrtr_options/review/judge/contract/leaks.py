"""Leaks: texts that must not show in a response or a state.

They are a stack trace, a key, and another user's words.

Knows the requests of a history.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mrtr_options.review.bench.attacks import readings
from mrtr_options.review.bench.client import strings_in
from mrtr_options.review.bench.history import as_json
from mrtr_options.review.bench.ledger import MADE_TO_FAIL
from mrtr_options.review.judge.contract.answers import fits_the_schema, location_of
from mrtr_options.review.judge.contract.exchanges import Calls, Exchange
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool import weather

_TRACE = re.compile(
    r'Traceback \(most recent call last\)|File "[^"]+", line \d+|\n\s+at \S+ \(\S+:\d+:\d+\)'
)

_COMMON = re.compile(r"[a-z_]*|.{1,3}")
"""Words that anybody may use, such as a name in JSON."""

_TELLING = 12
"""The number of characters of a key that never appear by chance.

Three bytes are four characters of base64.
"""
_HINTING = 8
"""The number of characters that one text has by chance at times, and two texts never."""

_NOT_THEIRS = "nothing of another user's"
_NO_SECRET = "no state key and no folder of the server's"

_NO_NAMES = ("none", "null", "anonymous")
"""Names that a user may have, and that others may use as well."""

_KNOWN = {*weather.REPORTS, *(label.partition(",")[0] for label in weather.REPORTS)}

_SKIES = {each.sky for each in weather.REPORTS.values() if len(each.sky) > 3}
"""Words of reports that a state must not have before its user has seen the report.

"fog" appears in random states by chance, so it is left out.
"""


def leaks(calls: Calls) -> Iterator[Problem]:
    """Yield a problem for each response that shows what it must not."""
    theirs = _of_others(calls)
    beginnings = {secret[:_HINTING]: set[str]() for secret in calls.history.secrets}
    keys = {
        spelled: "of a folder of the server's" if secret.startswith("/") else "of a state key"
        for secret in sorted(calls.history.secrets)
        for spelled in sorted(_spellings(secret))
    }
    heard: dict[str | None, set[str]] = {}
    for one in calls.responses:
        reply = one.reply
        shown = _shown(one)
        states = readings(reply.state) if reply.state else ()
        yield from _traces(one, shown, states)
        yield from _keys(one, shown, states, keys)
        for beginning, texts in beginnings.items():
            before = len(texts)
            texts |= {text for text in (*shown, *states) if beginning in text}
            if before < 2 <= len(texts):
                came = f"the beginning of one, {_where(beginning, shown, states)}"
                yield one.breaks("nothing-leaks", _NO_SECRET, came)
        came_in = reply.nothing is None  # the message of a lost response is the client's own note
        if calls.history.scenario.at_effects and came_in:
            yield from _exceptions(one, shown)
        told = heard.setdefault(one.request.principal, set())
        for sky in sorted(_SKIES.intersection(states) - told):
            yield one.breaks(
                "nothing-leaks", "a state without what the user was not told", repr(sky)
            )
        told |= {sky for sky in _SKIES if sky in (reply.text or "")}
        yield from _words_of(theirs[one.request.principal], one, shown, states)


def _traces(one: Exchange, shown: list[str], states: Sequence[str]) -> Iterator[Problem]:
    for text in (*shown, *states):
        found = _TRACE.search(text)
        if found is not None:
            yield one.breaks("nothing-leaks", "no stack trace", _where(found[0], shown, states))
            return


def _keys(
    one: Exchange, shown: list[str], states: Sequence[str], keys: dict[str, str]
) -> Iterator[Problem]:
    """Yield a problem for the first spelling of a secret. `keys` says what each spelling is of."""
    for text in (*shown, *states):
        for key in keys:
            if key in text:
                came = f"a part {keys[key]}, {_where(key, shown, states)}"
                yield one.breaks("nothing-leaks", _NO_SECRET, came)
                return


def _exceptions(one: Exchange, shown: list[str]) -> Iterator[Problem]:
    inside = [text for text in MADE_TO_FAIL if any(text in each for each in shown)]
    if inside:
        came = f"{inside[0]!r}, which the ledger's exception says"
        yield one.breaks("exceptions-stay-inside", "the server's own words", came)


def _words_of(
    others: _Others, one: Exchange, shown: list[str], states: Sequence[str]
) -> Iterator[Problem]:
    """Yield a problem for each word of other users in a response or its state.

    Question texts may be shown to anyone, but must not appear in another user's state. Names are
    not looked for in states, since some random states have three letters by chance.
    """
    for word in others.said:
        if any(word in text for text in shown):
            yield one.breaks("nothing-leaks", _NOT_THEIRS, f"{word!r} in the response")
    for word in others.words:
        if _is_told(word, states):
            yield one.breaks("nothing-leaks", _NOT_THEIRS, f"{word!r} in the state")
    found = ", ".join(repr(name) for name in others.names if _is_named(name, shown))
    if found:
        yield one.breaks("nothing-leaks", "no other user's name", f"{found} in the response")


def _shown(one: Exchange) -> list[str]:
    """Return every string that a server sent in answer to a request, but for the state."""
    reply = one.reply
    texts = [text for text in (reply.text, reply.message) if text]
    texts += reply.questions.values()
    if reply.data:
        texts.append(str(reply.data))
    if reply.structured:
        texts.append(str(reply.structured))
    texts += reply.texts
    for asked in one.asked:  # a question that was pushed to an old client
        texts.append(asked.message)
        texts += strings_in(asked.schema)
    return list(dict.fromkeys(texts))


@dataclass(frozen=True)
class _Others:
    """The words of other users that a user must not see.

    Attributes:
        said: Their answers.
        words: Their answers and their questions.
        names: Their names.
    """

    said: list[str]
    words: list[str]
    names: list[str]


def _of_others(calls: Calls) -> dict[str | None, _Others]:
    users = {one.request.principal for one in calls.exchanges.values()}
    if len(users) < 2:
        return {user: _Others([], [], []) for user in users}
    said = _said(calls)
    asked = _asked(calls)
    found: dict[str | None, _Others] = {}
    for mine in said:
        others = [who for who in said if who != mine]
        own = "\n".join(said[mine] | asked[mine])
        words = {word for who in others for word in said[who] if word not in own}
        more = {word for who in others for word in asked[who] if word not in own}
        names = {(who or "").strip().lower() for who in others}
        names -= {(mine or "").strip().lower(), "", *_NO_NAMES}
        found[mine] = _Others(sorted(words - _KNOWN), sorted(words | more), sorted(names))
    return found


def _where(word: str, shown: Sequence[str], states: Sequence[str]) -> str:
    """Return a word with the text around it."""
    where, text = next(
        (where, text)
        for where, texts in (("response", shown), ("state", states))
        for text in texts
        if word in text
    )
    at = text.index(word)
    return f"{word!r} in the {where}: {text[max(at - 40, 0) : at + len(word) + 40]!r}"


def _is_told(word: str, states: Iterable[str]) -> bool:
    """Return whether a word is in a state. A short word is inside random texts by chance."""
    found = [text for text in states if word in text]
    return bool(found) and (len(word) >= _HINTING or _is_named(word, found, re.NOFLAG))


def _is_named(who: str, texts: Iterable[str], case: re.RegexFlag = re.IGNORECASE) -> bool:
    """Return whether a user's name is in a text, as a word of its own."""
    name = re.compile(rf"(?<!\w){re.escape(who)}(?!\w)", case)
    return any(map(name.search, texts))


def _spellings(secret: str) -> set[str]:
    """Return the beginning and the end of a key in all spellings that a text may have."""
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


def _said(calls: Calls) -> dict[str | None, set[str]]:
    """Return the words of each user."""
    words: dict[str | None, set[str]] = {}
    for one in calls.exchanges.values():
        request = one.request
        own = words.setdefault(request.principal, {request.principal or ""})
        if fits_the_schema(request):
            own.add(location_of(request).strip())
        own.update(*(strings_in(as_json(each)) for each in (request.answers or {}).values()))
    return {who: _telling(own) for who, own in words.items()}


def _asked(calls: Calls) -> dict[str | None, set[str]]:
    """Return the questions of each user."""
    words: dict[str | None, set[str]] = {}
    for one in calls.exchanges.values():
        own = words.setdefault(one.request.principal, set())
        own |= {*one.reply.questions.values(), *strings_in([*one.reply.schemas.values()])}
    return {who: _telling(own) for who, own in words.items()}


def _telling(words: set[str]) -> set[str]:
    """Return the words specific enough to identify a user."""
    words = {word.strip() for word in words if word.strip().lower() not in _NO_NAMES}
    return {word for word in words if not _COMMON.fullmatch(word)}
