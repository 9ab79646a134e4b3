"""Histories that keep the contract, and changes that turn them into those of another server."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeGuard

import anyio

from mrtr_options.review.bench.history import Effect, Event, History, Received, Sent
from mrtr_options.review.bench.messages import Era, Reply, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.judge.contract import violations
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import option_named

CASES = {case.name: case for case in reversed(systematic())}  # the modern case wins


@cache
def played(slug: str, era: Era = "modern") -> History:
    """Return E's history of a case or a schedule, which keeps the contract."""
    case = CASES.get(slug) or named(slug, era).on_one()
    history = anyio.run(run, Subject(option_named("E")), case)
    assert violations(history) == []
    return history


Change = Callable[[Event], list[Event]]
"""A function that returns the events in place of an event."""


def changed(history: History, *changes: Change) -> History:
    for change in changes:
        events = tuple(new for event in history.events for new in change(event))
        history = replace(history, events=events)
    return history


def of_exchange(exchange: int, kind: type[Any], part: str, make: Callable[[Any], Any]) -> Change:
    def change(event: Event) -> list[Event]:
        if isinstance(event, kind) and getattr(event, "exchange", None) == exchange:
            return [replace(event, **{part: make(getattr(event, part))})]
        return [event]

    return change


def replies(exchange: int, **fields: Any) -> Change:
    """Give the response to one request other fields."""
    return of_exchange(exchange, Received, "reply", lambda reply: replace(reply, **fields))


def with_request(exchange: int, **fields: Any) -> Change:
    """Give one request other fields, and leave its response as it is."""
    return of_exchange(exchange, Sent, "request", lambda request: replace(request, **fields))


def spelled(before: str, behind: str) -> Change:
    """Put texts before and behind the state of request 3."""

    def make(request: Request) -> Request:
        return replace(request, state=f"{before}{request.state}{behind}", forged="spelled")

    return of_exchange(3, Sent, "request", make)


def effects(which: str, times: int = 1, /, **fields: Any) -> Change:
    """Repeat the effects of a kind this often, perhaps with other fields."""

    def change(event: Event) -> list[Event]:
        if not isinstance(event, Effect) or event.effect.kind != which:
            return [event]
        return [replace(event, effect=replace(event.effect, **fields))] * times

    return change


def until(exchange: int, history: History) -> History:
    (end,) = (place for place, event in enumerate(history.events) if _is_reply_to(event, exchange))
    return replace(history, events=history.events[: end + 1])


Habit = Callable[[Request, Reply], Reply]
"""A function that returns the response of a server with a habit, in place of another's."""


def with_habit(history: History, habit: Habit) -> History:
    """Replace every response by the one that a server with this habit makes of it."""
    requests = {
        event.exchange: event.request for event in history.events if isinstance(event, Sent)
    }

    def change(event: Event) -> list[Event]:
        if isinstance(event, Received):
            return [replace(event, reply=habit(requests[event.exchange], event.reply))]
        return [event]

    return changed(history, change)


def without_effects(event: Event) -> list[Event]:
    return [] if isinstance(event, Effect) else [event]


def audit_after_the_bill(event: Event) -> list[Event]:
    if isinstance(event, Effect):
        audit = replace(event, effect=weather.Effect("audit", "Springfield"))
        return [event, audit] if event.effect.kind == "bill" else []
    return [event]


def a_crowd_and_two_audits_more(event: Event) -> list[Event]:
    """Keep a thousand calls open; each round has an audit for each of them, and one more."""
    if isinstance(event, Sent) and event.exchange == 1:
        crowd = range(1_000, 2_100)
        return [event, *(replace(event, exchange=number, sending=number) for number in crowd)]
    return effects("audit", 552)(event)


def without_bounds(event: Event) -> list[Event]:
    """Take the bounds out of the listing, as SDKs do that make the schema from a function."""
    if isinstance(event, Received) and event.reply.tools:
        tool = event.reply.tools["weather"]
        schema = {key: tool["inputSchema"][key] for key in ("type", "properties", "required")}
        tools = {"weather": {**tool, "inputSchema": schema}}
        return [replace(event, reply=replace(event.reply, tools=tools))]
    return [event]


def listing(**fields: Any) -> Change:
    """Give the list of tools other fields."""

    def change(event: Event) -> list[Event]:
        if isinstance(event, Received) and event.reply.tools:
            return [replace(event, reply=replace(event.reply, **fields))]
        return [event]

    return change


def bill_at_the_end(event: Event) -> list[Event]:
    """Remove all effects, and bill once after the result."""
    if isinstance(event, Effect):
        return []
    if isinstance(event, Received) and event.reply.is_result:
        return [event, Effect(0, None, weather.Effect("bill", "Springfield, Illinois"))]
    return [event]


REFUSED: dict[str, Any] = {
    "code": -32602,
    "text": None,
    "questions": {},
    "schemas": {},
    "state": None,
}


SPRINGFIELD = "clean-springfield"
IN_ORDER = "questions-are-asked-in-order"
REPORT = "Springfield, Illinois: 22 °C, partly cloudy."
ILLINOIS = "Springfield, Illinois"
MISSOURI = "Springfield, Missouri"


def _is_reply_to(event: Event, exchange: int) -> TypeGuard[Received]:
    return isinstance(event, Received) and event.exchange == exchange
