"""The costs as one picture: a named row for each option, on one axis.

Knows the report of what was measured; makes SVG as wide as there is room, in the page's colours.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from mrtr_options.show.cost import FLOOR, SHARED, Report

ROW = 34
"""How high a row is: a name and the number, and the bar below. What is across is in percent."""

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
        return 3 + 94 * math.log(max(value, 1)) / math.log(most)

    drawn: list[str] = []
    for tick in (each for each in TICKS if each <= most):
        x = at(tick)
        drawn.append(f'<line class="axis" x1="{x:.1f}%" x2="{x:.1f}%" y1="0" y2="{height}"/>')
        drawn.append(
            f'<text class="dim" x="{x:.1f}%" y="{height + 15}" text-anchor="middle">{tick}×</text>'
        )
    for number, each in enumerate(rows):
        y = number * ROW + 25
        low, middle, high = map(at, (each.ratio.low, each.ratio.median, each.ratio.high))
        name = html.escape(names.get(each.subject, each.subject))
        drawn += [
            f'<text x="2%" y="{y - 9}">{name}</text>',
            f'<line class="spread" x1="{low:.1f}%" x2="{high:.1f}%" y1="{y}" y2="{y}"/>',
            f'<circle class="median" cx="{middle:.1f}%" cy="{y}" r="4"/>',
            f'<text x="99%" y="{y - 9}" text-anchor="end">{each.ratio.median:.2f}×</text>',
        ]
    said = "; ".join(f"{names.get(each.subject)} {each.ratio.median:.2f} times" for each in rows)
    return (
        f'<svg width="100%" height="{height + 20}" role="img" aria-label="{html.escape(said)}">'
        f"{''.join(drawn)}</svg>"
    )
