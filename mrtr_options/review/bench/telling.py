"""A run as rows of a table, one for each thing that happened, in words.

The only telling of a history: the terminal, a finding's story, the tour, the pictures and the page
show these rows, each as much of them as it has room for. Knows events; nothing of how a row is
shown.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import mcp_types as types

from mrtr_options.review.bench.history import (
    HUNG,
    UNREADABLE,
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Event,
    Failed,
    History,
    Received,
    Redeployed,
    Reply,
    Request,
    Restarted,
    Sent,
    as_json,
    readable_state,
)
from mrtr_options.review.bench.scenario import Change
from mrtr_options.tool.server import TOOL

Kind = Literal[
    "request",
    "response",
    "task",
    "question",
    "answer",
    "effect",
    "failure",
    "crash",
    "change",
    "time",
    "kept",
    "skipped",
]
"""Two are of no event: what a database was seen to keep, and an effect that was not repeated."""

Tone = Literal["", "question", "error"]

USER, CLIENT, DATABASE, EFFECTS = "user", "client", "database", "effects"
Lane = int | str
"""Who takes part: an instance by its number from 0, or one of the above."""

CHANGES: dict[Change, str] = {
    "reworded": "a version with another wording",
    "schema": "a version with one more choice",
    "inserted": "a version with one more question",
    "removed": "a version with one question less",
    "reordered": "a version with another order of questions",
    "effect": "a version with one more effect",
    "renamed": "a version with other names of file and functions",
}


@dataclass(frozen=True)
class Row:
    """One thing that happened.

    Attributes:
        kind: What it is.
        text: In a sentence.
        label: In a few words.
        wire: Line by line, as it goes over the wire: first what it is, then what is in it.
        start, end: Who it comes from, and whom it is for; None where that cannot be seen, and as
            the end of a request to which there is no response.
        tone: Whether it asks, or is an error.
        number: Of a request and its response: the request's, counted from 1.
        exchange, round, call: As in `Sent`.
        nth: Of a request: which round of its call it is. One that is sent again is the same round.
        lost: Whether there is a response and the client did not get it.
        again: Whether an equal request of this call was sent before.
        effect: The kind of an effect.
        times: How often one of its kind has taken place by then; 0 where it was absorbed.
        quiet: Whether it is a look at a task that shows nothing new.
    """

    kind: Kind
    text: str
    label: str = ""
    wire: tuple[str, ...] = ()
    start: Lane | None = None
    end: Lane | None = None
    tone: Tone = ""
    number: int = 0
    exchange: int = 0
    round: int | None = None
    call: int = 1
    nth: int = 0
    lost: bool = False
    again: bool = False
    effect: str = ""
    times: int = 0
    quiet: bool = False


def tell(history: History) -> list[Row]:
    """A whole run."""
    telling = Telling()
    return [row for event in history.events for row in telling.rows(event)]


class Telling:
    """Tells a run event by event, as it happens."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._states: dict[str, int] = {}
        self._came: dict[str, str] = {}
        self._begins: dict[str | None, int] = {None: 1}
        self._nth: dict[int, int] = {}
        self._sent: list[tuple[int, Request]] = []
        self._last: Sent | None = None
        self._times = Counter[str]()
        self._stands: tuple[str | None, ...] = ()

    def rows(self, event: Event) -> Iterator[Row]:
        """What an event is in the table: no row, one, or two for a task that has ended."""
        here, round = (self._last.instance, self._last.round) if self._last else (0, None)
        pushed = self._last is not None and self._last.request.era == "legacy"
        asker = here if pushed else CLIENT
        match event:
            case Sent():
                yield self._request(event)
            case Received():
                yield from self._response(event)
            case Asked(message=text):
                label, at = f"asks: {text}", event.round
                yield Row("question", text, label, start=asker, end=USER, tone="question", round=at)
            case Answered(action=action, content=content):
                text = action if content is None else f"{action} {json.dumps(content)}"
                label = f"answers {_values(content) or action}"
                yield Row("answer", text, label, start=USER, end=asker, round=round)
            case Effect():
                yield self._effect(event, event.round or round)
            case Failed(kind=kind):
                label, at = f"{kind} fails", event.round or round
                yield Row(
                    "failure", f"the {label}", label, start=event.instance, end=EFFECTS, round=at
                )
            case Crashed(instance=place):
                text = f"instance {place + 1} dies, another takes its place"
                yield Row("crash", text, "crashes", start=place, round=event.round)
            case Restarted(keys=keys):
                known = {"same": "", "rotated": ", with rotated keys", "new": ", with new keys"}[
                    keys
                ]
                yield Row("change", f"every instance is replaced{known}")
            case Redeployed(change=change, only=only):
                version = "the version before" if change is None else CHANGES[change]
                where = "" if only is None else f" on instance {only + 1}"
                yield Row("change", f"{version} is deployed{where}")
            case Elapsed(seconds=seconds):
                yield Row("time", elapsed(seconds))
            case _:
                pass

    def _request(self, sent: Sent) -> Row:
        request, self._last = sent.request, sent
        number = self._numbers[sent.exchange] = len(self._numbers) + 1
        again = (sent.call, request) in self._sent
        self._sent.append((sent.call, request))
        nth = self._begins.get(request.state, sent.round)
        self._nth[sent.exchange] = nth = nth if request.method == "tools/call" else sent.round
        text = _sentence(request, self._states.get(request.state or ""))
        return Row(
            *("request", text, _label(request), tuple(_wire_of(request))),
            start=CLIENT,
            end=sent.instance,
            number=number,
            exchange=sent.exchange,
            round=sent.round,
            call=sent.call,
            nth=nth,
            again=again,
            quiet=request.method == "tasks/get",
        )

    def _response(self, got: Received) -> Iterator[Row]:
        reply, number = got.reply, self._numbers[got.exchange]
        text = came(reply)
        if reply.state is not None:
            if self._came.setdefault(reply.state, text) != text:
                text += f", with the state of {self._states[reply.state]} again"
            self._states.setdefault(reply.state, number)
            self._begins.setdefault(reply.state, self._nth[got.exchange] + (not reply.later))
        at: dict[str, Any] = {
            "start": got.instance,
            "end": CLIENT,
            "number": number,
            "exchange": got.exchange,
            "round": got.round,
            "call": got.call,
        }
        stands = reply.status, reply.status_message
        if reply.status is not None and stands != self._stands:
            text = ": ".join(filter(None, stands))
            yield Row("task", text, ", ".join((f"task: {text}", *reply.questions)), **at)
            self._stands = stands
        wire, label, tone = _reply(reply)
        quiet = not wire or (reply.status is not None and bool(reply.questions))
        if reply.nothing is not None:
            at["end"] = None
        yield Row("response", text, label, wire, tone=tone, lost=got.lost, quiet=quiet, **at)

    def _effect(self, event: Effect, round: int | None) -> Row:
        effect = event.effect
        self._times[effect.kind] += not event.absorbed
        times = 0 if event.absorbed else self._times[effect.kind]
        key = "" if effect.key is None else f" (idempotency key {effect.key!r})"
        return Row(
            "effect",
            f"{effect.kind} of {quoted(effect.subject)}",
            f"{effect.kind} {times}" if times else f"{effect.kind} absorbed",
            (f"{effect.kind} {effect.subject!r}{key}{', absorbed' if event.absorbed else ''}",),
            start=event.instance,
            end=EFFECTS,
            round=round,
            effect=effect.kind,
            times=times,
        )


def elapsed(seconds: float) -> str:
    """Time that passes."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f} minutes pass" if minutes > 1 and not rest else f"{seconds:g} s pass"


_MANY = re.compile(r"([^\\'\"])\1{19,}")


_PLAIN = re.compile(r"[a-z0-9.-]+")
"""A caller's name that no other one looks like."""


def quoted(value: object) -> str:
    """A value as Python writes it, so that no two look alike: where letters are made of several
    characters all but ASCII is escaped, and many equal characters are counted.
    """
    text = repr(value)
    if unicodedata.normalize("NFC", text) != text:
        text = ascii(value)
    mark = text[0] if isinstance(value, str) else "'"  # what stands around a text
    parts = _MANY.sub(lambda of: f"{mark} + {len(of[0])} * {mark}{of[1]}{mark} + {mark}", text)
    return (
        parts
        if parts == text
        else parts.replace(f"{mark}{mark} + ", "").replace(f" + {mark}{mark}", "")
    )


# --- a request ----------------------------------------------------------------------------------


def _label(request: Request) -> str:
    given = [
        _values(answer.content) or answer.action
        for answer in (request.answers or {}).values()
        if isinstance(answer, types.ElicitResult)
    ]
    first = f"{TOOL}({request.location})" if request.method == "tools/call" else request.method
    return ", ".join(given) or first


def _values(content: Any) -> str:
    # Foreign clients are played with content that is no object.
    filled = cast("dict[str, Any]", content).values() if isinstance(content, dict) else (content,)
    return ", ".join(str(each) for each in filled) if content else ""


def _wire_of(request: Request) -> Iterator[str]:
    what = request.method
    yield f"{TOOL}(location={request.location!r})" if what == "tools/call" else what
    if request.answers:
        answers = {key: as_json(given) for key, given in request.answers.items()}
        yield f"answers {json.dumps(answers)}"
    if request.state is not None:
        readable = readable_state(request.state)
        content = "sealed" if readable is None else f"signed, reads {readable}"
        yield f"state of {len(request.state)} bytes, {UNREADABLE if readable == UNREADABLE else content}"


def _sentence(request: Request, state_of: int | None) -> str:
    if request.method == "tools/list":
        return "the tools are listed"
    nameless = (
        "somebody without a name" if request.principal is None else "somebody with an empty name"
    )
    name = request.principal or ""
    who = nameless if not name else name if _PLAIN.fullmatch(name) else quoted(name)
    what = f"{who} calls {request.tool or 'a tool without a name'}"
    if request.arguments is None:
        what += f" for {quoted(request.location)}"
    elif request.arguments is ...:
        what += " without arguments"
    else:
        what += f" with {quoted(request.arguments)}"
    if request.era == "legacy":
        what += ", by a client of the old era" + (
            f" ({request.version})" if request.version else ""
        )
    if not request.asks:
        what += ", by a client that cannot ask" + (" by forms" if request.declares else "")
    elif request.declares == "empty":
        what += ", by a client that declares elicitation as {}"
    for key, answer in (request.answers or {}).items():
        what += f", answers {key!r}: {_answer(answer)}"
    if request.forged is not None:
        what += f", with a state that was forged: {request.forged}"
    elif request.state is not None:
        what += f", with the state of {state_of}" if state_of else ", with a made-up state"
    return what


def _answer(answer: Any) -> str:
    action = getattr(answer, "action", None)
    if action is None:
        return "no answer to a form"
    content: Any = getattr(answer, "content", None)
    if action != "accept":
        return f"{action}" + (f" with {quoted(content)}" if content is not None else "")
    return quoted(content)


# --- a response ---------------------------------------------------------------------------------


def came(reply: Reply) -> str:
    """A response, in words."""
    if reply.nothing is not None:
        if reply.nothing == HUNG:
            return "no response"
        return reply.message or "the connection broke off"
    if reply.malformed is not None:
        return f"a response that is not of the protocol ({reply.malformed})"
    if reply.code is not None:
        return f"error {reply.code}: {_short(reply.message or '')}"
    if reply.text is not None:
        return f"{'an isError result' if reply.is_error else 'the text'} {_short(reply.text)}"
    if reply.later:
        return "a state and no question"
    asked = [
        f"{quoted(message)} ({_form_in_words(reply.schemas[key])})"
        for key, message in reply.questions.items()
    ]
    asked += reply.others.values()
    return f"the question {' and '.join(asked)}" if asked else "neither a question nor a state"


def outcome(reply: Reply) -> tuple[str, str]:
    """What the client is left with, `question`, `result`, `error` or `nothing`; and in a few
    words.
    """
    _, label, tone = _reply(reply)
    if reply.nothing is not None or reply.malformed is not None:
        return "nothing", label
    return tone or "result", label


def _reply(reply: Reply) -> tuple[tuple[str, ...], str, Tone]:
    """A response as it goes over the wire, in a few words, and in which tone."""
    if reply.nothing is not None:
        where = (reply.message or "").splitlines() if reply.nothing == HUNG else []
        return (
            (f"nothing ({reply.nothing})", *(f"it is at {line}" for line in where)),
            "no response",
            "error",
        )
    if reply.malformed is not None:
        return (came(reply),), "no response", "error"
    if reply.code is not None:
        text = f"error {reply.code}: {reply.message}"
        return (text,), text, "error"
    if reply.text is not None:
        kind = "error" if reply.is_error else "result"
        return (f"{kind}: {reply.text}",), reply.text, "error" if reply.is_error else ""
    if reply.questions:
        names = ", ".join(map(reply.name_of, reply.questions))
        return (f"input required: {', '.join(reply.questions)}",), f"asks {names}", "question"
    return ((came(reply),), came(reply), "") if reply.later else ((), "", "")


def _form_in_words(schema: dict[str, Any]) -> str:
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    parts = [
        f"{name}: {', '.join(map(str, part.get('enum') or ['?']))}"
        for name, part in properties.items()
    ]
    missing = [name for name in properties if name not in (schema.get("required") or [])]
    return "; ".join(parts + [f"{name} is not required" for name in missing])


def _short(text: str) -> str:
    return quoted(text if len(text) <= 200 else f"{text[:200]}...")
