"""Leaks: texts that must not show in a response or a state.

They are a stack trace, a key, and another user's words.

Knows the requests of a history.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.client import strings_in
from mrtr_options.review.bench.history.state_text import readings
from mrtr_options.review.bench.messages import as_json
from mrtr_options.review.bench.world.ledger import MADE_TO_FAIL
from mrtr_options.review.judge.contract.content import fits_the_schema, location_of
from mrtr_options.review.judge.contract.exchanges import Calls, Exchange
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool import weather

_TRACE = re.compile(
    r'Traceback \(most recent call last\)|File "[^"]+", line \d+'  # of Python
    r"|\n\s+at .*(\.[A-Za-z]+:(line )?\d+|:\d+:\d+\))"  # of Node, Java and .NET
    r"|goroutine \d+ \[|stack backtrace:\n|\.rb:\d+:in |\n#\d+ \S+\(\d+\): "  # Go, Rust, Ruby, PHP
)

_COMMON = re.compile(r"[a-z_]*|.{1,3}")
"""Words that anybody may use, such as a name in JSON."""

_KEY_CHARACTERS = 12
"""The number of characters of a key that never appear by chance.

Three bytes are four characters of base64.
"""
_UNLIKELY_CHARACTERS = 8
"""The number of characters that one text has by chance at times, and two texts never."""

_NOT_THEIRS = "nothing of another user's"
_NO_SECRET = "no state key and no folder of the server's"

_NO_NAMES = ("none", "null", "anonymous")
"""Names that a user may have, and that others may use as well."""

_PLACES = {*weather.REPORTS, *(label.partition(",")[0] for label in weather.REPORTS)}

_SKIES = {each.sky for each in weather.REPORTS.values() if len(each.sky) > 3}
"""Words of reports that a state must not have before its user has seen the report.

"fog" appears in random states by chance, so it is left out.
"""


_Words = dict[str | None, set[str]]
"""Words by user."""


def find_leaks(calls: Calls) -> Iterator[Problem]:
    """Yield a problem for each response that shows what it must not."""
    theirs = _collect_of_others(calls)
    beginnings = {secret[:_UNLIKELY_CHARACTERS]: set[str]() for secret in calls.history.secrets}
    keys = _spell_secrets(calls.history.secrets)
    reported: _Words = {}
    for one in calls.responses:
        reply = one.reply
        shown = _collect_texts(one)
        states = readings(reply.state) if reply.state else ()
        yield from _find_traces(one, shown, states)
        yield from _find_keys(one, shown, states, keys)
        yield from _find_beginnings(one, shown, states, beginnings)
        came_in = reply.nothing is None  # the message of a lost response is the client's own note
        if calls.is_struck and came_in:
            yield from _find_exceptions(one, shown)
        skies = reported.setdefault(one.request.principal, set())
        yield from _find_skies(one, states, skies)
        skies |= {sky for sky in _SKIES if sky in (reply.text or "")}
        yield from _find_words(theirs[one.request.principal], one, shown, states)


def _spell_secrets(secrets: Iterable[str]) -> dict[str, str]:
    """Return the spellings of all secrets, with a description of what each is a part of."""
    spelled: dict[str, str] = {}
    for secret in sorted(secrets):
        is_folder = secret.startswith("/")
        what = "of a folder of the server's" if is_folder else "of a state key"
        spelled |= dict.fromkeys(sorted(_spell_key(secret)), what)
    return spelled


def _find_beginnings(
    one: Exchange, shown: list[str], states: Sequence[str], beginnings: dict[str, set[str]]
) -> Iterator[Problem]:
    """Yield a problem if a secret's beginning is in a second text. `beginnings` has the texts."""
    for beginning, texts in beginnings.items():
        before = len(texts)
        texts |= {text for text in (*shown, *states) if beginning in text}
        if before < 2 <= len(texts):
            came = f"the beginning of one, {_quote_around(beginning, shown, states)}"
            yield one.breaks(rules.NOTHING_LEAKS, _NO_SECRET, came)


def _find_skies(one: Exchange, states: Sequence[str], reported: set[str]) -> Iterator[Problem]:
    """Yield a problem for each word of a report in a state, before its user saw the report."""
    allowed = "a state without what the user was not told"
    for sky in sorted(_SKIES.intersection(states) - reported):
        yield one.breaks(rules.NOTHING_LEAKS, allowed, repr(sky))


def _find_traces(one: Exchange, shown: list[str], states: Sequence[str]) -> Iterator[Problem]:
    for text in (*shown, *states):
        found = _TRACE.search(text)
        if found is not None:
            trace = _quote_around(found[0], shown, states)
            yield one.breaks(rules.NOTHING_LEAKS, "no stack trace", trace)
            return


def _find_keys(
    one: Exchange, shown: list[str], states: Sequence[str], keys: dict[str, str]
) -> Iterator[Problem]:
    """Yield a problem for the first spelling of a secret. `keys` says what each spelling is of."""
    for text in (*shown, *states):
        for key in keys:
            if key in text:
                came = f"a part {keys[key]}, {_quote_around(key, shown, states)}"
                yield one.breaks(rules.NOTHING_LEAKS, _NO_SECRET, came)
                return


def _find_exceptions(one: Exchange, shown: list[str]) -> Iterator[Problem]:
    inside = [text for text in MADE_TO_FAIL if any(text in each for each in shown)]
    if inside:
        came = f"{inside[0]!r}, which the ledger's exception says"
        yield one.breaks(rules.EXCEPTIONS_STAY_INSIDE, "the server's own words", came)


def _find_words(
    others: _Others, one: Exchange, shown: list[str], states: Sequence[str]
) -> Iterator[Problem]:
    """Yield a problem for each word of other users in a response or its state.

    Question texts may be shown to anyone, but must not appear in another user's state. Names are
    not looked for in states, since some random states have three letters by chance.
    """
    for word in others.answers:
        if any(word in text for text in shown):
            yield one.breaks(rules.NOTHING_LEAKS, _NOT_THEIRS, f"{word!r} in the response")
    for word in others.words:
        if _is_in_state(word, states):
            yield one.breaks(rules.NOTHING_LEAKS, _NOT_THEIRS, f"{word!r} in the state")
    found = ", ".join(repr(name) for name in others.names if _is_named(name, shown))
    if found:
        yield one.breaks(rules.NOTHING_LEAKS, "no other user's name", f"{found} in the response")


def _collect_texts(one: Exchange) -> list[str]:
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
        answers: Their answers.
        words: Their answers and their questions.
        names: Their names.
    """

    answers: list[str]
    words: list[str]
    names: list[str]


def _collect_of_others(calls: Calls) -> dict[str | None, _Others]:
    said: _Words = {}
    asked: _Words = {}
    for one in calls.exchanges.values():
        request = one.request
        own = said.setdefault(request.principal, {request.principal or ""})
        if fits_the_schema(request):
            own.add(location_of(request))
        own.update(*(strings_in(as_json(each)) for each in (request.answers or {}).values()))
        shown = [*one.reply.questions.values(), *strings_in([*one.reply.schemas.values()])]
        asked.setdefault(request.principal, set()).update(shown)
    said = {who: _select_identifying(words) for who, words in said.items()}
    asked = {who: _select_identifying(words) for who, words in asked.items()}
    found: dict[str | None, _Others] = {}
    for mine in said:
        others = [who for who in said if who != mine]
        own = "\n".join(said[mine] | asked[mine])
        words = {word for who in others for word in said[who] if word not in own}
        more = {word for who in others for word in asked[who] if word not in own}
        names = {(who or "").strip().lower() for who in others}
        names -= {(mine or "").strip().lower(), "", *_NO_NAMES}
        found[mine] = _Others(sorted(words - _PLACES), sorted(words | more), sorted(names))
    return found


def _quote_around(word: str, shown: Sequence[str], states: Sequence[str]) -> str:
    """Return a word with the text around it."""
    where, text = next(
        (where, text)
        for where, texts in (("response", shown), ("state", states))
        for text in texts
        if word in text
    )
    at = text.index(word)
    return f"{word!r} in the {where}: {text[max(at - 40, 0) : at + len(word) + 40]!r}"


def _is_in_state(word: str, states: Iterable[str]) -> bool:
    """Return whether a word is in a state. A short word is inside random texts by chance."""
    found = [text for text in states if word in text]
    return bool(found) and (len(word) >= _UNLIKELY_CHARACTERS or _is_named(word, found, re.NOFLAG))


def _is_named(who: str, texts: Iterable[str], case: re.RegexFlag = re.IGNORECASE) -> bool:
    """Return whether a user's name is in a text, as a word of its own."""
    name = re.compile(rf"(?<!\w){re.escape(who)}(?!\w)", case)
    return any(map(name.search, texts))


def _spell_key(secret: str) -> set[str]:
    """Return the beginning and the end of a key in all spellings that a text may have."""
    texts: set[str] = set()
    for part in (secret[:_KEY_CHARACTERS], secret[-_KEY_CHARACTERS:]):
        data = part.encode()
        texts |= {
            part,
            data.hex(),
            base64.b64encode(data).decode(),
            base64.urlsafe_b64encode(data).decode(),
        }
    return texts


def _select_identifying(words: set[str]) -> set[str]:
    """Return the words specific enough to identify a user."""
    words = {word.strip() for word in words if word.strip().lower() not in _NO_NAMES}
    return {word for word in words if not _COMMON.fullmatch(word)}
