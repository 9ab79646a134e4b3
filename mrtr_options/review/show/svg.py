"""Rows as SVG: a picture of a whole run for a document, and the same row by row for the page.

A row is as wide as there is room: widths are in percent, heights in pixels, and a text that is too
long for a phone ends in "…". A document's picture brings its own background, so that it does not
depend on the document's; light and dark are in its style. Knows rows; nothing of what happened in
them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from textwrap import shorten

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.history.narrate import (
    CLIENT,
    DATABASE,
    EFFECTS,
    USER,
    Lane,
    Row,
    narrate,
)

WIDTH = 720
"""The width of a document's picture."""

TOP = 36
HEAD = 26
ROW = 30
"""The heights of its title, of the lanes' names, and of a row."""

SPACE = "http://www.w3.org/2000/svg"

LOST_AT = 0.75
"""The point on its way at which a lost response ends, as a share."""

STYLE = """
    .page { fill: #ffffff }
    .diagram text { font: 13px system-ui, sans-serif; fill: #1b1b1b; stroke: var(--behind, #ffffff) }
    .diagram text { stroke-width: 4px; paint-order: stroke } /* no lane's line crosses it */
    .diagram .title { font-size: 15px; font-weight: 600 }
    .diagram .lane { text-anchor: middle; fill: #595959 }
    .diagram .note { text-anchor: middle; font-style: italic; fill: #595959 }
    .diagram .before { text-anchor: end }
    .life { stroke: #c9c9c9 }
    .arrow { stroke: #1b1b1b; stroke-width: 1.5; fill: none }
    .arrow.again { stroke-width: 3 }
    .arrow.question { stroke: #0b57a4 }
    .arrow.error, .arrow.lost, .cross { stroke: #b3261e }
    .arrow.lost { stroke-dasharray: 4 3 }
    .arrow.dots { stroke: #595959; stroke-dasharray: 1 4; stroke-width: 2; stroke-linecap: round }
    .cross { stroke-width: 2.5; fill: none }
    .effect { fill: #b87400; stroke: #b87400; stroke-width: 2 }
    .effect.skipped { fill: none }
    .kept { fill: #595959 }
    .effect.twice { fill: #b3261e; stroke: #b3261e }
    .diagram text.question { fill: #0b57a4 }
    .diagram text.error { fill: #b3261e }
    .diagram text.twice { fill: #b3261e; font-weight: 700 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #161616 }
      .diagram text { fill: #ececec; stroke: var(--behind, #161616) }
      .diagram .lane, .diagram .note { fill: #b0b0b0 }
      .life { stroke: #4a4a4a }
      .arrow { stroke: #ececec }
      .arrow.question { stroke: #8ec2ff }
      .arrow.error, .arrow.lost, .cross { stroke: #ff9d94 }
      .arrow.dots { stroke: #b0b0b0 }
      .effect { fill: #f0be6a; stroke: #f0be6a }
      .kept { fill: #b0b0b0 }
      .effect.twice { fill: #ff9d94; stroke: #ff9d94 }
      .diagram text.question { fill: #8ec2ff }
      .diagram text.error, .diagram text.twice { fill: #ff9d94 }
    }
  """
"""The content of the style element, the same in every picture and on the page."""

Lanes = tuple[tuple[Lane, int], ...]
"""The participants, with their places in percent of the width."""


def source_of(text: str) -> str:
    """Return the name by which a page's policy allows a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def svg(history: History, title: str) -> str:
    """Return a run as an SVG document."""
    rows = [row for row in narrate(history) if is_drawn(row)]
    lanes = lanes_of(rows)
    height = TOP + HEAD + len(rows) * ROW + 12
    parts = [
        f'<svg xmlns="{SPACE}" viewBox="0 0 {WIDTH} {height}" class="diagram" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="20" y="26">{escape(title)}</text>',
        f'<svg y="{TOP}" height="{height - TOP - 12}">{draw_heads(lanes)}</svg>',
    ]
    for number, row in enumerate(rows):
        parts.append(
            f'<svg y="{TOP + HEAD + number * ROW}" height="{ROW}">{draw_row(row, lanes)}</svg>'
        )
    return "\n".join([*parts, "</svg>", ""])


def is_drawn(row: Row) -> bool:
    """Return whether a row is in a picture.

    Rows that show nothing new are left out, and rows between the client and the user.
    """
    return not row.quiet and {row.start, row.end} != {CLIENT, USER}


def lanes_of(rows: Iterable[Row]) -> Lanes:
    """Return the lanes that rows need."""
    found = {lane for row in rows for lane in (row.start, row.end)}
    instances = 1 + max((lane for lane in found if isinstance(lane, int)), default=0)
    if DATABASE in found:
        places = [42] if instances == 1 else [25, 42]
        return ((CLIENT, 8), *enumerate(places), (DATABASE, 60), (EFFECTS, 78))
    return ((CLIENT, 8), *enumerate([61] if instances == 1 else [40, 59]), (EFFECTS, 78))


def draw_heads(lanes: Lanes) -> str:
    """Draw the names of the lanes, and a line down from each."""
    servers = [lane for lane, _ in lanes if isinstance(lane, int)]
    return "".join(
        f'<text class="lane" x="{x}%" y="16">{_lane_name(lane, len(servers))}</text>'
        f'<line class="life" x1="{x}%" x2="{x}%" y1="{HEAD - 2}" y2="100%"/>'
        for lane, x in lanes
    )


def _lane_name(lane: Lane, servers: int) -> str:
    if isinstance(lane, str):
        return lane
    return "server" if servers == 1 else f"server {lane + 1}"


def draw_row(row: Row, lanes: Lanes, due: int = 1) -> str:
    """Draw one row; an effect that took place more often than it is due stands out."""
    at: dict[Lane | None, int] = dict(lanes)
    label = row.label or row.text
    match row.kind:
        case "effect" | "skipped":
            return _draw_effect_row(row, label, at, due)
        case "failure":
            return _draw_failure(label, at.get(row.start, at[CLIENT]), at[EFFECTS])
        case "crash":
            return _draw_crash(label, at[row.start or 0])
        case "change" | "time":
            return f'<text class="note" x="50%" y="19">{escape(label)}</text>'
        case "kept":
            return _draw_stored(label, at.get(row.start), at[DATABASE])
        case _:
            return _draw_message_row(row, label, at)


def _draw_effect_row(row: Row, label: str, at: Mapping[Lane | None, int], due: int) -> str:
    """Draw an effect, or one that was not repeated."""
    is_audit = row.effect == "audit"
    if row.kind == "skipped":
        return _draw_effect(label, " skipped", is_audit, None, at[EFFECTS])
    looks = " twice" if row.times > due else ""
    return _draw_effect(label, looks, is_audit, at.get(row.start), at[EFFECTS])


def _draw_message_row(row: Row, label: str, at: Mapping[Lane | None, int]) -> str:
    """Draw a request or a response."""
    start = CLIENT if row.start is None or row.start == USER else row.start
    end = CLIENT if row.end is None or row.end == USER else row.end
    looks: str = row.tone
    if row.again:
        label += " (again)"
        looks += " again"
    elif row.call > 1:
        label += f" (call {row.call})"
    if row.lost:
        label = f"lost: {label}"
    return _draw_message(label, looks, row.lost or row.end is None, at[start], at[end])


@cache
def _draw_message(label: str, looks: str, stops: bool, start: int, end: int) -> str:
    reach = round(start + LOST_AT * (end - start)) if stops else end
    left = min(start, reach) + 2
    label = shorten(label, round(0.45 * (100 - left)), placeholder=" …")  # which fits on a phone
    looks = "lost error" if stops else looks
    return (
        f'<text class="{looks}" x="{left}%" y="15">{escape(label)}</text>'
        + _draw_arrow(start, reach, looks)
        + (_draw_cross(reach, 22) if stops else "")
    )


def _draw_arrow(start: int, end: int, looks: str) -> str:
    line = f'<line class="arrow {looks}" x1="{start}%" x2="{end}%" y1="22" y2="22"/>'
    if "lost" in looks:
        return line
    way = 8 if end > start else -8
    return line + _draw_shape(end, 22, f"arrow {looks}", f"M{-way} -4.5L0 0L{-way} 4.5")


def _draw_shape(x: int, y: int, looks: str, path: str) -> str:
    """Draw a shape whose place depends on the width, and whose size does not."""
    return f'<svg x="{x}%" y="{y}" overflow="visible"><path class="{looks}" d="{path}"/></svg>'


def _draw_cross(x: int, y: int) -> str:
    return _draw_shape(x, y, "cross", "M-5 -5l10 10m0 -10l-10 10")


def _draw_dots(start: int | None, end: int, y: int) -> str:
    if start is None:
        return ""
    return f'<line class="arrow dots" x1="{start}%" x2="{end}%" y1="{y}" y2="{y}"/>'


@cache
def _draw_effect(label: str, looks: str, is_audit: bool, start: int | None, x: int) -> str:
    shape = "M-6 -6h12v12h-12z" if is_audit else "M0 -8l8 8l-8 8l-8 -8z"
    mark = _draw_shape(x, 16, f"effect{looks}", shape)
    text = f'<text class="{looks.strip()}" x="{x}%" y="20" dx="13">{escape(label)}</text>'
    return f"{_draw_dots(start, x, 16)}{mark}{text}"


@cache
def _draw_failure(label: str, start: int, end: int) -> str:
    middle = (start + end) // 2
    return (
        f'<line class="arrow lost" x1="{start}%" x2="{middle}%" y1="16" y2="16"/>'
        f"{_draw_cross(middle, 16)}"
        f'<text class="error before" x="{start - 1}%" y="20">{escape(label)}</text>'
    )


@cache
def _draw_crash(label: str, x: int) -> str:
    return f'{_draw_cross(x, 16)}<text class="error before" x="{x}%" y="20" dx="-12">{escape(label)}</text>'


@cache
def _draw_stored(label: str, start: int | None, x: int) -> str:
    return (
        f"{_draw_dots(start, x, 22)}{_draw_shape(x, 22, 'kept', 'M-4 -4h8v8h-8z')}"
        f'<text class="before" x="{x - 1}%" y="15">{escape(label)}</text>'
    )
