"""The costs as one picture: a named row for each option, on one axis.

Knows the report that `python -m scoreboard.cost` keeps. The SVG is as wide as its
place, in the page's colours.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping

from scoreboard.cost.report import Report

BASELINES = ("floor", "server")

ROW = 34
"""The height of a row: a name and the number, and the bar below. Widths are in percent."""

TICKS = (1, 2, 5, 10, 20, 50)


def costs(report: Report, names: Mapping[str, str]) -> str:
    """Return the processor time of a call in memory, as HTML.

    A bar is the middle half of the measurements. `names` has the name of each subject.
    """
    found = {each.subject: each.ratio for each in report.calls if each.subject not in BASELINES}
    rows = sorted(found.items(), key=lambda row: row[1].median)
    most = max(ratio.high for ratio in found.values())
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
    for number, (subject, ratio) in enumerate(rows):
        y = number * ROW + 25
        low, middle, high = map(at, (ratio.low, ratio.median, ratio.high))
        name = html.escape(names.get(subject, subject))
        drawn += [
            f'<text x="2%" y="{y - 9}">{name}</text>',
            f'<line class="spread" x1="{low:.1f}%" x2="{high:.1f}%" y1="{y}" y2="{y}"/>',
            f'<circle class="median" cx="{middle:.1f}%" cy="{y}" r="4"/>',
            f'<text x="99%" y="{y - 9}" text-anchor="end">{ratio.median:.2f}×</text>',
        ]
    said = "; ".join(f"{names.get(subject)} {ratio.median:.2f} times" for subject, ratio in rows)
    return (
        f'<svg width="100%" height="{height + 20}" role="img" aria-label="{html.escape(said)}">'
        f"{''.join(drawn)}</svg>"
    )
