"""The costs as small pictures with their spread. Each title is a finding, in numbers of the run that was
kept.

Knows the report of what was measured; makes SVG that takes its colours from the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mrtr_options.cost.floor import FLOOR
from mrtr_options.cost.report import Report
from mrtr_options.cost.timing import Row

WIDTH, LABEL, ROW = 460, 136, 19
NUMBER = 62
"""In units of the picture: as wide as it is, a label, as high as a row, and the number at its end."""

DURABLE_RATIO = 6
"""What takes more than so many times the floor writes to a database."""


@dataclass(frozen=True)
class Dot:
    """One figure: its name, the figure, its spread, and how it is written."""

    name: str
    figure: float
    low: float
    high: float
    says: str


def costs(report: Report) -> str:
    """All pictures, as HTML."""
    pictures = [_calls(report), _rounds(report), _guards(report), _parked(report), _lines(report)]
    return (
        "<h1>What it costs</h1><p>Medians of the run that is kept in docs/cost.json; a bar is the middle"
        " half of what was measured, or what its text says. Ratios hold on other machines,"
        ' milliseconds do not.</p><div class="costs">' + "".join(filter(None, pictures)) + "</div>"
    )


def _calls(report: Report) -> str:
    rows = [row for row in report.rows["calls"] if row.subject not in (FLOOR, "server")]
    dots = [_ratio(row) for row in rows]
    quick = [dot for dot in dots if dot.figure < DURABLE_RATIO]
    slow = [dot.figure for dot in dots if dot.figure >= DURABLE_RATIO]
    most = max(quick, key=lambda dot: dot.figure)
    usual = [dot.figure for dot in quick if dot is not most]
    title = (
        f"In memory a call costs {min(usual):.1f} to {max(usual):.1f} times the one written by hand;"
        f" {most.name} {most.figure:.1f} times"
    )
    if slow:
        title += f", on a durable engine (not drawn) {min(slow):.0f} to {max(slow):.0f} times"
    return _picture(title, quick, "times the same tool by hand, from 1", start=1)


def _ratio(row: Row) -> Dot:
    spread = row.spread("ratio")
    return Dot(row.subject, spread.median, spread.low, spread.high, f"{spread.median:.2f}×")


def _rounds(report: Report) -> str:
    dots: list[Dot] = []
    titles: list[str] = []
    for row in report.rows["rounds"]:
        middle, most = row.number("p50"), row.number("p99")
        base = _NAMES[str(row["database"])]
        name = "by hand" if row.subject == "raw" else row.subject
        dots.append(Dot(f"{name}, {base}", middle, middle, most, f"{middle:.0f} ms"))
        if row.subject == "L":
            titles.append(f"{middle:.0f} ms on {base}")
    if not dots:
        return ""
    title = f"A round of L takes {' and '.join(titles)}, as long as the engine by hand"
    return _picture(title, dots, "milliseconds of a round, from the median to the 99th percentile")


_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def _guards(report: Report) -> str:
    dots: list[Dot] = []
    for row in report.rows["guards"]:
        spread = row.spread("added_milliseconds")
        name = _NAMES[str(row["store"])]
        dots.append(Dot(name, spread.median, spread.low, spread.high, f"{spread.median:.1f} ms"))
    title = "The single-use guard adds " + " and ".join(
        f"{dot.says} a round on {dot.name}" for dot in dots
    )
    return _picture(title, dots, "milliseconds that the guard adds to a round of E")


def _parked(report: Report) -> str:
    rows = report.rows["parked"]
    dots = [
        Dot(f"{row.number('calls'):,.0f} calls", row.number("call_bytes") / 1000, 0, 0, "")
        for row in rows
    ]
    dots = [Dot(dot.name, dot.figure, dot.figure, dot.figure, f"{dot.figure:.1f} KB") for dot in dots]
    task = rows[-1].number("task_bytes") / 1000
    most = max(dot.figure for dot in dots)
    title = f"An open call of H holds {most:.1f} KB, {most / task:.1f} bare tasks, however many are open"
    return _picture(title, dots, "KB for each open call; the dashed line is a bare task", mark=task)


def _lines(report: Report) -> str:
    rows = sorted(report.rows["sizes"], key=lambda row: row.number("author_lines"))
    dots = [
        Dot(row.subject, lines, lines, lines, f"{lines:.0f}")
        for row in rows
        for lines in [row.number("author_lines")]
    ]
    least = [dot.name for dot in dots if dot.figure == dots[0].figure]
    title = (
        f"An author writes {dots[0].figure:.0f} lines ({', '.join(least)}) to {dots[-1].figure:.0f}"
        f" ({', '.join(dot.name for dot in dots if dot.figure == dots[-1].figure)})"
    )
    return _picture(title, dots, "lines of author code")


def _picture(
    title: str, dots: Sequence[Dot], caption: str, *, start: float = 0, mark: float | None = None
) -> str:
    """Dots on a line each; a bar behind a dot is its spread.

    Args:
        title: The finding.
        dots: From top to bottom.
        caption: What the numbers are.
        start: Where the scale begins.
        mark: Where a dashed line is drawn.
    """
    most = max(dot.high for dot in dots)
    room = WIDTH - LABEL - NUMBER

    def at(value: float) -> float:
        return LABEL + room * (value - start) / (most - start)

    height = len(dots) * ROW + 6
    drawn = [f'<path class="axis" d="M{LABEL} 0V{height}"/>']
    if mark is not None:
        drawn.append(f'<path class="mark" d="M{at(mark):.1f} 0V{height}"/>')
    for number, dot in enumerate(dots):
        y = number * ROW + ROW / 2 + 3
        drawn += [
            f'<text x="{LABEL - 8}" y="{y + 4}" text-anchor="end">{html.escape(dot.name)}</text>',
            f'<path class="spread" d="M{at(dot.low):.1f} {y}H{at(dot.high):.1f}"/>'
            if dot.high > dot.low
            else "",
            f'<circle class="median" cx="{at(dot.figure):.1f}" cy="{y}" r="4"/>',
            f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end">{html.escape(dot.says)}</text>',
        ]
    said = "; ".join(f"{dot.name} {dot.says}" for dot in dots)
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(said)}">'
        f"{''.join(drawn)}</svg><p>{html.escape(caption)}</p></figure>"
    )
