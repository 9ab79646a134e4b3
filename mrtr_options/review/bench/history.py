"""The recording of one run: everything that happened, in order, as typed events that never change.

What is shown of a run is computed from its history: what the client saw and the cell of the matrix
(`judge.reading`), and the rows that the terminal and every picture show (`telling`). A new way to
look at runs is a new function of a `History`.

Knows scenarios, which say what was played, effects, and how a state is read; nothing of what runs
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import mcp_types as types
from mcp.server.request_state import InvalidRequestState

from mrtr_options.review.bench.attacks import readings
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.scenario import Change, Declares, Keys, Scenario
from mrtr_options.sdk.protection import read_without_key
from mrtr_options.sdk.telemetry import without_name
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL

Method = Literal["tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/cancel"]

LOST, HUNG = "lost", "hung"

Form = tuple[str, dict[str, Any]]
"""A question as the user sees it: its message, and what can be chosen in each field of its form."""


# --- what goes over the wire --------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One request of a client's.

    Attributes:
        location: The tool's argument.
        answers: By key.
        state: The token.
        principal: Who is calling; None for a caller without a name.
        asks: Whether the client declares that it can ask by forms.
        declares: How it declares elicitation, if not as the SDK's client does.
        version: With which version it shakes hands, if not with the newest of the legacy era.
        method: `tools/call`, `tools/list`, or one that is about a task (SEP-2663).
        task: The id of the task that it is about.
        takes_tasks: Whether the client declares the Tasks extension.
        era: The client's.
        tool: The name of the tool.
        arguments: As they are sent, valid or not; None for the location alone, `...` for none.
        forged: How the state was made, if the client made it.
        key: The call key; None for a client that makes none.
        named: The name that the server gives the call, which the client does not send; None if it
            gives none.
        session: The name of the session in which an old client sends it; empty for one of its own.
    """

    location: str = ""
    answers: types.InputResponses | None = None
    state: str | None = None
    principal: str | None = "alice"
    asks: bool = True
    declares: Declares | None = None
    method: Method = "tools/call"
    task: str = ""
    takes_tasks: bool = False
    era: Era = "modern"
    tool: str = TOOL
    arguments: Any = None
    forged: str | None = None
    key: str | None = None
    version: str | None = None
    named: str | None = None
    session: str = ""

    @property
    def call_name(self) -> str | None:
        """The name that first requests of one call share: the client's or the server's."""
        return self.key or self.named

    @property
    def sent_arguments(self) -> Any:
        """The arguments as they go over the wire."""
        return {"location": self.location} if self.arguments is None else self.arguments


@dataclass(frozen=True)
class Reply:
    """One response, as the client sees it.

    Attributes:
        text: Of a result.
        is_error: Whether that result is a tool error.
        blocks: The kinds of that result's content blocks, in order.
        structured: Its structured content.
        code, message, data: Of a JSON-RPC error. Where a request hangs, `message` is the author's
            lines at which the server waits, if they can be seen.
        questions: Messages by key, of a round that asks.
        schemas: The JSON schemas of their forms, by key.
        others: The methods of what was asked that is no form, by key.
        state: The token that came with them.
        later: Whether this is a state-only response: the client retries with the state.
        nothing: Why there is no response at all.
        malformed: What is wrong with a response that is not of the protocol.
        task, status, status_message: Of a response that describes a task.
        tools: Of a listing: each tool as it is on the wire, by name.
        texts: Every string that the server sent with it but for the state: in the whole result, in
            its handshake and in notifications.
        unknown_type: A `resultType` that the protocol does not have.
    """

    text: str | None = None
    is_error: bool = False
    blocks: tuple[str, ...] = ()
    structured: Any = None
    code: int | None = None
    message: str | None = None
    data: Any = None
    questions: dict[str, str] = field(default_factory=dict[str, str])
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    others: dict[str, str] = field(default_factory=dict[str, str])
    state: str | None = None
    later: bool = False
    nothing: Literal["lost", "hung"] | None = None
    malformed: str | None = None
    task: str | None = None
    status: str | None = None
    status_message: str | None = None
    tools: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    unknown_type: str = ""

    @property
    def is_result(self) -> bool:
        """Whether this ends the call."""
        return self.text is not None

    @property
    def failed(self) -> bool:
        """Whether the client got nothing that it can continue with."""
        return self.code is not None or self.nothing is not None or self.malformed is not None

    @property
    def is_refusal(self) -> bool:
        """Whether this is an error: of the protocol, or of the tool."""
        return self.code is not None or self.is_error

    @property
    def reason(self) -> str | None:
        """The reason of an error in one word, where its data name one."""
        match self.data:
            case {"reason": str(reason)}:
                return reason
            case _:
                return None

    def name_of(self, key: str) -> str:
        """The schedule's name for a question: its form's first field. A key is the server's."""
        return next(iter(self.schemas.get(key, {}).get("properties", {})), key)

    def same_as(self, other: Reply) -> bool:
        """Whether two responses are equal but for the state, which is sealed each time."""
        return (self.text, self.is_error, self.code, self.questions, self.status) == (
            other.text,
            other.is_error,
            other.code,
            other.questions,
            other.status,
        )


# --- events -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """A request was delivered to an instance.

    Attributes:
        exchange: Its number; the `Received` with the same number is its response.
        round: The round, counted over the whole run from 1. A request that is delivered twice, and
            one that repeats itself because of a state-only response or to look at a task, is one
            round.
        delivery: Which delivery of the round: 0, and 1 where the network duplicated it.
        call: Which of the user's calls it belongs to, from 1.
        instance: Where it was delivered, from 0.
        request: What was sent.
    """

    exchange: int
    round: int
    delivery: int
    call: int
    instance: int
    request: Request


@dataclass(frozen=True)
class Received:
    """A response, or the end of a request without one.

    Attributes:
        exchange: The number of the request.
        round, delivery, call, instance: As in `Sent`.
        reply: The response.
        lost: Whether it broke off on its way, so that the client did not see it.
    """

    exchange: int
    round: int
    delivery: int
    call: int
    instance: int
    reply: Reply
    lost: bool = False


@dataclass(frozen=True)
class Asked:
    """The user saw a question.

    Attributes:
        round: The round that brought it.
        call: Which call it belongs to.
        name: The schedule's name for it: its form's first field.
        message: What the user reads.
        schema: The JSON schema of the form.
        declared: Whether the client had declared that it can ask.
        delivery: Of a legacy call: to which delivery of its request the question belongs.
    """

    round: int
    call: int
    name: str
    message: str
    schema: dict[str, Any]
    declared: bool = True
    delivery: int = 0

    @property
    def form(self) -> Form:
        """The question as the user sees it."""
        return form_of(self.message, self.schema)


@dataclass(frozen=True)
class Answered:
    """The user answered a question, or changed the answer; a request that repeats an answer has no
    such event.

    Attributes:
        call: Which call.
        name: The question's name.
        action: accept, decline or cancel; "other" for what is no answer to a form.
        content: What was filled in.
        delivery: Of a legacy call: which delivery of its request had asked.
    """

    call: int
    name: str
    action: str
    content: Any
    delivery: int = 0


@dataclass(frozen=True)
class Entered:
    """One of the author's functions was entered."""

    instance: int
    round: int | None
    function: str


@dataclass(frozen=True)
class Effect:
    """An effect reached its destination.

    Attributes:
        instance: Where it came from; None where that cannot be seen.
        round: The round that this instance had last begun and not yet answered; None if there is
            none (a task at work), or where it cannot be seen.
        effect: What was done.
        absorbed: Whether the destination had seen its key, and did nothing.
    """

    instance: int | None
    round: int | None
    effect: weather.Effect
    absorbed: bool = False


@dataclass(frozen=True)
class Failed:
    """An effect did not take place: its destination was down."""

    instance: int | None
    round: int | None
    kind: weather.EffectKind


@dataclass(frozen=True)
class Crashed:
    """An instance died in the middle of a round; another takes its place.

    Attributes:
        instance, round: Where.
        why: How it ended, if not by a fault of the schedule.
    """

    instance: int
    round: int | None
    why: str | None = None


@dataclass(frozen=True)
class Restarted:
    """Every instance was replaced, unchanged but for these keys."""

    keys: Keys


@dataclass(frozen=True)
class Redeployed:
    """Instances were replaced by ones with another version of the file; see `scenario.Redeploy`."""

    change: Change | None
    only: int | None


@dataclass(frozen=True)
class Elapsed:
    """So many seconds passed."""

    seconds: float


Event = (
    Sent
    | Received
    | Asked
    | Answered
    | Entered
    | Effect
    | Failed
    | Crashed
    | Restarted
    | Redeployed
    | Elapsed
)


# --- a recording and a history ------------------------------------------------------------------


class Recording:
    """Where events are appended while a run goes on.

    Attributes:
        on_event: Told of each event as it happens.
        secrets: What no client may see, such as the keys.
    """

    def __init__(self) -> None:
        self.on_event: Callable[[Event], None] = lambda event: None
        self.secrets = set[str]()
        self._events: list[Event] = []
        self._open: dict[int, Sent] = {}

    def append(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, Sent):
            self._open[event.exchange] = event
        elif isinstance(event, Received):
            self._open.pop(event.exchange, None)
        self._events.append(event)
        self.on_event(event)

    def round_at(self, instance: int) -> int | None:
        """The round that an instance has last begun and not yet answered."""
        rounds = [sent.round for sent in self._open.values() if sent.instance == instance]
        return rounds[-1] if rounds else None

    @property
    def count(self) -> int:
        """How many events there are so far."""
        return len(self._events)

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything so far."""
        return tuple(self._events)


@dataclass(frozen=True)
class Attempt:
    """One request of the default client's.

    Attributes:
        round, attempt: See `faults.Fault`.
        played: The number that its round has in the history.
        answers: Whether it carries an answer.
    """

    round: int
    attempt: int
    played: int
    answers: bool


@dataclass(frozen=True)
class History:
    """One run.

    Attributes:
        subject: What was under review: "E", "E+single-use".
        scenario: What was played.
        deployment: Where it ran.
        instances: How many there were.
        events: In order.
        attempts: The default client's requests, in order; none where a script was played.
        secrets: What no client may see, such as the keys.
        strikes: Whether what is to go wrong at an effect does.
        chose: Whether the default client's policy made a difference.
    """

    subject: str
    scenario: Scenario
    deployment: str
    instances: int
    events: tuple[Event, ...]
    attempts: tuple[Attempt, ...] = ()
    secrets: frozenset[str] = frozenset()
    strikes: bool = True
    chose: bool = True

    @property
    def era(self) -> Era:
        """The client's."""
        return self.scenario.setup.era

    @property
    def location(self) -> str:
        """What was asked for."""
        return self.scenario.location

    @property
    def exchanges(self) -> list[tuple[Sent, Received]]:
        """Every request with its response, in the order of the responses."""
        sent = {event.exchange: event for event in self.events if isinstance(event, Sent)}
        return [
            (sent[event.exchange], event) for event in self.events if isinstance(event, Received)
        ]

    @property
    def deliveries(self) -> list[tuple[Sent, Received]]:
        """The last exchange of each delivery of a round, in the order of the responses: what came
        of it, once state-only responses were followed and a task reached its status.
        """
        last: dict[tuple[int, int], tuple[Sent, Received]] = {}
        for sent, got in self.exchanges:
            last.pop((sent.round, sent.delivery), None)
            last[sent.round, sent.delivery] = sent, got
        return list(last.values())

    def as_json(self) -> list[dict[str, Any]]:
        """The events as JSON objects; `event` names the kind."""
        return [event_as_json(event) for event in self.events]


def as_json(answer: types.InputResponse) -> dict[str, Any]:
    """What a client sends in answer to a question, as JSON; it may not fit the SDK's models."""
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True, warnings=False)


def form_of(message: str, schema: dict[str, Any]) -> Form:
    """A question as the user sees it, from its message and its form's JSON schema."""
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    return message, {name: part.get("enum") for name, part in properties.items()}


UNREADABLE = "cannot be read"
"""What is read of a state that is not sealed and has no author's part."""


def readable_state(state: str | None) -> str | None:
    """What a client can read of a state: the author's part of one that is signed but not sealed; of
    a stranger's the JSON in it.

    None if it is sealed; `UNREADABLE` if a client has changed it into something else.
    """
    try:
        payload = read_without_key(state) if state else None
        if payload is None:
            return next(filter(_is_json, readings(state or "")), None)
        return str(json.loads(without_name(payload))["s"])
    except (InvalidRequestState, ValueError, LookupError, TypeError, RecursionError):
        return UNREADABLE


def _is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        return text[:1] in ("{", "[") and bool(json.loads(text))
    return False


def event_as_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object; `event` names the kind, `readable` is what a client can read of
    the state it sends.
    """
    found = {"event": type(event).__name__.lower(), **_fields(event)}
    return (
        found | {"readable": readable_state(event.request.state)}
        if isinstance(event, Sent)
        else found
    )


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


def _plain(value: Any) -> Any:
    match value:
        case Request() | Reply() | weather.Effect():
            return _fields(value)
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}  # pyright: ignore
        case types.ElicitResult() | types.ListRootsResult() | types.CreateMessageResult():
            return as_json(value)
        case _:
            return value
