"""The costs as one picture: a named row for each option, on one axis.

Knows the report of what was measured; makes SVG that takes its colours from the page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from mrtr_options.show.cost import FLOOR, SHARED, Report

WIDTH, LABEL, ROW, NUMBER = 680, 220, 20, 56
"""In units of the picture: as wide as it is, a label, as high as a row, and the number at its end."""

TICKS = (1, 2, 5, 10, 20, 50)


def costs(report: Report, names: Mapping[str, str]) -> str:
    """Processor time of a call in memory, as HTML; a bar is the middle half of what was measured.

    Args:
        report: What was measured.
        names: Of the subjects.
    """
    rows = [each for each in report.calls if each.subject not in (FLOOR, SHARED)]
    rows.sort(key=lambda each: each.ratio.median)
    most = max(each.ratio.high for each in rows)
    height = len(rows) * ROW

    def at(value: float) -> float:
        return LABEL + (WIDTH - LABEL - NUMBER) * math.log(max(value, 1)) / math.log(most)

    drawn: list[str] = []
    for tick in (each for each in TICKS if each <= most):
        x = at(tick)
        drawn.append(f'<path class="axis" d="M{x:.1f} 0V{height}"/>')
        drawn.append(
            f'<text class="dim" x="{x:.1f}" y="{height + 15}" text-anchor="middle">{tick}×</text>'
        )
    for number, each in enumerate(rows):
        y = number * ROW + ROW / 2
        low, middle, high = map(at, (each.ratio.low, each.ratio.median, each.ratio.high))
        name = html.escape(names.get(each.subject, each.subject))
        drawn += [
            f'<text x="{LABEL - 10}" y="{y + 4}" text-anchor="end">{name}</text>',
            f'<path class="spread" d="M{low:.1f} {y}H{high:.1f}"/>' if high > low else "",
            f'<circle class="median" cx="{middle:.1f}" cy="{y}" r="4"/>',
            f'<text x="{WIDTH}" y="{y + 4}" text-anchor="end">{each.ratio.median:.2f}×</text>',
        ]
    said = "; ".join(f"{names.get(each.subject)} {each.ratio.median:.2f} times" for each in rows)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height + 20}" role="img" aria-label="{html.escape(said)}">'
        f"{''.join(drawn)}</svg>"
    )
