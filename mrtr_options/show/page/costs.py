"""The costs as small pictures with their spread. Each title is a finding, in numbers of the run that was
kept.

Knows the report of what was measured; makes SVG that takes its colours from the page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mrtr_options.cost.floor import FLOOR, SHARED
from mrtr_options.cost.report import NAMES, Report, short
from mrtr_options.cost.rounds import BY_HAND
from mrtr_options.cost.timing import Spread

WIDTH, LABEL, ROW = 460, 136, 19
NUMBER = 62
"""In units of the picture: as wide as it is, a label, as high as a row, and the number at its end."""

DURABLE_RATIO = 10
"""What takes more than so many times the floor writes to an engine's database."""


@dataclass(frozen=True)
class Dot:
    """One figure: its name, the figure with its spread, and how it is written."""

    name: str
    figure: Spread
    says: str


def costs(report: Report) -> str:
    """All pictures, as HTML."""
    pictures = [_calls(report), _rounds(report), _guards(report), _parked(report), _lines(report)]
    return (
        "<h1>What it costs</h1><p>Medians of the run that is kept in docs/cost.json; a bar is the middle"
        " half of what was measured. Ratios hold on other machines, milliseconds do"
        ' not.</p><div class="costs">' + "".join(filter(None, pictures)) + "</div>"
    )


def _calls(report: Report) -> str:
    dots = [
        Dot(short(each.subject), each.ratio, f"{each.ratio.median:.2f}×")
        for each in report.calls
        if each.subject not in (FLOOR, SHARED)
    ]
    quick = [dot for dot in dots if dot.figure.median < DURABLE_RATIO]
    slow = [dot.figure.median for dot in dots if dot.figure.median >= DURABLE_RATIO]
    alone = [dot.figure.median for dot in quick if len(dot.name) == 1 and dot.name != "I"]
    title = f"In memory a call costs {min(alone):.1f} to {max(alone):.1f} times the one written by hand"
    title += "".join(f"; {dot.name} {dot.figure.median:.1f} times" for dot in quick if dot.name == "I")
    if slow:
        title += f", on a durable engine (not drawn) {min(slow):.0f} to {max(slow):.0f} times"
    return _picture(title, quick, "times the same tool by hand, from 1", start=1)


def _rounds(report: Report) -> str:
    dots = [
        Dot(f"{NAMES.get(each.subject, each.subject)}, {each.database}", each.ms, _ms(each.ms))
        for each in report.rounds
        if (each.subject, each.database) != (BY_HAND, "SQLite")  # it waits for DBOS's next look
    ]
    own = " and ".join(
        f"{_ms(each.ms)} on {each.database}" for each in report.rounds if each.subject == "L"
    )
    return _picture(f"A round of L takes {own}", dots, "milliseconds of a round") if dots else ""


def _ms(spread: Spread) -> str:
    return f"{spread.median:.0f} ms"


def _guards(report: Report) -> str:
    dots = [Dot(each.store, each.added_ms, f"{each.added_ms.median:.1f} ms") for each in report.guards]
    title = "The single-use guard adds " + " and ".join(
        f"{dot.says} a round on {dot.name}" for dot in dots
    )
    return _picture(title, dots, "milliseconds that the guard adds to a round of F")


def _parked(report: Report) -> str:
    dots = [
        Dot(
            NAMES.get(each.subject, each.subject),
            _exact(each.bytes / 1000),
            f"{each.bytes / 1000:.1f} KB",
        )
        for each in report.parked
    ]
    says = {dot.name: dot.says for dot in dots}
    title = f"An open call of H holds {says['H']} of memory"
    if "L" in says:
        title += f", one of L {says['L']} of disk"
    return _picture(title, dots, "KB for each open call")


def _lines(report: Report) -> str:
    rows = sorted(report.lines, key=lambda each: each.author)
    dots = [Dot(each.subject, _exact(each.author), str(each.author)) for each in rows]
    least, most = (
        ", ".join(dot.name for dot in dots if dot.says == end.says) for end in (dots[0], dots[-1])
    )
    title = f"An author writes {dots[0].says} lines ({least}) to {dots[-1].says} ({most})"
    return _picture(title, dots, "lines of author code")


def _exact(value: float) -> Spread:
    return Spread(median=value, low=value, high=value)


def _picture(title: str, dots: Sequence[Dot], caption: str, *, start: float = 0) -> str:
    """Dots on a line each; a bar behind a dot is its spread.

    Args:
        title: The finding.
        dots: From top to bottom.
        caption: What the numbers are.
        start: Where the scale begins.
    """
    most = max(dot.figure.high for dot in dots)
    room = WIDTH - LABEL - NUMBER

    def at(value: float) -> float:
        return LABEL + room * (value - start) / (most - start)

    height = len(dots) * ROW + 6
    drawn = [f'<path class="axis" d="M{LABEL} 0V{height}"/>']
    for number, dot in enumerate(dots):
        y = number * ROW + ROW / 2 + 3
        low, middle, high = map(at, (dot.figure.low, dot.figure.median, dot.figure.high))
        drawn += [
            f'<text x="{LABEL - 8}" y="{y + 4}" text-anchor="end">{html.escape(dot.name)}</text>',
            f'<path class="spread" d="M{low:.1f} {y}H{high:.1f}"/>' if high > low else "",
            f'<circle class="median" cx="{middle:.1f}" cy="{y}" r="4"/>',
            f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end">{html.escape(dot.says)}</text>',
        ]
    said = "; ".join(f"{dot.name} {dot.says}" for dot in dots)
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(said)}">'
        f"{''.join(drawn)}</svg><p>{html.escape(caption)}</p></figure>"
    )
