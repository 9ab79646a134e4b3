"""A chart as SVG: text that a test can compare, readable on a light page and on a dark one.

The picture brings its own background, so that it does not depend on the page's. Knows charts and
nothing of what is in one.
"""

from __future__ import annotations

from html import escape

from mrtr_options.show.pictures.chart import Arrow, Chart, Kind, Mark, Note

WIDTH, LEFT, SERVERS = 720, 70, 550
"""The picture's width, and where the first lane and the last server stand."""
ROW, TOP = 26, 70
LOST_AT = 0.8
"""Where on its way a lost message ends."""

STYLE = """
    .page { fill: #ffffff }
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 15px; font-weight: 600 }
    .lane { font-weight: 600; text-anchor: middle }
    .label { text-anchor: middle }
    .note { text-anchor: middle; font-style: italic }
    .life { stroke: #d1d9e0 }
    .message { stroke-width: 1.5; fill: none }
    .request, .result { stroke: #1f2328 }
    .question { stroke: #0072b2 }
    .answer { stroke: #007a5a }
    .error, .cross { stroke: #c0392b }
    .cross { stroke-width: 2.5 }
    .effect { fill: #e69f00 }
    .repeated { fill: #c0392b }
    text.repeated { font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 }
      text { fill: #e6edf3 }
      .life { stroke: #3d444d }
      .request, .result { stroke: #e6edf3 }
      .question { stroke: #58a6ff }
      .answer { stroke: #3fb98c }
      .error, .cross { stroke: #ff7b72 }
      .repeated { fill: #ff7b72 }
    }
  """
"""What stands between the tags of its style, in every picture the same."""


def svg(chart: Chart) -> str:
    """The chart as an SVG document."""
    *messages, effects = chart.lanes
    gap = (SERVERS - LEFT) // (len(messages) - 1)
    places = {lane: LEFT + number * gap for number, lane in enumerate(messages)} | {
        effects: SERVERS + 70
    }
    height = TOP + len(chart.lines) * ROW + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"  <title>{escape(chart.title)}</title>",
        f"  <style>{STYLE}</style>",
        f'  <rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        f'  <text class="title" x="20" y="26">{escape(chart.title)}</text>',
    ]
    for lane, x in places.items():
        parts.append(f'  <text class="lane" x="{x}" y="54">{escape(lane)}</text>')
        parts.append(f'  <line class="life" x1="{x}" y1="62" x2="{x}" y2="{height - 12}"/>')
    for number, line in enumerate(chart.lines):
        y = TOP + number * ROW + ROW // 2
        match line:
            case Arrow():
                parts += _message(line, places[line.start], places[line.end], y)
            case Mark():
                parts += _effect(line, places[chart.lanes[-1]], y)
            case Note(text=text):
                parts.append(f'  <text class="note" x="{WIDTH // 2}" y="{y + 4}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _message(arrow: Arrow, start: int, end: int, y: int) -> list[str]:
    way = 1 if end > start else -1
    reach = round(start + LOST_AT * (end - start)) if arrow.lost else end
    dashes = ' stroke-dasharray="5 4"' if arrow.lost else ""
    kind: Kind = arrow.kind
    text = f"{arrow.text} (lost)" if arrow.lost else arrow.text
    parts = [
        f'  <text class="label" x="{(start + end) // 2}" y="{y - 4}">{escape(text)}</text>',
        f'  <path class="message {kind}" d="M{start} {y + 3}H{reach}"{dashes}/>',
    ]
    if arrow.lost:
        parts.append(f'  <path class="cross" d="M{reach - 5} {y - 2}l10 10m0 -10l-10 10"/>')
    else:
        head = f"M{reach - 7 * way} {y - 1}L{reach} {y + 3}L{reach - 7 * way} {y + 7}"
        parts.append(f'  <path class="message {kind}" d="{head}"/>')
    return parts


def _effect(mark: Mark, x: int, y: int) -> list[str]:
    look = "repeated" if mark.times > 1 else "effect"
    shape = f"M{x - 6} {y - 6}h12v12h-12z" if mark.kind == "audit" else f"M{x} {y - 8}l8 8l-8 8l-8 -8z"
    words = f"{mark.kind} {mark.times}" if mark.times else f"{mark.kind} absorbed"
    label = ' class="repeated"' if mark.times > 1 else ""
    return [
        f'  <path class="{look}" d="{shape}"/>',
        f'  <text{label} x="{x + 16}" y="{y + 4}">{words}</text>',
    ]
