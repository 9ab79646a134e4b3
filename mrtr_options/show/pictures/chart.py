"""A call as lines from top to bottom: messages between lanes, effects, and what else happens.

Knows histories; nothing of how a line is drawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types

from mrtr_options.bench.history import (
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
from mrtr_options.bench.schedules import Change
from mrtr_options.show.terminal import plural
from mrtr_options.tool import weather

USER, CLIENT, SERVER, WORLD = "user", "client", "server", "effects"

Kind = Literal["request", "question", "answer", "result", "error"]


CHANGES: dict[Change, str] = {
    "reworded": "a version with another wording",
    "schema": "a version with one more choice",
    "inserted": "a version with one more question",
    "removed": "a version with one question less",
    "reordered": "a version with another order of questions",
    "effect": "a version with one more effect",
}


@dataclass(frozen=True)
class Arrow:
    """A message from one lane to another; one that is lost stops on its way."""

    start: str
    end: str
    text: str
    kind: Kind
    lost: bool = False


@dataclass(frozen=True)
class Mark:
    """An effect; `times` counts those of its kind so far, and is 0 where it was absorbed."""

    kind: weather.EffectKind
    times: int


@dataclass(frozen=True)
class Note:
    """Something that is no message."""

    text: str


Line = Arrow | Mark | Note


@dataclass
class Chart:
    """One run, ready to be drawn."""

    title: str
    lanes: tuple[str, ...]
    lines: list[Line] = field(default_factory=list[Line])


# --- from a history -----------------------------------------------------------------------------


def chart(history: History, title: str, *, user: bool = False) -> Chart:
    """A run, ready to be drawn.

    Args:
        history: What happened. Looks at a task are drawn where it asks or has ended: how often it is
            seen at work, and with which message, is chance; and so is which comes first, its next
            effect or the response that creates it or takes an answer.
        title: Stands above it.
        user: Whether the user has a lane, with the questions as they saw them.
    """
    names = [SERVER]
    if history.instances > 1:
        names = [f"{SERVER} {number + 1}" for number in range(history.instances)]
    found = Chart(title, ((USER,) if user else ()) + (CLIENT, *names, WORLD))
    lines = found.lines
    times: Counter[weather.EffectKind] = Counter()
    died: set[int] = set()
    stood: tuple[str, ...] | None = None
    looks: set[int] = set()
    updates: set[int] = set()
    after_request = 0
    asker = CLIENT if history.era == "modern" else SERVER
    for event in history.events:
        match event:
            case Sent(exchange=exchange, request=Request(method="tasks/get")):
                looks.add(exchange)
            case Sent(exchange=exchange, instance=instance, request=request):
                lines.append(Arrow(CLIENT, names[instance], _request(request, user), "request"))
                after_request = len(lines)
                if request.method == "tasks/update":
                    updates.add(exchange)
            case Asked(message=message) if user:
                lines.append(Arrow(asker, USER, message, "question"))
            case Answered(action=action, content=content) if user:
                lines.append(Arrow(USER, asker, _values(content) or action, "answer"))
            case Crashed(instance=instance):
                died.add(instance)
                lines.append(Note(f"{names[instance]} dies"))
            case Received(instance=instance) if instance in died:
                died.remove(instance)
            case Received(exchange=exchange, reply=Reply(status="working")) if exchange in looks:
                pass
            case Received(exchange=exchange, instance=instance, reply=reply) if reply.status is not None:
                stands = reply.status, *reply.questions
                if stands != stood:
                    text = ", ".join((f"task: {reply.status}", *reply.questions))
                    place = len(lines) if exchange in looks else after_request
                    lines.insert(place, Arrow(names[instance], CLIENT, text, "request"))
                stood = stands
                if reply.is_result or reply.code is not None:
                    lines.append(Arrow(names[instance], CLIENT, *_reply(reply, user)))
            case Received(exchange=exchange, instance=instance, reply=reply, lost=lost):
                text, kind = _reply(reply, user)
                lost = lost or reply.nothing is not None
                place = after_request if exchange in updates else len(lines)
                lines.insert(place, Arrow(names[instance], CLIENT, text, kind, lost))
            case Effect(effect=effect, absorbed=absorbed):
                times[effect.kind] += not absorbed
                lines.append(Mark(effect.kind, 0 if absorbed else times[effect.kind]))
            case Failed(kind=kind):
                lines.append(Note(f"the {kind} fails"))
            case Restarted():
                lines.append(Note("every instance is replaced"))
            case Redeployed(change=change, only=only):
                where = "" if only is None else f"instance {only + 1}: "
                what = "the version before" if change is None else CHANGES[change]
                lines.append(Note(f"{where}{what} is deployed"))
            case Elapsed(seconds=seconds):
                lines.append(Note(f"{plural(round(seconds / 60), 'minute')} later"))
            case _:
                pass
    return found


def _values(content: Any) -> str:
    return ", ".join(map(str, dict(content or {}).values()))


def _request(request: Request, user: bool) -> str:
    if user:  # what was answered stands on the way from the user
        name = request.method
        return f"{name} + {', '.join(request.answers)}" if request.answers else name
    given = [
        _values(answer.content) or answer.action
        for answer in (request.answers or {}).values()
        if isinstance(answer, types.ElicitResult)
    ]
    return ", ".join(given) or request.method


def _reply(reply: Reply, user: bool) -> tuple[str, Kind]:
    if reply.nothing is not None:
        return "nothing", "error"
    if reply.code is not None:
        return (reply.message or "") if user else f"error {reply.code}", "error"
    if reply.questions:
        if user:
            return f"input_required: {', '.join(reply.questions)}", "question"
        return f"asks {', '.join(map(reply.name_of, reply.questions))}", "question"
    return reply.text or "", "error" if reply.is_error else "result"
