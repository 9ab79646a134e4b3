"""The recording of one run: everything that happened, in order, as typed events that never change.

What is shown of a run is computed from its history: what the client saw and the cell of the matrix
(`judge.facts`), and the rows that the terminal and every picture show (`narrate`). A new way to
look at runs is a new function of a `History`.

Knows scenarios, which say what was played, effects, and how a state is read; nothing of what runs
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.request_state import InvalidRequestState

from mrtr_options.review.bench.history.state_text import readings
from mrtr_options.review.bench.messages import (
    Era,
    Form,
    JsonObject,
    Reply,
    Request,
    as_json,
    form_of,
)
from mrtr_options.sdk.protection import read_without_key
from mrtr_options.sdk.telemetry import without_name
from mrtr_options.tool import weather

if TYPE_CHECKING:
    from mrtr_options.review.bench.policies import Choice, LossPolicy
    from mrtr_options.review.bench.scenario import Scenario
    from mrtr_options.review.bench.steps import Change, Keys


@dataclass(frozen=True)
class Sent:
    """The delivery of a request to an instance.

    Attributes:
        exchange: Its number; the `Received` with the same number is its response.
        sending: The number of the client's sending, counted over the whole run from 1. A round that
            the client sends again has another sending. A request that the network delivers twice
            is one sending. So is one that repeats itself because of a state-only response, or to
            look at a task.
        delivery: The delivery of the sending: 0, or 1 if the network duplicated it.
        call: The number of the user's call, from 1.
        instance: The instance that it was delivered to, from 0.
        request: The request.
    """

    exchange: int
    sending: int
    delivery: int
    call: int
    instance: int
    request: Request


@dataclass(frozen=True)
class Received:
    """A response, or the end of a request without one.

    Attributes:
        exchange: The number of the request.
        sending, delivery, call, instance: As in `Sent`.
        reply: The response.
        lost: Whether the response is lost: the client did not see it (`messages.LOST`).
    """

    exchange: int
    sending: int
    delivery: int
    call: int
    instance: int
    reply: Reply
    lost: bool = False


Exchanged = tuple[Sent, Received]
"""A request with its response."""


@dataclass(frozen=True)
class Asked:
    """The user's first look at a question.

    Attributes:
        sending: The sending whose response brought it.
        call: The number of its call.
        name: The schedule's name for it: its form's first field.
        message: The text that the user reads.
        schema: The JSON schema of the form.
        declared: Whether the client had declared that it can ask.
        delivery: The delivery of the request that asked, in a legacy call.
    """

    sending: int
    call: int
    name: str
    message: str
    schema: JsonObject
    declared: bool = True
    delivery: int = 0

    @property
    def form(self) -> Form:
        """The question as the user sees it."""
        return form_of(self.message, self.schema)


@dataclass(frozen=True)
class Answered:
    """The user's answer to a question, or a change of it.

    A request that repeats an answer has no such event.

    Attributes:
        call: The number of the call.
        name: The question's name.
        action: accept, decline or cancel; "other" for an answer that no form has.
        content: The filled-in fields.
        delivery: The delivery of the request that had asked, in a legacy call.
    """

    call: int
    name: str
    action: str
    content: Any
    delivery: int = 0


@dataclass(frozen=True)
class Entered:
    """The entry of one of the author's functions."""

    instance: int
    sending: int | None
    function: str


@dataclass(frozen=True)
class Effect:
    """The arrival of an effect at its destination.

    Attributes:
        instance: The instance that it came from; None if that cannot be seen.
        sending: The sending that this instance had last begun and not yet answered; None if there
            is none (a task at work), or if it cannot be seen.
        effect: The effect.
        absorbed: Whether the destination had seen its key, and did nothing.
    """

    instance: int | None
    sending: int | None
    effect: weather.Effect
    absorbed: bool = False


@dataclass(frozen=True)
class Failed:
    """The failure of an effect, whose destination was down."""

    instance: int | None
    sending: int | None
    kind: weather.EffectKind


@dataclass(frozen=True)
class Crashed:
    """The death of an instance in the middle of a round; another takes its place.

    Attributes:
        instance, sending: The instance, and its open sending.
        why: The cause of its end, if not a fault of the schedule.
    """

    instance: int
    sending: int | None
    why: str | None = None


@dataclass(frozen=True)
class Restarted:
    """The replacement of every instance, unchanged but for these keys."""

    keys: Keys


@dataclass(frozen=True)
class Redeployed:
    """The replacement of instances by another version of the file; see `steps.Redeploy`."""

    change: Change | None
    only: int | None


@dataclass(frozen=True)
class Elapsed:
    """The passing of time."""

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
    """The list to which events are appended while a run goes on.

    Attributes:
        on_event: Called with each event as it happens.
        secrets: Texts that no client may see, such as the keys.
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

    def sending_at(self, instance: int) -> int | None:
        """Return the sending that an instance has last begun and not yet answered."""
        open_now = [sent.sending for sent in self._open.values() if sent.instance == instance]
        return open_now[-1] if open_now else None

    @property
    def count(self) -> int:
        """The number of events so far."""
        return len(self._events)

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        return tuple(self._events)


@dataclass(frozen=True)
class Attempt:
    """One attempt of the usual client at a round.

    Attributes:
        round: The number of the round in its call; see `faults.Fault`.
        number: The number of the attempt at that round; see `faults.Fault.attempt`.
        sending: The number of its sending in the history.
        answers: Whether its request carries an answer.
    """

    round: int
    number: int
    sending: int
    answers: bool


@dataclass(frozen=True)
class History:
    """One run.

    Attributes:
        subject: The name of the subject under review: "E", "E+guard".
        scenario: The scenario that was played.
        deployment: The name of the deployment.
        instances: The number of instances.
        events: The events, in order.
        attempts: The usual client's attempts, in order; none if a script was played.
        secrets: Texts that no client may see, such as the keys.
        can_strike: Whether faults at effects can be injected at this deployment.
        choices: The choices of the usual client's policy, in order; none if a script was played.
        gave_up: Whether that policy ended the call, so that nobody learns if the call goes on.
    """

    subject: str
    scenario: Scenario
    deployment: str
    instances: int
    events: tuple[Event, ...]
    attempts: tuple[Attempt, ...] = ()
    secrets: frozenset[str] = frozenset()
    can_strike: bool = True
    choices: tuple[Choice, ...] = ()
    gave_up: bool = False

    def with_client(self, policy: LossPolicy) -> History | None:
        """Return what is the run of a client with another policy: this one, or its beginning.

        Return None if that client goes on in another way.
        """
        for number, choice in enumerate(self.choices):
            then = policy.after(choice.loss)
            if then == choice.then:
                continue
            if then != "end":
                return None
            return replace(
                self,
                events=self.events[: choice.events],
                attempts=self.attempts[: choice.attempts],
                choices=(*self.choices[:number], replace(choice, then="end")),
                gave_up=True,
            )
        return self

    @property
    def era(self) -> Era:
        """The client's era."""
        return self.scenario.setup.era

    @property
    def location(self) -> str:
        """The location that was asked for."""
        return self.scenario.location

    @property
    def exchanges(self) -> list[Exchanged]:
        """Every request with its response, in the order of the responses."""
        sent = {event.exchange: event for event in self.events if isinstance(event, Sent)}
        return [
            (sent[event.exchange], event) for event in self.events if isinstance(event, Received)
        ]

    def as_json(self) -> list[JsonObject]:
        """Return the events as JSON objects; `event` names the kind."""
        return [event_as_json(event) for event in self.events]


UNREADABLE = "cannot be read"
"""The reading of a state that is not sealed and has no author's part."""


def readable_state(state: str | None) -> str | None:
    """Return the part of a state that a client can read.

    That is the author's part of a state that is signed but not sealed; of a stranger's state it is
    the JSON in it.

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


_JSON_NAMES = {"sending": "round"}
"""The keys that JSON has for other names of the code: programs read what `--json` prints."""


def event_as_json(event: Event) -> JsonObject:
    """Return an event as a JSON object.

    `event` names the kind, and `readable` is the part of its state that a client can read.
    """
    found = {"event": type(event).__name__.lower(), **_fields(event)}
    if isinstance(event, Sent):
        found["readable"] = readable_state(event.request.state)
    return found


def _fields(value: Any) -> JsonObject:
    return {
        _JSON_NAMES.get(each.name, each.name): _plain(getattr(value, each.name))
        for each in fields(value)
    }


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
