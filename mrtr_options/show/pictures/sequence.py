"""Calls drawn step by step, from top to bottom: rounds as arrows, effects as marks where they happened.

A history becomes a few kinds of line first, which are also what the picture says in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from mrtr_options.show.pictures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    VERMILION,
    Picture,
    drawn,
    picture,
    sheet,
)
from mrtr_options.tool import weather

USER, CLIENT, SERVER, WORLD = "user", "client", "server", "effects"

ROW_INCHES = 0.27
LABEL_CHARACTERS = 66
"""Of a label in the middle of a picture that is one chart wide and two lanes; others have less room."""

Kind = Literal["request", "question", "answer", "result", "error"]
_COLOURS: dict[Kind, str] = {
    "request": BLACK,
    "question": BLUE,
    "answer": GREEN,
    "result": BLACK,
    "error": VERMILION,
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
        history: What happened. Looks at a task are drawn where something has changed.
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
    stood: tuple[str | None, str | None] | None = None
    asker = CLIENT if history.era == "modern" else SERVER
    for event in history.events:
        match event:
            case Sent(request=Request(method="tasks/get")):
                pass
            case Sent(instance=instance, request=request):
                lines.append(Arrow(CLIENT, names[instance], _request(request, user), "request"))
            case Asked(message=message) if user:
                lines.append(Arrow(asker, USER, message, "question"))
            case Answered(action=action, content=content) if user:
                lines.append(Arrow(USER, asker, _values(content) or action, "answer"))
            case Crashed(instance=instance):
                died.add(instance)
                lines.append(Note(f"{names[instance]} dies"))
            case Received(instance=instance) if instance in died:
                died.remove(instance)
            case Received(instance=instance, reply=reply) if reply.status is not None:
                stands = reply.status, reply.status_message
                if stands != stood:
                    text = f"task: {reply.status}"
                    text += f", {reply.status_message}" if reply.status_message else ""
                    lines.append(Arrow(names[instance], CLIENT, text, "request"))
                stood = stands
                if reply.is_result or reply.code is not None:
                    lines.append(Arrow(names[instance], CLIENT, *_reply(reply, user)))
            case Received(instance=instance, reply=reply, lost=lost):
                text, kind = _reply(reply, user)
                lost = lost or reply.nothing is not None
                lines.append(Arrow(names[instance], CLIENT, text, kind, lost))
            case Effect(effect=effect, absorbed=absorbed):
                times[effect.kind] += not absorbed
                lines.append(Mark(effect.kind, 0 if absorbed else times[effect.kind]))
            case Failed(kind=kind):
                lines.append(Note(f"the {kind} fails"))
            case Restarted():
                lines.append(Note("every instance is replaced"))
            case Redeployed(change=change, only=only):
                where = "every instance" if only is None else f"instance {only + 1}"
                lines.append(Note(f"{where}: {'rolled back' if change is None else change}"))
            case Elapsed(seconds=seconds):
                lines.append(Note(f"{seconds / 60:g} minutes later"))
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


# --- drawing ------------------------------------------------------------------------------------


@drawn
def draw(charts: Sequence[Chart]) -> Picture:
    """Charts side by side, on one scale from top to bottom."""
    rows = max(len(chart.lines) for chart in charts)
    figure, panels = sheet((rows + 2.4) * ROW_INCHES, columns=len(charts))
    size = 7.5 if len(charts) < 3 else 6.5
    for panel, chart in zip(panels, charts, strict=True):
        room = LABEL_CHARACTERS * 2 // (len(charts) * (len(chart.lanes) - 1))
        _draw_one(panel, chart, rows, size, room)
    return picture(figure, "\n\n".join(map(_in_words, charts)))


def _draw_one(panel: Any, chart: Chart, rows: int, size: float, room: int) -> None:
    places = {lane: float(number) for number, lane in enumerate(chart.lanes)}
    places[WORLD] -= 0.35  # nothing is written between it and the server
    panel.set_title(chart.title, fontsize=size + 1.5, loc="left")
    panel.set_xlim(-0.3, len(places) - 0.85)
    panel.set_ylim(rows + 0.4, -1.3)
    panel.axis("off")
    for lane, x in places.items():
        panel.text(x, -0.8, lane, ha="center", va="center", fontsize=size, weight="bold")
        panel.plot([x, x], [-0.4, rows], color=PALE, linewidth=1, zorder=0)
    for y, line in enumerate(chart.lines):
        match line:
            case Arrow():
                _draw_arrow(panel, line, places[line.start], places[line.end], y + 0.6, size, room)
            case Mark():
                _draw_mark(panel, line, places[WORLD], y + 0.4, size)
            case Note():
                panel.axhspan(y + 0.1, y + 0.8, color="#F3F3F3", zorder=0)
                middle = places[WORLD] / 2
                panel.text(
                    middle, y + 0.45, line.text, ha="center", va="center", fontsize=size, style="italic"
                )


def _draw_arrow(
    panel: Any, arrow: Arrow, start: float, end: float, y: float, size: float, room: int
) -> None:
    colour = _COLOURS[arrow.kind]
    reach = start + 0.85 * (end - start) if arrow.lost else end
    panel.annotate(
        "",
        xy=(reach, y),
        xytext=(start, y),
        arrowprops={
            "arrowstyle": "-" if arrow.lost else "-|>",
            "color": colour,
            "linewidth": 1,
            "linestyle": "--" if arrow.lost or arrow.kind == "answer" else "-",
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
    if arrow.lost:
        panel.plot([reach], [y], marker="x", color=VERMILION, markersize=7, markeredgewidth=2)
    room = int(room * abs(end - start))
    text = arrow.text.partition(": ")[2] if arrow.kind == "result" else arrow.text
    text = text or arrow.text
    text = text if len(text) <= room else text[: room - 1] + "…"
    panel.text(
        (start + end) / 2,
        y - 0.08,
        text + ("  (lost)" if arrow.lost else ""),
        ha="center",
        va="bottom",
        fontsize=size - 0.5,
        color=colour,
    )


def _draw_mark(panel: Any, mark: Mark, x: float, y: float, size: float) -> None:
    again = mark.times > 1
    panel.plot(
        [x],
        [y],
        marker="s" if mark.kind == "audit" else "D",
        color=ORANGE if mark.times else "white",
        markersize=6,
        markeredgecolor=VERMILION if again else GREY,
        markeredgewidth=2 if again else 1,
    )
    text = mark.kind if mark.times == 1 else f"{mark.kind} {mark.times}" if again else "absorbed"
    panel.text(
        x + 0.1,
        y,
        text,
        ha="left",
        va="center",
        fontsize=size,
        color=VERMILION if again else BLACK,
        weight="bold" if again else "normal",
    )


def _in_words(chart: Chart) -> str:
    lines = [f"{chart.title}:"]
    for line in chart.lines:
        match line:
            case Arrow(start=start, end=end, text=text, lost=lost):
                lines.append(f"{start} to {end}: {text}{' (lost)' if lost else ''}")
            case Mark(kind=kind, times=times):
                lines.append(f"{kind} {times}" if times else f"{kind} absorbed")
            case Note(text=text):
                lines.append(text)
    return "\n".join(lines)
