"""A run as rows of a table in words, one for each event.

All views of a history share these rows: the terminal, a breach's story, the tour, the pictures and
the page. Each shows as many rows as fit. Knows events; nothing of how a row is shown.
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

from mrtr_options.demo.call import effect_line, request_lines
from mrtr_options.review.bench.history import (
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
    Restarted,
    Sent,
    readable_state,
)
from mrtr_options.review.bench.messages import HUNG, Reply, Request, as_json, form_in_words
from mrtr_options.review.bench.steps import Change
from mrtr_options.tool.server import TOOL

RowKind = Literal[
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
"""The kind of a row. The rows "kept" and "skipped" have no event of their own."""

Tone = Literal["", "question", "error"]

USER = "user"
CLIENT = "client"
DATABASE = "database"
EFFECTS = "effects"
Lane = int | str
"""A participant: an instance by its number from 0, or one of the above."""

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
    """One row of the table.

    Attributes:
        kind: The kind of row.
        text: A sentence.
        label: A few words.
        wire: The message as it goes over the wire, line by line: its kind first, then its content.
        start, end: The sender and the receiver; None if that cannot be seen, and as the end of a
            response that did not come.
        tone: Whether it asks, or is an error.
        number: The number of a request, counted from 1, or of a response's request.
        exchange, sending, call: As in `Sent`.
        round: The number of a request's round in its call. A request that is sent again belongs to
            the same round.
        lost: Whether the response is lost; see `Received.lost`.
        again: Whether an equal request of this call was sent before.
        effect: The kind of an effect.
        times: How often an effect of its kind has taken place by then; 0 if it was absorbed.
        quiet: Whether it is a look at a task that shows nothing new.
    """

    kind: RowKind
    text: str
    label: str = ""
    wire: tuple[str, ...] = ()
    start: Lane | None = None
    end: Lane | None = None
    tone: Tone = ""
    number: int = 0
    exchange: int = 0
    sending: int | None = None
    call: int = 1
    round: int = 0
    lost: bool = False
    again: bool = False
    effect: str = ""
    times: int = 0
    quiet: bool = False


def narrate(history: History) -> list[Row]:
    """Return the rows of a whole run."""
    narrator = Narrator()
    return [row for event in history.events for row in narrator.rows(event)]


def line_of(row: Row) -> str | None:
    """Return a row as a line of a story; None for one that a story leaves out."""
    match row.kind:
        case "request":
            return f"{row.number}. {row.text}"
        case "response":
            return f"   gets {row.text}{' (and never sees it)' if row.lost else ''}"
        case "effect":
            return f"   effect: {row.text}"
        case "question" | "answer" if CLIENT not in (row.start, row.end):
            return f"   {row.label}"  # pushed to an old client
        case "failure" | "crash" | "change" | "time":
            return f"   {row.text}"
        case _:
            return None


class Narrator:
    """The rows of a run, made event by event as it happens."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._sending_by_state: dict[str, int] = {}
        self._text_by_state: dict[str, str] = {}
        self._round_by_state: dict[str | None, int] = {None: 1}
        self._rounds: dict[int, int] = {}
        self._sent: list[tuple[int, Request]] = []
        self._last: Sent | None = None
        self._times = Counter[str]()
        self._last_effect: tuple[str, int | None] | None = None
        self._task_status: tuple[str | None, ...] = ()

    def rows(self, event: Event) -> Iterator[Row]:
        """Yield the rows of an event: none, one, or two for a task that has ended."""
        match event:
            case Sent():
                yield self._request(event)
            case Received():
                yield from self._response(event)
            case Asked():
                yield self._question(event)
            case Answered():
                yield self._answer(event)
            case Effect():
                yield self._effect(event)
            case Failed():
                yield self._failure(event)
            case Crashed(instance=instance):
                text = f"instance {instance + 1} dies, another takes its place"
                yield Row("crash", text, "crashes", start=instance, sending=event.sending)
            case Restarted() | Redeployed() | Elapsed():
                yield _setup_change_row(event)
            case _:
                pass

    def _asker(self) -> Lane:
        """Return the participant who shows the user a question: a legacy server pushes it."""
        if self._last is not None and self._last.request.era == "legacy":
            return self._last.instance
        return CLIENT

    def _last_sending(self) -> int | None:
        """Return the sending of the last request."""
        return None if self._last is None else self._last.sending

    def _question(self, asked: Asked) -> Row:
        return Row(
            "question",
            asked.message,
            f"asks: {asked.message}",
            start=self._asker(),
            end=USER,
            tone="question",
            sending=asked.sending,
        )

    def _answer(self, answered: Answered) -> Row:
        action = answered.action
        content = answered.content
        text = action if content is None else f"{action} {json.dumps(content)}"
        label = f"answers {_values(content) or action}"
        sending = self._last_sending()
        return Row("answer", text, label, start=USER, end=self._asker(), sending=sending)

    def _failure(self, failed: Failed) -> Row:
        sending = failed.sending or self._last_sending()
        has_happened = self._last_effect == (failed.kind, sending)
        label = f"{failed.kind} {'is reported as failed' if has_happened else 'fails'}"
        return Row(
            "failure", f"the {label}", label, start=failed.instance, end=EFFECTS, sending=sending
        )

    def _request(self, sent: Sent) -> Row:
        request = sent.request
        self._last = sent
        number = len(self._numbers) + 1
        self._numbers[sent.exchange] = number
        again = (sent.call, request) in self._sent
        self._sent.append((sent.call, request))
        round_ = sent.sending
        if request.method == "tools/call":
            round_ = self._round_by_state.get(request.state, sent.sending)
        self._rounds[sent.exchange] = round_
        return Row(
            "request",
            _sentence(request, self._sending_by_state.get(request.state or "")),
            _label(request),
            tuple(_wire_of(request)),
            start=CLIENT,
            end=sent.instance,
            number=number,
            exchange=sent.exchange,
            sending=sent.sending,
            call=sent.call,
            round=round_,
            again=again,
            quiet=request.method == "tasks/get",
        )

    def _response(self, got: Received) -> Iterator[Row]:
        reply = got.reply
        number = self._numbers[got.exchange]
        text = describe_reply(reply)
        if reply.state is not None:
            if self._text_by_state.setdefault(reply.state, text) != text:
                text += f", with the state of {self._sending_by_state[reply.state]} again"
            self._sending_by_state.setdefault(reply.state, number)
            round_ = self._rounds[got.exchange]
            self._round_by_state.setdefault(reply.state, round_ if reply.later else round_ + 1)
        at: dict[str, Any] = {
            "start": got.instance,
            "end": CLIENT,
            "number": number,
            "exchange": got.exchange,
            "sending": got.sending,
            "call": got.call,
        }
        stands = (reply.status, reply.status_message)
        if reply.status is not None and stands != self._task_status:
            text = ": ".join(filter(None, stands))
            yield Row("task", text, ", ".join((f"task: {text}", *reply.questions)), **at)
            self._task_status = stands
        wire, label, tone = _reply(reply)
        quiet = not wire or (reply.status is not None and bool(reply.questions))
        if reply.nothing is not None:
            at["end"] = None
        yield Row("response", text, label, wire, tone=tone, lost=got.lost, quiet=quiet, **at)

    def _effect(self, event: Effect) -> Row:
        effect = event.effect
        times = 0
        if not event.absorbed:
            self._times[effect.kind] += 1
            times = self._times[effect.kind]
        self._last_effect = effect.kind, event.sending or self._last_sending()
        absorbed = ", absorbed" if event.absorbed else ""
        return Row(
            "effect",
            f"{effect.kind} of {quoted(effect.subject)}",
            f"{effect.kind} {times}" if times else f"{effect.kind} absorbed",
            (f"{effect_line(effect)}{absorbed}",),
            start=event.instance,
            end=EFFECTS,
            sending=event.sending or self._last_sending(),
            effect=effect.kind,
            times=times,
        )


_KEYS = {"same": "", "rotated": ", with rotated keys", "new": ", with new keys"}


def _setup_change_row(event: Restarted | Redeployed | Elapsed) -> Row:
    """Return the row of a change around the instances: a restart, a redeploy, or time."""
    match event:
        case Restarted(keys=keys):
            return Row("change", f"every instance is replaced{_KEYS[keys]}")
        case Redeployed(change=change, only=only):
            version = "the version before" if change is None else CHANGES[change]
            where = "" if only is None else f" on instance {only + 1}"
            return Row("change", f"{version} is deployed{where}")
        case Elapsed(seconds=seconds):
            return Row("time", elapsed(seconds))


def elapsed(seconds: float) -> str:
    """Return a time that passes, in words."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f} minutes pass" if minutes > 1 and not rest else f"{seconds:g} s pass"


_MANY = re.compile(r"([^\\'\"])\1{19,}")


_PLAIN = re.compile(r"[a-z0-9.-]+")
"""A caller's name that cannot be mistaken for another."""


def quoted(value: object) -> str:
    """Return a value as Python writes it, so that no two look alike.

    If letters are made of several characters, all but ASCII is escaped. Many equal characters are
    counted.
    """
    text = repr(value)
    if unicodedata.normalize("NFC", text) != text:
        text = ascii(value)
    mark = text[0] if isinstance(value, str) else "'"  # the quotation mark of a text
    parts = _MANY.sub(lambda of: f"{mark} + {len(of[0])} * {mark}{of[1]}{mark} + {mark}", text)
    if parts == text:
        return text
    return parts.replace(f"{mark}{mark} + ", "").replace(f" + {mark}{mark}", "")


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


def _wire_of(request: Request) -> list[str]:
    is_call = request.method == "tools/call"
    what = f"{TOOL}(location={request.location!r})" if is_call else request.method
    answers = {key: as_json(given) for key, given in (request.answers or {}).items()}
    return request_lines(what, answers, request.state, _read)


def _read(state: str) -> str:
    """Return what a client can read of a state."""
    readable = readable_state(state)
    if readable is None:
        return "sealed"
    return UNREADABLE if readable == UNREADABLE else f"signed, reads {readable}"


def _sentence(request: Request, state_of: int | None) -> str:
    if request.method == "tools/list":
        return "the tools are listed"
    what = f"{_caller(request.principal)} calls {request.tool or 'a tool without a name'}"
    if request.arguments is None:
        what += f" for {quoted(request.location)}"
    elif request.arguments is ...:
        what += " without arguments"
    else:
        what += f" with {quoted(request.arguments)}"
    what += _client(request)
    for key, answer in (request.answers or {}).items():
        what += f", answers {key!r}: {_answer(answer)}"
    if request.forged is not None:
        what += f", with a state that was forged: {request.forged}"
    elif request.state is not None:
        what += f", with the state of {state_of}" if state_of else ", with a made-up state"
    return what


def _client(request: Request) -> str:
    """Describe a client that is not the usual one."""
    what = ""
    if request.era == "legacy":
        what += ", by a client of the old era"
        if request.version:
            what += f" ({request.version})"
    if not request.asks:
        what += ", by a client that cannot ask"
        if request.declares:
            what += " by forms"
    elif request.declares == "empty":
        what += ", by a client that declares elicitation as {}"
    elif request.declares == "form":
        what += ", by a client that declares forms and no links"
    return what


def _caller(name: str | None) -> str:
    if name is None:
        return "somebody without a name"
    if not name:
        return "somebody with an empty name"
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _answer(answer: Any) -> str:
    action = getattr(answer, "action", None)
    if action is None:
        return "no answer to a form"
    content: Any = getattr(answer, "content", None)
    if action != "accept":
        return action if content is None else f"{action} with {quoted(content)}"
    return quoted(content)


# --- a response ---------------------------------------------------------------------------------


def describe_reply(reply: Reply) -> str:
    """Describe a response in words."""
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
        f"{quoted(message)} ({form_in_words(reply.schemas[key])})"
        for key, message in reply.questions.items()
    ]
    asked += reply.others.values()
    return f"the question {' and '.join(asked)}" if asked else "neither a question nor a state"


def outcome(reply: Reply) -> tuple[str, str]:
    """Return the outcome for the client, and a few words on it.

    The outcome is `question`, `result`, `error` or `nothing`.
    """
    _, label, tone = _reply(reply)
    if reply.nothing is not None or reply.malformed is not None:
        return "nothing", label
    return tone or "result", label


def _reply(reply: Reply) -> tuple[tuple[str, ...], str, Tone]:
    """Return a response as it goes over the wire, its few words, and its tone."""
    if reply.nothing is not None:
        where = (reply.message or "").splitlines() if reply.nothing == HUNG else []
        return (
            (f"nothing ({reply.nothing})", *(f"it is at {line}" for line in where)),
            "no response",
            "error",
        )
    if reply.malformed is not None:
        return (describe_reply(reply),), "no response", "error"
    if reply.code is not None:
        text = f"error {reply.code}: {reply.message}"
        return (text,), text, "error"
    if reply.text is not None:
        kind = "error" if reply.is_error else "result"
        return (f"{kind}: {reply.text}",), reply.text, "error" if reply.is_error else ""
    if reply.questions:
        names = ", ".join(map(reply.name_of, reply.questions))
        return (f"input required: {', '.join(reply.questions)}",), f"asks {names}", "question"
    return ((describe_reply(reply),), describe_reply(reply), "") if reply.later else ((), "", "")


def _short(text: str) -> str:
    return quoted(text if len(text) <= 200 else f"{text[:200]}...")
