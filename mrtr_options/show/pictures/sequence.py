"""Calls drawn step by step, from top to bottom: rounds as arrows, effects as marks where they happened.

Two kinds of run can be drawn: a clean call that was observed from both ends, and a schedule that was
traced. Both become the same few kinds of line first, which are also what the picture says in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types

from mrtr_options.bench import observe, trace
from mrtr_options.bench.deployments import Request
from mrtr_options.bench.observations import Reply
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


# --- what was observed of a clean call ----------------------------------------------------------


def observed(seen: observe.Observation, title: str) -> Chart:
    """A clean call. A task's looks are drawn where something had changed."""
    chart = Chart(title, (USER, CLIENT, SERVER, WORLD))
    asker = CLIENT if seen.era == "modern" else SERVER
    times: Counter[weather.EffectKind] = Counter()
    for event in seen.events:
        match event:
            case observe.Sent(answers=answers):
                what = f"tools/call + {', '.join(answers)}" if answers else "tools/call"
                chart.lines.append(Arrow(CLIENT, SERVER, what, "request"))
            case observe.Asked(message=message):
                chart.lines.append(Arrow(asker, USER, message, "question"))
            case observe.Answered(action=action, content=content):
                chart.lines.append(Arrow(USER, asker, _values(content) or action, "answer"))
            case observe.Received(questions=questions) if questions:
                what = f"input_required: {', '.join(questions)}"
                chart.lines.append(Arrow(SERVER, CLIENT, what, "question"))
            case observe.Received(text=text, is_error=is_error):
                chart.lines.append(Arrow(SERVER, CLIENT, text or "", "error" if is_error else "result"))
            case observe.Stood(status=status, message=message):
                what = f"task: {status}" + (f", {message}" if message else "")
                chart.lines.append(Arrow(SERVER, CLIENT, what, "request"))
            case weather.Effect(kind=kind):
                times[kind] += 1
                chart.lines.append(Mark(kind, times[kind]))
    return chart


def _values(content: dict[str, Any] | None) -> str:
    return ", ".join(map(str, (content or {}).values()))


# --- what was traced of a schedule --------------------------------------------------------------


def traced(run: trace.Trace, title: str) -> Chart:
    """A schedule."""
    names = [SERVER] if run.instances == 1 else [f"{SERVER} {n + 1}" for n in range(run.instances)]
    chart = Chart(title, (CLIENT, *names, WORLD))
    times: Counter[weather.EffectKind] = Counter()
    for event in run.events:
        match event:
            case trace.Delivered(instance=instance, request=request):
                chart.lines.append(Arrow(CLIENT, names[instance], _request(request), "request"))
            case trace.Died(instance=instance):
                chart.lines.append(Note(f"{names[instance]} dies"))
            case trace.Responded(instance=instance, reply=reply, lost=lost):
                text, kind = _reply(reply)
                lost = lost or reply.nothing is not None
                chart.lines.append(Arrow(names[instance], CLIENT, text, kind, lost))
            case trace.Happened(effect=effect, absorbed=absorbed):
                times[effect.kind] += not absorbed
                chart.lines.append(Mark(effect.kind, 0 if absorbed else times[effect.kind]))
            case trace.Passed(what=what):
                chart.lines.append(Note(what))
    return chart


def _request(request: Request) -> str:
    given = [
        _values(dict(answer.content or {})) or answer.action
        for answer in (request.answers or {}).values()
        if isinstance(answer, types.ElicitResult)
    ]
    return ", ".join(given) or "tools/call"


def _reply(reply: Reply) -> tuple[str, Kind]:
    if reply.nothing is not None:
        return "nothing", "error"
    if reply.code is not None:
        return f"error {reply.code}", "error"
    if reply.questions:
        return f"asks {', '.join(map(reply.round_of, reply.questions))}", "question"
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
