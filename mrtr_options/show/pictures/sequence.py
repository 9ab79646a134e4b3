"""Calls drawn step by step, from top to bottom: rounds as arrows, effects as marks where they happened.

Knows charts and drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrtr_options.show.pictures.chart import WORLD, Arrow, Chart, Kind, Mark, Note
from mrtr_options.show.pictures.chart import chart as chart
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

ROW_INCHES = 0.27
LABEL_CHARACTERS = 66
"""Of a label in the middle of a picture that is one chart wide and two lanes; others have less room."""

_COLOURS: dict[Kind, str] = {
    "request": BLACK,
    "question": BLUE,
    "answer": GREEN,
    "result": BLACK,
    "error": VERMILION,
}


@drawn
def draw(charts: Sequence[Chart]) -> Picture:
    """Charts side by side, on one scale from top to bottom."""
    rows = max(len(one.lines) for one in charts)
    figure, panels = sheet((rows + 2.4) * ROW_INCHES, columns=len(charts))
    size = 7.5 if len(charts) < 3 else 6.5
    for panel, one in zip(panels, charts, strict=True):
        room = LABEL_CHARACTERS * 2 // (len(charts) * (len(one.lanes) - 1))
        _draw_one(panel, one, rows, size, room)
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
