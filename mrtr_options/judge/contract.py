"""The contract as a specification that runs: what docs/CONTRACT.md allows, held against a history.

`violations` reads a history from its first event to its last. For each request it computes every
response that the page allows there, and every effect, from what any onlooker knows: what was sent,
which state, what that state was handed out with, and what happened to the servers since. Where the
page leaves a choice, each is allowed. Nothing here knows how a server works.

A state's meaning is taken from the response that it came with: with question "place" nothing is
settled, with the question about units for a place that place is, and a state-only response is the same
request still at work.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import jsonschema
import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from mrtr_options.bench.attacks import readings, spelling
from mrtr_options.bench.history import (
    HUNG,
    LOST,
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Failed,
    History,
    Received,
    Redeployed,
    Reply,
    Request,
    Restarted,
    Sent,
)
from mrtr_options.tool import weather
from mrtr_options.tool.protection import MAX_TOKEN_BYTES
from mrtr_options.tool.server import TOOL

RULES: dict[str, str] = {
    "arguments-are-checked": "Arguments that do not fit, and unknown tools, are -32602 without effects.",
    "the-tool-is-listed": "The tool is listed with the input schema of the page.",
    "questions-are-asked-in-order": "Questions come in order, in the page's words, with its choices.",
    "the-report-is-the-pages": "A call that is answered ends in the page's report of what was answered.",
    "unknown-places-are-errors": "A place that does not exist is an `isError` result without a bill.",
    "decline-ends-the-call": "A declined question ends the call with a text that says so, no bill.",
    "cancel-ends-the-call": "A cancelled question ends the call with a text that says so, no bill.",
    "answers-are-checked": "An answer that does not fit is -32602 naming the question; no bill.",
    "missing-answers-are-asked-again": "A round without the answer is asked again.",
    "cold-answers-do-no-harm": "An answer before its question is used or ignored, and held to the form.",
    "settled-answers-stay": "A settled answer stands, whatever comes later.",
    "another-answer-is-not-the-first": "Another answer to one state is taken as it is, or -32602.",
    "duplicates-get-one-response": "A request that is delivered twice gets the same response twice.",
    "a-lost-call-is-no-other-call": "A call that was lost goes on, or is refused with -32602.",
    "failed-effects-are-not-done": "A round whose effect failed ends in an error; it may be retried.",
    "state-is-genuine": "A state that the server did not hand out is -32602 without a bill.",
    "state-is-bound-to-its-call": "A state with other arguments is -32602 without a bill.",
    "state-is-bound-to-its-principal": "A state in other hands is -32602 without a bill.",
    "state-expires": "A state of more than ten minutes is -32602, of up to nine it is good.",
    "asks-only-who-can-be-asked": "No question goes to a client that did not declare elicitation.",
    "clients-that-cannot-be-asked": "Unasked, Tokyo assumes metric and Springfield is an error.",
    "every-request-is-answered": "Every request gets a response, and ten retries end a call.",
    "content-is-one-text": "A result is one text block, with structured content that fits its schema.",
    "audit-comes-first": "An audit of the location as given comes before the bill, once a delivery.",
    "bills-are-due": "Only a call that reports is billed, for its place, once a delivery.",
    "a-report-is-billed": "A call that reports has at least one bill of its place.",
    "no-other-effects": "There are two kinds of effect, and none outside a call.",
    "nothing-leaks": "No trace, no key and nothing of another user's shows in a response or a state.",
}
"""Every rule, by its name, in the order of the page."""

EXPIRES_SECONDS, SURELY_GOOD_SECONDS = 600.0, 545.0
_GRACE_SECONDS = 5.0  # that the requests themselves may have taken

INVALID, CANNOT_ASK = types.INVALID_PARAMS, types.MISSING_REQUIRED_CLIENT_CAPABILITY

Name = Literal["place", "units"]


@dataclass(frozen=True)
class Violation:
    """Something that the contract does not allow.

    Attributes:
        rule: Its name in `RULES`.
        exchange: The request; None where it is about none.
        allowed: What the contract allows there, in words.
        came: What came instead.
    """

    rule: str
    exchange: int | None
    allowed: str
    came: str


# --- responses that may be allowed --------------------------------------------------------------


@dataclass(frozen=True)
class Asks:
    """A question."""

    name: Name
    messages: tuple[str, ...]
    choices: tuple[str, ...]
    bill: str | None = None

    def fits(self, reply: Reply) -> bool:
        return not self._wrong(reply)

    def _wrong(self, reply: Reply) -> bool:
        if len(reply.questions) != 1 or reply.others:
            return True
        ((key, message),) = reply.questions.items()
        return message not in self.messages or not self._has_form(reply.schemas[key])

    def _has_form(self, schema: dict[str, Any]) -> bool:
        properties: dict[str, Any] = schema.get("properties") or {}
        part: dict[str, Any] = properties.get(self.name) or {}
        return (
            list(properties) == [self.name]
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
    bill: str | None = None

    def fits(self, reply: Reply) -> bool:
        return reply.text is not None and not reply.is_error and self.word in reply.text

    def __str__(self) -> str:
        return f"a text with {self.word!r}"


@dataclass(frozen=True)
class ToolError:
    """An `isError` result."""

    naming: str = ""
    bill: str | None = None

    def fits(self, reply: Reply) -> bool:
        return reply.text is not None and reply.is_error and self.naming in reply.text

    def __str__(self) -> str:
        return "an isError result" + (f" naming {self.naming!r}" if self.naming else "")


@dataclass(frozen=True)
class Refused:
    """A JSON-RPC error."""

    codes: tuple[int, ...] = (INVALID,)
    naming: str = ""
    bill: str | None = None

    def fits(self, reply: Reply) -> bool:
        if reply.code is None or (self.codes and reply.code not in self.codes):
            return False
        return self.naming in (reply.message or "")

    def __str__(self) -> str:
        codes = " or ".join(map(str, self.codes)) or "any code"
        return f"error {codes}" + (f" naming {self.naming!r}" if self.naming else "")


Allowed = Asks | Reports | Ends | ToolError | Refused


# --- what an answer is --------------------------------------------------------------------------

_RESPONSES: TypeAdapter[types.InputResponses] = TypeAdapter(types.InputResponses)


@dataclass(frozen=True)
class Said:
    """What a user's answer to a question comes to.

    Attributes:
        what: "fits", "loose" (it fits and has more than was asked), "bad", "decline" or "cancel".
        value: The choice.
    """

    what: Literal["fits", "loose", "bad", "decline", "cancel"]
    value: str = ""


def _said(answer: types.InputResponse, name: Name, choices: Sequence[str]) -> Said:
    if not isinstance(answer, types.ElicitResult):
        return Said("bad")
    if answer.action in ("decline", "cancel"):
        return Said(answer.action)
    content: Any = answer.content
    if answer.action != "accept" or not isinstance(content, dict):
        return Said("bad")
    value = cast("dict[str, Any]", content).get(name)
    if not isinstance(value, str) or value not in choices:
        return Said("bad")
    return Said("fits" if len(cast("dict[str, Any]", content)) == 1 else "loose", value)


def _on_the_wire(answer: types.InputResponse) -> Any:
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True, warnings=False)


def _is_of_the_protocol(answers: types.InputResponses | None) -> bool:
    try:
        _RESPONSES.validate_python({key: _on_the_wire(each) for key, each in (answers or {}).items()})
    except ValidationError:
        return False
    return True


# --- what a location is -------------------------------------------------------------------------


_SPACE = " \t\n\v\f\r"


def _plain(location: str) -> str:
    """As the page compares it: without surrounding ASCII white space, in lower case."""
    return re.sub(r"[A-Z]", lambda found: found[0].lower(), location.strip(_SPACE))


def _loosely(location: str) -> str:
    """As a generous server may: compatible letters, any space, any case, without accents."""
    letters = unicodedata.normalize("NFKD", location.strip()).casefold().strip()
    return "".join(each for each in letters if not unicodedata.combining(each))


def _matches(wanted: str) -> tuple[str, ...]:
    return tuple(
        label for label in weather.REPORTS if wanted in (label.lower(), label.partition(",")[0].lower())
    )


def _meanings(location: str) -> list[tuple[str, ...]]:
    """The places that a location may mean; more than one set where the page leaves it open."""
    strict, loose = _matches(_plain(location)), _matches(_loosely(location))
    return [strict] if strict or strict == loose else [strict, loose]


def _place_messages(location: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"Which {each}?" for each in (location.strip(_SPACE), location.strip())))


def _fits_the_schema(request: Request) -> bool:
    arguments = request.sent_arguments
    if request.tool != TOOL or not isinstance(arguments, dict):
        return False
    location = cast("dict[str, Any]", arguments).get("location")
    return list(cast("dict[str, Any]", arguments)) == ["location"] and (
        isinstance(location, str) and 1 <= len(location) <= 100
    )


def location_of(request: Request) -> str:
    """The location of a request whose arguments fit."""
    return request.sent_arguments["location"]


# --- where a call stands ------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """Where a call stands when a request comes.

    Attributes:
        open: The question that its state came with; None at the beginning.
        key: That question's key.
        place: What is settled.
        earlier: Answers that came before their questions, by name: they may still be used.
        given: The answers of the request that a state-only response was the response to.
    """

    open: Name | None = None
    key: str | None = None
    place: str | None = None
    earlier: tuple[tuple[Name, types.InputResponse], ...] = ()
    given: tuple[tuple[str, types.InputResponse], ...] = ()


@dataclass(frozen=True)
class Token:
    """A state that was handed out.

    Attributes:
        exchange: With which response.
        request: To which request.
        position: Where the call stands with it.
        at: When, in seconds.
        ring: How many times all keys had been replaced.
        home: The instance, and how often that had been replaced.
        root: The first request of its call, by its round.
        parents: The states before it in its call.
    """

    exchange: int
    request: Request
    position: Position
    at: float
    ring: int
    home: tuple[int, int]
    root: int
    parents: tuple[str, ...]


@dataclass
class Exchange:
    """One request, with what was known when it was sent."""

    sent: Sent
    at: float
    ring: int
    home: tuple[int, int]
    token: Token | None
    position: Position
    root: int
    genuine: bool
    respelled: bool = False
    got: Received | None = None
    failed: bool = False
    crashed: bool = False
    asked: list[Asked] = field(default_factory=list[Asked])
    answered: list[Answered] = field(default_factory=list[Answered])
    allowed: list[Allowed] = field(default_factory=list[Allowed])
    begun: int = 0
    ended: int | None = None

    @property
    def request(self) -> Request:
        return self.sent.request

    @cached_property
    def fingerprint(self) -> str:
        """What was sent, but for the state."""
        request = self.request
        answers = {key: _on_the_wire(each) for key, each in (request.answers or {}).items()}
        sent = (request.tool, request.sent_arguments, sorted(answers.items()))
        return repr((*sent, request.principal, request.asks))

    @property
    def reply(self) -> Reply:
        return self.got.reply if self.got else Reply(nothing=LOST)


def violations(history: History, *, tools: dict[str, dict[str, Any]] | None = None) -> list[Violation]:
    """What a history has that the contract does not allow, in its order.

    Args:
        history: Of any server of the weather tool. One whose code is changed on the way, and a client
            that takes tasks, are not what the contract is about: there is nothing to find in them.
        tools: The server's listing, where it was read in another run.

    Source: docs/CONTRACT.md.
    """
    if history.schedule.changes or history.schedule.takes_tasks:
        return []
    return _Reader(history, tools or {}).read()


class _Reader:
    def __init__(self, history: History, tools: dict[str, dict[str, Any]]) -> None:
        self.history = history
        self.tools = tools
        self.now = 0.0
        self.ring = 0
        self.lives = [0] * history.instances
        self.exchanges: dict[int, Exchange] = {}
        self.by_state: dict[str, list[Exchange]] = {}
        self.tokens: dict[str, Token] = {}
        self.spelled: dict[str, Token] = {}
        self.roots: dict[tuple[str, int], int] = {}
        self.keys: dict[str, set[Name]] = {"place": {"place"}, "units": {"units"}}
        self.stateless: dict[int, Position] = {}
        self.effects: list[tuple[int, Effect]] = []
        self.found: list[Violation] = []

    def read(self) -> list[Violation]:
        for turn, event in enumerate(self.history.events):
            match event:
                case Sent():
                    self._sent(turn, event)
                case Received():
                    self._received(turn, event)
                case Asked():
                    self._of_round(event.round, lambda one, event=event: one.asked.append(event))
                case Answered():
                    for one in self._open():
                        if one.sent.call == event.call and one.asked:
                            one.answered.append(event)
                case Failed():
                    self._hit(event.instance, "failed")
                case Crashed():
                    self._hit(event.instance, "crashed")
                    if event.why is not None:
                        last = max(self.exchanges, default=None)
                        goes_on = "a response, and a server that goes on"
                        rule = "every-request-is-answered"
                        self.found.append(Violation(rule, last, goes_on, event.why))
                    self.lives[event.instance] += 1
                case Restarted():
                    self.lives = [life + 1 for life in self.lives]
                    self.ring += event.keys == "new"
                case Redeployed():
                    for place, life in enumerate(self.lives):
                        self.lives[place] = life + (event.only in (None, place))
                case Elapsed():
                    self.now += event.seconds
                case Effect():
                    self.effects.append((turn, event))
                case _:
                    pass
        for one in self._calls():
            if one.request.state is not None and one.request.forged is None:
                self.by_state.setdefault(one.request.state, []).append(one)
        for one in self._calls():
            self._judge(one)
        self._duplicates()
        self._effects()
        self._leaks()
        order = {name: place for place, name in enumerate(RULES)}
        return sorted(self.found, key=lambda each: (each.exchange or 10**9, order[each.rule]))

    # --- reading --------------------------------------------------------------------------------

    def _calls(self) -> Iterator[Exchange]:
        return (one for one in self.exchanges.values() if one.got is not None)

    def _open(self) -> Iterator[Exchange]:
        return (one for one in self.exchanges.values() if one.got is None)

    def _of_round(self, number: int, do: Callable[[Exchange], None]) -> None:
        for one in self._open():
            if one.sent.round == number:
                do(one)

    def _hit(self, instance: int | None, how: Literal["failed", "crashed"]) -> None:
        for one in self._open():
            if instance in (None, one.sent.instance):
                setattr(one, how, True)

    def _sent(self, turn: int, sent: Sent) -> None:
        state = sent.request.state
        token = self.tokens.get(state) if state is not None else None
        respelled = False
        if token is None and state is not None and len(state) <= MAX_TOKEN_BYTES:
            token = self.spelled.get(spelling(state))
            respelled = token is not None
        position = token.position if token else Position()
        if state is None and sent.request.answers is not None:
            position = self.stateless.get(sent.call, position)
        self.exchanges[sent.exchange] = Exchange(
            sent,
            self.now,
            self.ring,
            (sent.instance, self.lives[sent.instance]),
            token,
            position,
            self.roots.get((state or "", sent.call), token.root) if token else sent.round,
            genuine=state is None or token is not None,
            respelled=respelled,
            begun=turn,
        )

    def _received(self, turn: int, got: Received) -> None:
        one = self.exchanges[got.exchange]
        if one.got is not None:  # a look at a task that took too long
            return
        one.got = got
        reply = got.reply
        one.ended = None if reply.nothing is not None or reply.later else turn
        for key in reply.questions:
            name = reply.name_of(key)
            if name in ("place", "units"):
                self.keys.setdefault(key, set()).add(name)
        position = self._next(one)
        if position is None:
            return
        if reply.state is None:
            self.stateless[one.sent.call] = position
            return
        self.stateless.pop(one.sent.call, None)
        parents = one.token.parents if one.token else ()
        if one.request.state is not None:
            parents = (*parents, one.request.state)
        token = Token(
            got.exchange, one.request, position, self.now, self.ring, one.home, one.root, parents
        )
        self.tokens.setdefault(reply.state, token)
        self.roots.setdefault((reply.state, one.sent.call), one.root)
        self.spelled.setdefault(spelling(reply.state), token)

    def _next(self, one: Exchange) -> Position | None:
        """Where the call stands after a response that lets it go on."""
        reply = one.reply
        if reply.later:
            return replace(one.position, given=self._given(one))
        if not reply.questions:
            return None
        key, message = next(iter(reply.questions.items()))
        _, cold = self._answers(one)
        earlier = list(one.position.earlier)
        for name, answers in cold.items():
            earlier.extend((name, answer) for answer in answers)
        if reply.name_of(key) == "place":
            return Position("place", key, None, tuple(earlier))
        place = message.removeprefix("Which units for ").removesuffix("?")
        return Position("units", key, place if place in weather.REPORTS else None, tuple(earlier))

    @staticmethod
    def _given(one: Exchange) -> tuple[tuple[str, types.InputResponse], ...]:
        return (*one.position.given, *(one.request.answers or {}).items())

    def _answers(
        self, one: Exchange
    ) -> tuple[types.InputResponse | None, dict[Name, list[types.InputResponse]]]:
        """The answer to the open question, and answers that may be to other ones."""
        to_open: types.InputResponse | None = None
        cold: dict[Name, list[types.InputResponse]] = {"place": [], "units": []}
        for name, answer in one.position.earlier:
            cold[name].append(answer)
        for key, answer in self._given(one):
            if one.position.open is not None and key == one.position.key:
                to_open = answer
            else:
                for name in self.keys.get(key, ()):
                    cold[name].append(answer)
        return to_open, cold

    # --- judging one response -------------------------------------------------------------------

    def _wrong(self, rule: str, one: Exchange | None, allowed: str, came: str) -> None:
        self.found.append(Violation(rule, one.sent.exchange if one else None, allowed, came))

    def _judge(self, one: Exchange) -> None:
        reply, request = one.reply, one.request
        if request.method == "tools/list":
            self._listing(one)
            return
        if reply.nothing is not None:
            self._nothing(one)
            return
        if reply.malformed is not None:
            self._wrong("content-is-one-text", one, "a response of the protocol", reply.malformed)
            return
        rule, allowed = self._legacy(one) if request.era == "legacy" else self._modern(one)
        if one.failed or self._failed_before(one):
            allowed = [*allowed, Refused(()), ToolError()]
            rule = "failed-effects-are-not-done"
        one.allowed = allowed
        if reply.is_result:
            self._content(one)
        if reply.later and any(not isinstance(each, Refused) for each in allowed):
            return
        if any(each.fits(reply) for each in allowed):
            return
        if reply.questions and not request.asks:
            rule = "asks-only-who-can-be-asked"
        self._wrong(rule, one, in_words(allowed), came(reply))

    def _nothing(self, one: Exchange) -> None:
        left = one.request.era == "legacy" and len(one.answered) < len(one.asked)
        broken_off = one.crashed or left or self._armed(one)
        one.allowed = [] if one.request.era == "legacy" and left else self._possible(one)
        if one.reply.nothing == HUNG or not broken_off:
            self._wrong("every-request-is-answered", one, "a response", came(one.reply))

    def _failed_before(self, one: Exchange) -> bool:
        """Whether the same request was delivered before, and an effect failed or the server died: a
        duplicate may get that error again, or be told that it is not known what was done."""
        return one.request.state is not None and any(
            (other.failed and _same(other.reply, one.reply)) or other.reply.nothing == LOST
            for other in self.by_state.get(one.request.state, ())
            if other.begun < one.begun
        )

    def _armed(self, one: Exchange) -> bool:
        """Whether the schedule lets something go wrong in a round, so that its response is lost."""
        return self.history.schedule.has_fault

    def _possible(self, one: Exchange) -> list[Allowed]:
        _, allowed = self._legacy(one) if one.request.era == "legacy" else self._modern(one)
        return allowed

    def _listing(self, one: Exchange) -> None:
        tool = one.reply.tools.get(TOOL)
        if tool is None:
            self._wrong("the-tool-is-listed", one, f"a tool {TOOL!r}", f"{list(one.reply.tools)}")
            return
        schema: dict[str, Any] = tool.get("inputSchema") or {}
        properties: dict[str, Any] = schema.get("properties") or {}
        location: dict[str, Any] = properties.get("location") or {}
        wanted: list[tuple[str, Any, Any]] = [
            ("type", schema.get("type"), "object"),
            ("properties", list(properties), ["location"]),
            ("required", schema.get("required"), ["location"]),
            ("additionalProperties", schema.get("additionalProperties"), False),
            ("location.type", location.get("type"), "string"),
            ("location.minLength", location.get("minLength"), 1),
            ("location.maxLength", location.get("maxLength"), 100),
        ]
        for what, is_, due in wanted:
            if is_ != due:
                self._wrong("the-tool-is-listed", one, f"{what} is {due!r}", f"it is {is_!r}")

    def _content(self, one: Exchange) -> None:
        reply = one.reply
        if one.request.tool != TOOL:
            return
        if reply.blocks != ("text",):
            kinds = ", ".join(reply.blocks) or "no content"
            self._wrong("content-is-one-text", one, "one text block", kinds)
        schema = self.tools.get(TOOL, {}).get("outputSchema")
        if schema is not None and not reply.is_error and (why := _misfit(schema, reply.structured)):
            self._wrong("content-is-one-text", one, "structured content that fits its schema", why)

    def _modern(self, one: Exchange) -> tuple[str, list[Allowed]]:
        request = one.request
        if not _fits_the_schema(request):
            return "arguments-are-checked", [Refused()]
        token = one.token
        soft = False
        if not one.genuine and request.state == "":
            return "state-is-genuine", [*self._ways(one)[1], Refused()]
        if not one.genuine:
            return "state-is-genuine", [Refused()]
        rule = ""
        if token is not None:
            if token.request.principal != request.principal:
                return "state-is-bound-to-its-principal", [Refused()]
            if not _fits_the_schema(token.request):
                return "state-is-bound-to-its-call", [Refused()]
            if location_of(token.request) != location_of(request):
                return "state-is-bound-to-its-call", [Refused()]
            age = one.at - token.at
            if age > EXPIRES_SECONDS + _GRACE_SECONDS:
                return "state-expires", [Refused()]
            if one.respelled:
                soft, rule = True, "state-is-genuine"
            if age > SURELY_GOOD_SECONDS:
                soft, rule = True, "state-expires"
            if token.ring != one.ring or token.home != one.home:
                soft, rule = True, "a-lost-call-is-no-other-call"
            if self._forked(one):
                soft, rule = True, "another-answer-is-not-the-first"
            if not rule and token.at and age:
                rule = "state-expires"
        found, allowed = self._ways(one)
        if soft:
            allowed.append(Refused())
        if not _is_of_the_protocol(request.answers):
            allowed.append(Refused())
            found = "answers-are-checked"
        return rule if rule and found in _PLAIN else found, allowed

    def _forked(self, one: Exchange) -> bool:
        """Whether one of the states that led here also came with another answer."""
        own = one.fingerprint
        token = one.token
        assert token is not None
        used = dict[str, set[str]]()
        for state in (*token.parents, one.request.state or ""):
            for other in self.by_state.get(state, ()):
                if other.begun > (one.ended or 10**9):
                    continue
                if other.request.principal != one.request.principal:
                    continue
                to_open, _ = self._answers(other)
                position = other.position
                if to_open is None or position.open is None:
                    continue
                choices = self._choices(position, other)
                if _said(to_open, position.open, choices).what == "bad":
                    continue
                used.setdefault(state, set()).add(other.fingerprint)
        here = used.get(one.request.state or "", set()) - {own}
        return bool(here) or any(
            len(found) > 1 for state, found in used.items() if state != one.request.state
        )

    def _choices(self, position: Position, one: Exchange) -> tuple[str, ...]:
        if position.open == "units":
            return ("metric", "imperial")
        if not _fits_the_schema(one.request):
            return ()
        return _meanings(location_of(one.request))[-1]

    def _ways(self, one: Exchange) -> tuple[str, list[Allowed]]:
        location = location_of(one.request)
        allowed: list[Allowed] = []
        rule = ""
        for matches in _meanings(location):
            way = _Way(one, location, matches, *self._answers(one))
            allowed += way.place()
            rule = way.rule
        return rule, list(dict.fromkeys(allowed))

    def _legacy(self, one: Exchange) -> tuple[str, list[Allowed]]:
        """A whole call in one request: its questions are pushed, if they are."""
        request = one.request
        if not _fits_the_schema(request):
            return "arguments-are-checked", [Refused()]
        location = location_of(request)
        if not one.asked:
            unasked = replace(one, sent=replace(one.sent, request=replace(request, asks=False)))
            rule, allowed = self._ways(unasked)
            return (
                "unknown-places-are-errors"
                if rule == "unknown-places-are-errors"
                else "clients-that-cannot-be-asked"
            ), allowed
        place: str | None = None
        matches = _meanings(location)[-1]
        if len(matches) == 1:
            place = matches[0]
        answered = list(one.answered)
        rule = "questions-are-asked-in-order"
        for asked in one.asked:
            due: Asks = _asks_place(location, matches) if place is None else _asks_units(place)
            shown = Reply(questions={"k": asked.message}, schemas={"k": asked.schema})
            if not matches or not due.fits(shown):
                self._wrong(rule, one, str(due), came(shown))
                return rule, [Refused(()), ToolError(), *([Reports(one.reply.text or "", None)])]
            if not asked.declared:
                self._wrong("asks-only-who-can-be-asked", one, "no question", came(shown))
            if not answered:
                return rule, [Refused(()), ToolError()]
            said = _said_by(answered.pop(0), due)
            match said.what:
                case "decline":
                    return "decline-ends-the-call", [Ends("declined")]
                case "cancel":
                    return "cancel-ends-the-call", [Ends("cancelled")]
                case "bad":
                    if asked is one.asked[-1]:
                        naming = due.name
                        return "answers-are-checked", [Refused(naming=naming), ToolError(naming)]
                case "fits" | "loose":
                    if place is not None:
                        report = Reports(_report(place, said.value), place)
                        return "the-report-is-the-pages", [report]
                    place = said.value
        return rule, [_asks_place(location, matches) if place is None else _asks_units(place)]

    # --- several responses ----------------------------------------------------------------------

    def _duplicates(self) -> None:
        """The same request gets the same response."""
        first: dict[tuple[Any, ...], Exchange] = {}
        for one in self._calls():
            request = one.request
            if request.era == "legacy" or request.method != "tools/call" or not one.genuine:
                continue
            which = one.sent.round if request.state is None else request.state
            same = (which, one.fingerprint)
            reply = one.reply
            if reply.nothing is not None or reply.later or one.failed:
                continue
            before = first.setdefault(same, one)
            if before is one:
                continue
            if self._may_differ(before, one):
                first[same] = one
                continue
            if not _same(before.reply, reply):
                self._wrong(
                    "duplicates-get-one-response",
                    one,
                    f"what the same request got before: {came(before.reply)}",
                    came(reply),
                )

    def _may_differ(self, before: Exchange, one: Exchange) -> bool:
        """Whether a refusal of one of the two has a reason of its own."""
        refused = [each for each in (before, one) if each.reply.code == INVALID]
        if len(refused) != 1:
            return False
        token = refused[0].token
        if token is None:
            return False
        lost = token.ring != refused[0].ring or token.home != refused[0].home
        late = refused[0].at - token.at > SURELY_GOOD_SECONDS
        return lost or late or self._forked(refused[0])

    # --- effects --------------------------------------------------------------------------------

    def _effects(self) -> None:
        for turn, effect in self.effects:
            kind, subject = cast("str", effect.effect.kind), effect.effect.subject
            if kind not in ("audit", "bill"):
                self._effect_wrong("no-other-effects", turn, "effects audit and bill", effect)
            elif not self._at_work(turn):
                self._effect_wrong("no-other-effects", turn, "no effect outside a call", effect)
            elif kind == "bill" and not any(subject in self._bills(one) for one in self._at_work(turn)):
                due = sorted({each for one in self._at_work(turn) for each in self._bills(one)})
                allowed = f"a bill of {' or '.join(due)}" if due else "no bill"
                self._effect_wrong("bills-are-due", turn, allowed, effect)
            elif kind == "audit" and not any(
                subject in self._audits(one) for one in self._at_work(turn)
            ):
                due = sorted({each for one in self._at_work(turn) for each in self._audits(one)})
                allowed = f"an audit of {' or '.join(map(repr, due))}" if due else "no effect"
                rule = "audit-comes-first" if due else "arguments-are-checked"
                self._effect_wrong(rule, turn, allowed, effect)
        self._too_many("audit", self._audits, "audit-comes-first")
        self._too_many("bill", self._bills, "bills-are-due")
        self._too_few()

    def _effect_wrong(self, rule: str, turn: int, allowed: str, effect: Effect) -> None:
        one = next(iter(self._at_work(turn)), None)
        came = f"{effect.effect.kind} of {effect.effect.subject!r}"
        self._wrong(rule, one, allowed, f"an effect: {came}")

    def _at_work(self, turn: int) -> list[Exchange]:
        """The requests that an effect may belong to; another instance may work at them."""
        return [
            one
            for one in self.exchanges.values()
            if one.begun < turn and (one.ended is None or turn < one.ended)
        ]

    def _bills(self, one: Exchange) -> dict[str, int]:
        """How often each place may be billed for a request."""
        reply = one.reply
        if reply.nothing is None and not reply.later and not one.failed:
            fitting = [each for each in one.allowed if each.fits(reply)] or one.allowed
        else:
            fitting = one.allowed
        times = 2 if one.crashed else 1  # what died may have been begun again
        return {each.bill: times for each in fitting if each.bill is not None}

    def _audits(self, one: Exchange) -> dict[str, int]:
        """How often each location may be audited for a request."""
        if one.request.method != "tools/call" or not _fits_the_schema(one.request):
            return {}
        return {location_of(one.request): 1 + len(one.asked) * (one.request.era == "legacy")}

    def _too_many(self, kind: str, due: Callable[[Exchange], dict[str, int]], rule: str) -> None:
        here = [
            (turn, effect)
            for turn, effect in self.effects
            if effect.effect.kind == kind and not effect.absorbed
        ]
        places: list[list[tuple[int, int]]] = [
            [
                (one.sent.exchange, number)
                for one in self._at_work(turn)
                for number in range(due(one).get(effect.effect.subject, 0))
            ]
            for turn, effect in here
        ]
        # A bill has one place a request: the slots of one request are shared by all its subjects.
        for left in _unmatched(places):
            turn, effect = here[left]
            if places[left]:
                self._effect_wrong(rule, turn, f"at most one {kind} a delivery", effect)

    def _too_few(self) -> None:
        """Each call that reports has an audit, and a bill after it."""
        wanted: dict[tuple[int, str, str], Exchange] = {}
        for one in self._calls():
            for each in one.allowed:
                if isinstance(each, Reports) and each.bill and each.fits(one.reply):
                    wanted.setdefault((one.root, location_of(one.request), each.bill), one)
        bills = [(t, e) for t, e in self.effects if e.effect.kind == "bill"]
        audits = [(t, e) for t, e in self.effects if e.effect.kind == "audit"]
        options: list[list[int]] = []
        calls = list(wanted.items())
        for (root, _, place), one in calls:
            mine = [other for other in self.exchanges.values() if other.root == root]
            options.append(
                [
                    number
                    for number, (turn, effect) in enumerate(bills)
                    if effect.effect.subject == place
                    and (one.ended is None or turn < one.ended)
                    and any(each in mine for each in self._at_work(turn))
                ]
            )
        for left in _unmatched(options):
            (_, _, place), one = calls[left]
            self._wrong(
                "a-report-is-billed", one, f"a bill of {place!r}", f"none before {came(one.reply)}"
            )
        for ((root, location, _), one), bills_of in zip(calls, options, strict=True):
            mine = [other for other in self.exchanges.values() if other.root == root]
            last = max((bills[number][0] for number in bills_of), default=one.ended or 10**9)
            if not any(
                turn < last
                and effect.effect.subject == location
                and any(each in mine for each in self._at_work(turn))
                for turn, effect in audits
            ):
                self._wrong(
                    "audit-comes-first", one, f"an audit of {location!r} before the bill", "none"
                )

    # --- leaks ----------------------------------------------------------------------------------

    def _leaks(self) -> None:
        words = self._words()
        for one in self._calls():
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
                    self._wrong("nothing-leaks", one, "no stack trace", f"{found[0]!r} in {text[:80]!r}")
                    break
            for secret in self.history.secrets:
                if any(secret in text for text in (*shown, *states)):
                    self._wrong("nothing-leaks", one, "no state key", "a state key")
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
                allowed = "nothing of another user's"
                self._wrong("nothing-leaks", one, allowed, f"{word!r} in {where}")

    def _words(self) -> dict[str, set[str]]:
        """What each user said or was told."""
        words = dict[str, set[str]]()
        for one in self.exchanges.values():
            request, reply = one.request, one.reply
            own = words.setdefault(request.principal, {request.principal})
            if _fits_the_schema(request):
                own.add(location_of(request).strip())
            for answer in (request.answers or {}).values():
                own |= set(_strings(_on_the_wire(answer)))
            own |= {reply.text or "", *reply.questions.values()}
            for schema in reply.schemas.values():
                own |= set(_strings(schema))
        return {
            who: {word.strip() for word in own if _says_something(word)} for who, own in words.items()
        }


class _Way:
    """What is allowed for one request, its location taken for some places."""

    def __init__(
        self,
        one: Exchange,
        location: str,
        matches: tuple[str, ...],
        to_open: types.InputResponse | None,
        cold: dict[Name, list[types.InputResponse]],
    ) -> None:
        self.asks = one.request.asks
        self.later = one.request.state is not None
        self.location, self.matches = location, matches
        self.open, self.settled = one.position.open, one.position.place
        self.to_open, self.cold = to_open, cold
        self.rule = "questions-are-asked-in-order"

    def place(self) -> list[Allowed]:
        if not self.matches:
            self.rule = "unknown-places-are-errors"
            return [ToolError()]
        if len(self.matches) == 1:
            return self.units(self.matches[0])
        if self.settled is not None:
            if any(_said(each, "place", self.matches).what != "cancel" for each in self.cold["place"]):
                self.rule = "settled-answers-stay"
            allowed = self.units(self.settled)
            if any(_said(each, "place", self.matches).what == "bad" for each in self.cold["place"]):
                allowed.append(Refused())
            return allowed
        question = _asks_place(self.location, self.matches)
        unasked: list[Allowed] = [ToolError()]
        allowed = self._answered(question, unasked, self.units)
        return [*allowed, *([] if self.asks or not self.later else unasked)]

    def units(self, place: str) -> list[Allowed]:
        unasked: list[Allowed] = [Reports(_report(place, None), place)]

        def reports(units: str) -> list[Allowed]:
            self._is("the-report-is-the-pages" if self.asks else "clients-that-cannot-be-asked")
            return [Reports(_report(place, units), place)]

        return self._answered(_asks_units(place), unasked, reports)

    def _is(self, rule: str) -> None:
        if self.rule == "questions-are-asked-in-order":
            self.rule = rule

    def _answered(
        self, question: Asks, unasked: list[Allowed], then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        name = question.name
        allowed: list[Allowed] = []
        if self.open == name and self.to_open is not None:
            return self._one(question, self.to_open, then)
        for answer in self.cold[name]:
            allowed += self._one(question, answer, then)
        if allowed:
            self.rule = "cold-answers-do-no-harm"
        elif not self.asks:
            self.rule = "clients-that-cannot-be-asked"
        elif self.open == name:
            self._is("missing-answers-are-asked-again")
        if self.asks:
            return [question, *allowed]
        return [*unasked, *allowed, *([Refused((INVALID, CANNOT_ASK))] if self.later else [])]

    def _one(
        self, question: Asks, answer: types.InputResponse, then: Callable[[str], list[Allowed]]
    ) -> list[Allowed]:
        said = _said(answer, question.name, question.choices)
        refused = Refused(naming=question.name)
        match said.what:
            case "fits":
                return then(said.value)
            case "loose":
                return [*then(said.value), refused]
            case "bad":
                self._is("answers-are-checked")
                return [refused]
            case "decline":
                self._is("decline-ends-the-call")
                return [Ends("declined")]
            case "cancel":
                self._is("cancel-ends-the-call")
                return [Ends("cancelled")]


# --- the page's words ---------------------------------------------------------------------------


def _asks_place(location: str, matches: tuple[str, ...]) -> Asks:
    return Asks("place", _place_messages(location), matches)


def _asks_units(place: str) -> Asks:
    return Asks("units", (f"Which units for {place}?",), ("metric", "imperial"))


def _report(place: str, units: str | None) -> str:
    answer = (
        weather.UnitsAssumed(units="metric")
        if units is None
        else weather.UnitsAnswer.model_validate({"units": units})
    )
    return weather.report(place, answer)


def in_words(allowed: Sequence[Allowed]) -> str:
    """What is allowed, in a sentence."""
    return "; or ".join(map(str, allowed))


def came(reply: Reply) -> str:
    """A response, in words."""
    if reply.nothing is not None:
        return "no response" if reply.nothing == HUNG else "the connection broke off"
    if reply.malformed is not None:
        return f"a response that is not of the protocol ({reply.malformed})"
    if reply.code is not None:
        return f"error {reply.code}: {_short(reply.message or '')}"
    if reply.text is not None:
        return f"{'an isError result' if reply.is_error else 'the text'} {_short(reply.text)}"
    if reply.later:
        return "a state and no question"
    asked = [
        f"{message!r} ({_form_in_words(reply.schemas[key])})" for key, message in reply.questions.items()
    ]
    asked += reply.others.values()
    return f"the question {' and '.join(asked)}" if asked else "neither a question nor a state"


def _form_in_words(schema: dict[str, Any]) -> str:
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    parts = [
        f"{name}: {', '.join(map(str, part.get('enum') or ['?']))}" for name, part in properties.items()
    ]
    missing = [name for name in properties if name not in (schema.get("required") or [])]
    return "; ".join(parts + [f"{name} is not required" for name in missing])


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


# --- helpers ------------------------------------------------------------------------------------

_PLAIN = ("questions-are-asked-in-order", "the-report-is-the-pages", "missing-answers-are-asked-again")
"""The rules of a request about which nothing is special."""

_TRACE = re.compile(
    r'Traceback \(most recent call last\)|File "[^"]+", line \d+|\n\s+at \S+ \(\S+:\d+:\d+\)'
)

_COMMON = re.compile(r"[a-z_]*|.{1,3}")
"""What anybody may say, as a name in JSON for one."""

_KNOWN = {*weather.REPORTS, *(label.partition(",")[0] for label in weather.REPORTS)}


def _same(one: Reply, other: Reply) -> bool:
    return (one.text, one.is_error, one.code, sorted(one.questions.values())) == (
        other.text,
        other.is_error,
        other.code,
        sorted(other.questions.values()),
    )


def _said_by(event: Answered, question: Asks) -> Said:
    if event.action == "decline" or event.action == "cancel":
        return Said(event.action)
    answer = types.ElicitResult.model_construct(action=event.action, content=event.content)
    return _said(answer, question.name, question.choices)


def _misfit(schema: dict[str, Any], structured: Any) -> str | None:
    """Why structured content does not fit its schema; None if it does."""
    if structured is None:
        return "there is none"
    try:
        jsonschema.validate(structured, schema)
    except (jsonschema.ValidationError, jsonschema.SchemaError) as error:
        return error.message
    return None


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


def _unmatched(places: Sequence[Sequence[Any]]) -> list[int]:
    """Which of these cannot each have a place of its own (a maximum matching)."""
    taken: dict[Any, int] = {}

    def seat(number: int, tried: set[Any]) -> bool:
        for place in places[number]:
            if place not in tried:
                tried.add(place)
                if place not in taken or seat(taken[place], tried):
                    taken[place] = number
                    return True
        return False

    return [number for number in range(len(places)) if not seat(number, set())]
