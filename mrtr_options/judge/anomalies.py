"""What can be wrong with a call, by name, as functions of its history.

Each anomaly says who is harmed. `found` names those that a history shows. Call 1 of a history is the one
under review; other calls are there to disturb it.

Knows histories and the domain's texts; nothing of what went wrong, and of no option.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import mcp_types as types

from mrtr_options.bench import redeploys
from mrtr_options.bench.driver import MAX_REQUESTS
from mrtr_options.bench.history import (
    Answered,
    Asked,
    Effect,
    Elapsed,
    Form,
    History,
    Received,
    Redeployed,
    Reply,
    Sent,
)
from mrtr_options.bench.scenario import ENDED, Change
from mrtr_options.tool import weather
from mrtr_options.tool.settings import STATE_TTL_SECONDS


@dataclass(frozen=True)
class Anomaly:
    """One way in which a call can be wrong.

    Attributes:
        name: Its name.
        says: What it is, in a sentence.
        harms: Who is harmed.
        shows: Whether a history shows it.
    """

    name: str
    says: str
    harms: str
    shows: Callable[[History], bool]


def _effects(history: History, kind: str) -> Counter[str]:
    """How often an effect took place, by subject."""
    return Counter(
        event.effect.subject
        for event in history.events
        if isinstance(event, Effect) and not event.absorbed and event.effect.kind == kind
    )


def effects_due(history: History) -> int:
    """How often an effect may take place: once for each call, and once more for each change of mind."""
    answers: dict[str, set[str]] = {}
    for event in history.events:
        if isinstance(event, Answered) and event.call == 1:
            answers.setdefault(event.name, set()).add(str(event.content))
    return len(history.scenario.callers) + sum(len(given) - 1 for given in answers.values())


def end_of(history: History) -> Reply:
    """What the client was left with: its result, or else the first response of its last round."""
    seen = [
        (sent.round, got.reply) for sent, got in history.deliveries if sent.call == 1 and not got.lost
    ]
    last = max((number for number, _ in seen), default=0)
    end = next((reply for number, reply in seen if number == last), Reply(nothing="lost"))
    return next((reply for _, reply in seen if reply.is_result), end)


def _report(history: History) -> str | None:
    """The text of the result, if call 1 ended in one that reports a place."""
    text = end_of(history).text
    return text if text is not None and text.partition(":")[0] in weather.REPORTS else None


def _duplicate_bill(history: History) -> bool:
    return _effects(history, "bill").total() > effects_due(history)


def _duplicate_audit(history: History) -> bool:
    return _effects(history, "audit").total() > effects_due(history)


def _lost_effect(history: History) -> bool:
    report = _report(history)
    if report is None:
        return False
    place = report.partition(":")[0]
    bills = _effects(history, "bill")
    return not bills[place] or not _effects(history, "audit")


def _orphan(history: History) -> bool:
    others = _others_reports(history)
    return _report(history) is None and _effects(history, "bill").total() > others


def _others_reports(history: History) -> int:
    ended = {sent.call for sent, got in history.exchanges if sent.call > 1 and got.reply.is_result}
    return len(ended)


def _divergent(history: History) -> bool:
    first: dict[int, Reply] = {}
    for sent, got in history.deliveries:
        whole = got.reply.nothing is None
        if whole and not got.reply.same_as(first.setdefault(sent.round, got.reply)):
            return True
    return False


def _stale(history: History) -> bool:
    """Whether call 1 completed with an answer to a question that is not the one due."""
    report = _report(history)
    if report is None or not any(isinstance(event, Redeployed) for event in history.events):
        return False
    place = report.partition(":")[0]
    is_made, version, versions = False, None, dict[int, Change | None]()
    billed: list[Change | None] = []  # by which versions: a result may be sent later than it is made
    shown: dict[str, Form] = {}
    answered: dict[str, Form] = {}
    for event in history.events:
        match event:
            case Redeployed(change=change):
                places = range(history.instances) if event.only is None else (event.only,)
                versions.update(dict.fromkeys(places, change))
            case Effect(effect=effect) if (effect.kind, effect.subject) == ("bill", place):
                if not is_made and event.instance is not None:
                    billed.append(versions.get(event.instance))
            case Received(call=1) if event.reply.text == report and not is_made:
                is_made = True  # later ones may repeat it
                version = billed[-1] if billed else versions.get(event.instance)
            case Asked(call=1):
                shown[event.name] = event.form
            case Answered(call=1):
                answered[event.name] = shown[event.name]
            case _:
                pass
    due = redeploys.questions(version, history.location, place)
    return any(answered.get(name) != form for name, form in due.items())


def _misrouted(history: History) -> bool:
    """Whether call 1 reports what the user answered to another question, or in another call."""
    said = [event for event in history.events if isinstance(event, Answered)]
    elsewhere: set[str] = set()
    for event in said:
        content: Mapping[str, object] = event.content or {}
        elsewhere |= {str(content[name]) for name in content if (event.call, event.name) != (1, name)}
    return bool(_unheeded(history) & elsewhere)


def _ignored(history: History) -> bool:
    return bool(_unheeded(history)) and not _misrouted(history)


def _unheeded(history: History) -> set[str]:
    """What call 1 reports and the user's answers in it do not say: the place, the units, or both."""
    report = _report(history)
    if report is None:
        return set()
    said: dict[str, set[str]] = {}
    for event in history.events:
        contents: list[Mapping[str, object]] = []
        if isinstance(event, Answered) and event.call == 1 and event.action == "accept":
            contents = [event.content or {}]
        elif isinstance(event, Sent) and event.call == 1:  # perhaps with unasked answers
            answers = (event.request.answers or {}).values()
            contents = [each.content or {} for each in answers if isinstance(each, types.ElicitResult)]
        for content in contents:
            for name, value in content.items():
                said.setdefault(name, set()).add(str(value))
    place = report.partition(":")[0]
    wrong = {place} - (said.get("place") or set(weather.places_named(history.location)))
    if "units" not in said and report.endswith("(metric assumed: this client cannot be asked)"):
        return wrong
    known: tuple[Literal["metric", "imperial"], ...] = ("metric", "imperial")
    units = {each for each in known if report == weather.report(place, weather.UnitsAnswer(units=each))}
    return wrong | ((units or {report}) - said.get("units", set()))


def _forged(history: History) -> bool:
    """Whether a state that was too old was acted on."""
    now, handed_out = 0.0, dict[str, float]()
    for event in history.events:
        match event:
            case Elapsed(seconds=seconds):
                now += seconds
            case Received(reply=reply) if reply.state is not None:
                handed_out.setdefault(reply.state, now)
            case _:
                pass
    return any(
        got.reply.code is None and got.reply.nothing is None
        for sent, got in history.exchanges
        if _age(history, sent) > STATE_TTL_SECONDS
    )


def _age(history: History, request: Sent) -> float:
    """How old the state of a request was, in seconds; 0 without one."""
    now, born = 0.0, 0.0
    for event in history.events:
        if isinstance(event, Elapsed):
            now += event.seconds
        elif isinstance(event, Received) and event.reply.state == request.request.state is not None:
            born = now
        elif event is request:
            break
    return now - born if request.request.state is not None else 0.0


def _asked_again(history: History) -> bool:
    answered: set[str] = set()
    for event in history.events:
        if isinstance(event, Answered) and event.call == 1:
            answered.add(event.name)
        elif isinstance(event, Asked) and event.call == 1 and event.name in answered:
            return True
    return False


def _lost_call(history: History) -> bool:
    if not (end_of(history).code is not None):
        return False
    sent = [(sent, got) for sent, got in history.exchanges if sent.call == 1]
    last = [sent for sent, got in sent if not got.lost][-1]
    own = [None, *(got.reply.state for _, got in sent)]
    first, request = sent[0][0].request, last.request
    is_correct = (
        request.state in own
        and request.principal == first.principal
        and request.sent_arguments == first.sent_arguments
    )
    return is_correct and _age(history, last) <= STATE_TTL_SECONDS


def _stuck(history: History) -> bool:
    end = end_of(history)
    requests = sum(isinstance(event, Sent) and event.call == 1 for event in history.events)
    gave_up = not end.questions or requests >= MAX_REQUESTS
    return not end.is_result and end.code is None and end.status not in ENDED and gave_up


ANOMALIES: tuple[Anomaly, ...] = (
    Anomaly(
        "duplicate bill",
        "A bill took place more often than the user made calls and changed answers.",
        "the user's money",
        _duplicate_bill,
    ),
    Anomaly(
        "orphan bill",
        "A bill took place and the client holds no report.",
        "the user, who will try again",
        _orphan,
    ),
    Anomaly(
        "lost effect",
        "The client holds a report, and its audit or its bill never took place.",
        "whoever relies on it",
        _lost_effect,
    ),
    Anomaly(
        "duplicate audit",
        "An audit took place more often than the user made calls and changed answers.",
        "somebody's inbox",
        _duplicate_audit,
    ),
    Anomaly(
        "stale answer",
        "The call completed, and the version that completed it has a question that the user never saw "
        "in these words or with these choices.",
        "the user",
        _stale,
    ),
    Anomaly(
        "misrouted answer",
        "The report is of what the user answered to another question, or in another call.",
        "the user",
        _misrouted,
    ),
    Anomaly(
        "ignored answer",
        "The report is not of what the user answered, and they answered that nowhere else.",
        "the user",
        _ignored,
    ),
    Anomaly(
        "forged state",
        "The server acted on a state that it had handed out too long ago.",
        "the server",
        _forged,
    ),
    Anomaly(
        "divergent replies",
        "The same request was delivered twice and got two different replies.",
        "the client",
        _divergent,
    ),
    Anomaly(
        "asked again",
        "The user had to answer a question twice.",
        "the user's patience",
        _asked_again,
    ),
    Anomaly(
        "stuck call",
        "The client sent as much as it may, and the call has not ended.",
        "everyone",
        _stuck,
    ),
    Anomaly(
        "lost call",
        "A correct client is told to start over, with a state that is not too old.",
        "the user",
        _lost_call,
    ),
)
"""Every anomaly that a client's call can show, money first."""


def found(history: History) -> frozenset[str]:
    """The names of the anomalies that a history shows."""
    return frozenset(anomaly.name for anomaly in ANOMALIES if anomaly.shows(history))
