"""The guard's record of a round as a state graph, drawn from all states of the model.

A node is what the store holds about the third round of a call, whether an instance is at work on
it, and whether its user is charged. An edge is an action that changes the node, or a request that
is answered at once. `python -m documents` writes the picture into docs/.
"""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from model.actions import Action, Takes, Works
from model.check import Cell, steps_of
from model.destination import KINDS
from model.world import ROUNDS, SECOND_ERROR, World

PLAIN = Cell("guard (F)", "resends", KINDS[0])
REPEATING = Cell("guard, named by key (J)", "resends", KINDS[1])
"""The guard that runs a round again whose outcome is unknown. Its own edges are dashed."""

DASHED = "Dashed: only if the call has a name and the destination absorbs a repeated effect."

WIDTH, HEIGHT = 900, 320
BOX_WIDTH, BOX_HEIGHT = 150, 46

STYLE = """
.guard-graph { color: #1f2328; font: 13px sans-serif }
.guard-graph text { fill: currentColor; text-anchor: middle }
.guard-graph .box, .guard-graph .edge { fill: none; stroke: currentColor; stroke-width: 1.2 }
.guard-graph .thick { stroke-width: 2.6 }
.guard-graph .again { stroke-dasharray: 5 4 }
.guard-graph .tip { fill: currentColor }
@media (prefers-color-scheme: dark) { .guard-graph { color: #e6edf3 } }
"""


class Node(NamedTuple):
    """What is known of a round: its record, an instance at work on it, and the charge."""

    record: str
    at_work: bool
    charged: bool


class Edge(NamedTuple):
    """An action, and what it leads from and to."""

    before: Node
    action: str
    after: Node


class Place(NamedTuple):
    """The middle of a box, and its two lines."""

    x: int
    y: int
    title: str
    line: str


PLACES = {
    Node("", False, False): Place(85, 70, "no record", "not charged"),
    Node("begun", True, False): Place(330, 70, "reserved, at work", "not charged"),
    Node("begun", True, True): Place(575, 70, "reserved, at work", "charged"),
    Node("done", False, True): Place(815, 70, "recorded", "charged"),
    Node("begun", False, False): Place(330, 215, "outcome unknown", "not charged"),
    Node("begun", False, True): Place(575, 215, "outcome unknown", "charged"),
}
"""Where each node is drawn. A node without a place is an error: the drawing is out of date."""


class GuardGraph:
    """The picture."""

    @property
    def drawing(self) -> str:
        """The SVG document."""
        return self.inside(f"<style>{STYLE}</style>\n")

    def inside(self, style: str = "") -> str:
        """Return the picture for a page that has the style, or with the style."""
        edges = edges_of(PLAIN)
        own = edges_of(REPEATING) - edges
        parts = [*map(_box, PLACES)]
        parts += [_arrow(edge, "edge") for edge in sorted(edges)]
        parts += [_arrow(edge, "edge again") for edge in sorted(own)]
        parts.append(f'<text x="{WIDTH // 2}" y="{HEIGHT - 8}">{DASHED}</text>')
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="guard-graph" role="img"'
            f' viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
            ' aria-label="The record of a round in the guard">'
        )
        return "\n".join([head, f"{style}{parts[0]}", *parts[1:], "</svg>\n"])


def edges_of(cell: Cell) -> set[Edge]:
    """Return the edges between the nodes of a guard, from all its states."""
    steps = steps_of(cell, wants_second=False)
    seen = {World()}
    left = [World()]
    found: set[Edge] = set()
    while left:
        world = left.pop()
        for does, after in steps(world):
            found.update(_edge(world, does, after))
            if after not in seen:
                seen.add(after)
                left.append(after)
    return found


def node_of(world: World) -> Node:
    """Return what is known of the third round of the first call."""
    records = [how for call, round_, how in world.store if (call, round_) == (1, ROUNDS)]
    works = [each.work for each in world.instances if each.work is not None]
    at_work = any(work.request.round == ROUNDS and "record" in work.steps for work in works)
    return Node("".join(records), at_work, world.destination.bills > 0)


def _edge(world: World, does: Action, after: World) -> Iterator[Edge]:
    """Yield the edge of a step; none for a step that the graph does not show."""
    before, then = node_of(world), node_of(after)
    match does:
        case Takes(request=request, at_once=True) if request[:2] == (1, ROUNDS):
            errors = {each.error for each in after.responses - world.responses}
            if errors:
                action = "error" if SECOND_ERROR in errors else "record"
                yield Edge(before, f"answer: {action}", then)
        case Takes(request=request) if request[:2] == (1, ROUNDS):
            yield Edge(before, "request", then)
        case Works(step=step) if before != then:
            yield Edge(before, step, then)
        case _ if before != then:
            yield Edge(before, "crash", then)
        case _:
            pass


LABELS = {
    "request": "request 3",
    "bill": "charge",
    "record": "record",
    "crash": "crash",
    "answer: record": "request 3 again: recorded response",
    "answer: error": "request 3 again: error",
}


def _box(node: Node) -> str:
    place = PLACES[node]
    left, top = place.x - BOX_WIDTH // 2, place.y - BOX_HEIGHT // 2
    kind = "box thick" if node.charged else "box"
    return (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
        f' rx="6"/><text x="{place.x}" y="{place.y - 4}">{escape(place.title)}</text>'
        f'<text x="{place.x}" y="{place.y + 14}">{escape(place.line)}</text>'
    )


def _arrow(edge: Edge, kind: str) -> str:
    """Draw an edge: across, down, up, or as a loop below its box."""
    one, other = PLACES[edge.before], PLACES[edge.after]
    label = LABELS[edge.action]
    half = BOX_HEIGHT // 2
    if one == other:
        return _loop(one, label, kind)
    if one.y == other.y:
        start, end = one.x + BOX_WIDTH // 2, other.x - BOX_WIDTH // 2
        text = f'<text x="{(start + end) // 2}" y="{one.y - 8}">{label}</text>'
        return _line(start, one.y, end - 7, one.y, kind) + _tip(end, one.y, 7, 0) + text
    is_down = other.y > one.y
    x = one.x - 35 if is_down else one.x + 35
    sign = 1 if is_down else -1
    start, end = one.y + sign * half, other.y - sign * half
    side = x - 28 if is_down else x + 36
    text = f'<text x="{side}" y="{(start + end) // 2 + 4}">{label}</text>'
    return _line(x, start, x, end - sign * 7, kind) + _tip(x, end, 0, sign * 7) + text


def _loop(place: Place, label: str, kind: str) -> str:
    """Draw a loop below a box, with its label in two lines."""
    y = place.y + BOX_HEIGHT // 2
    path = f"M{place.x - 20} {y} q0 18 20 18 q20 0 20 -11"
    first, second = label.split(": ")
    return (
        f'<path class="{kind}" d="{path}"/>{_tip(place.x + 20, y, 0, -7)}'
        f'<text x="{place.x}" y="{y + 32}">{first}:</text>'
        f'<text x="{place.x}" y="{y + 48}">{second}</text>'
    )


def _line(x1: int, y1: int, x2: int, y2: int, kind: str) -> str:
    return f'<path class="{kind}" d="M{x1} {y1} L{x2} {y2}"/>'


def _tip(x: int, y: int, dx: int, dy: int) -> str:
    """Draw the tip of an arrow that comes along (dx, dy)."""
    across = (dy // 2, dx // 2)
    points = f"{x},{y} {x - dx + across[0]},{y - dy + across[1]}"
    points += f" {x - dx - across[0]},{y - dy - across[1]}"
    return f'<polygon class="tip" points="{points}"/>'
