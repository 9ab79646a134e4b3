"""Runs as a browser shows them.

A story is one run: its steps in order, how it ended for the client and for the ledger, and the
anomalies that it shows. Knows histories, and rows as pictures.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mrtr_options.review.bench.history import Event, History, Sent
from mrtr_options.review.bench.history.narrate import DATABASE, EFFECTS, Narrator, Row, outcome
from mrtr_options.review.judge.facts import HistoryReading, anomalies_in
from mrtr_options.review.show.svg import Lanes, draw_heads, draw_row, is_drawn, lanes_of

Seen = tuple[int | None, int | None, int | str]


class Ran(NamedTuple):
    """A line of the author's that ran.

    Attributes:
        events: The number of events before it.
        instance: The instance that ran it.
        sending: Its sending.
        line: The line's number in the option's file.
    """

    events: int
    instance: int | None
    sending: int | None
    line: int


class Step(NamedTuple):
    """A row of the picture, or a group of the author's lines that ran.

    Attributes:
        round: The number of the sending in the history; None outside every sending.
        place: The client's name for that sending, as in "3.2"; empty if it has none.
        svg: The row as a picture; empty for lines.
        says: The row in words.
        offers: The place of a fault: "request", "response", "audit", "bill"; empty for no fault.
        effect: The kind of an effect that took place.
        lines: The numbers of the lines that ran.
        skipped: The line of an effect that was not repeated.
    """

    round: int | None
    place: str
    svg: str = ""
    says: str = ""
    offers: str = ""
    effect: str = ""
    lines: tuple[int, ...] = ()
    skipped: int = 0


@dataclass(frozen=True)
class Story:
    """A run, as the page shows it.

    Attributes:
        heads: The lanes of the picture.
        steps: The rows and lines, in order.
        end: The end of call 1: `result`, `question`, `error` or `nothing`, and its text.
        audits, bills: How often each effect took place.
        due: How often each effect may take place.
        anomalies: The names of the anomalies in the run.
    """

    heads: str
    steps: tuple[Step, ...]
    end: tuple[str, str]
    audits: int
    bills: int
    due: int
    anomalies: frozenset[str]


@dataclass
class Watched:
    """Observations that are no events of a run: the author's lines that ran, and database records.

    Attributes:
        path: The option's file. A line of its next version counts as the equal line of this file.
        seen: The observations by the number of events before them. An observation is the instance,
            its sending, and a line number or the record in words.
    """

    path: Path
    seen: dict[int, list[Seen]] = field(default_factory=dict[int, list[Seen]])

    def note_line(
        self, events: int, path: Path, instance: int, sending: int | None, line: int
    ) -> None:
        """Record a line that runs now."""
        if path != self.path:
            found = _same_lines(path, self.path).get(line)
            if found is None:
                return
            line = found
        self.seen.setdefault(events, []).append((instance, sending, line))

    def note_stored(
        self, events: int, instance: int | None, sending: int | None, what: str
    ) -> None:
        """Record what a database stores now."""
        self.seen.setdefault(events, []).append((instance, sending, what))


@cache
def _same_lines(version: Path, path: Path) -> Mapping[int, int]:
    """Return the line of `path` that equals a line of another version, by that line."""
    both = (each.read_text(encoding="utf-8").splitlines() for each in (version, path))
    blocks = SequenceMatcher(None, *both, autojunk=False).get_matching_blocks()
    return {
        block.a + number + 1: block.b + number + 1
        for block in blocks
        for number in range(block.size)
    }


def spans(source: str) -> dict[int, int]:
    """Return the last line of each statement, by its first line; a block counts by its head."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            found[node.lineno] = last
    return found


@cache
def effects_of(path: Path) -> Mapping[int, str]:
    """Return the kind of each statement that causes an effect, by its first line."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[int, str] = {}
    for first, last in spans(source).items():
        called = re.search(r"\.(audit|bill)\(", "\n".join(lines[first - 1 : last]))
        if called:
            found[first] = called[1]
    return found


def _skipped_in(told: Sequence[Row | Ran], effects: Mapping[int, str]) -> set[int]:
    """Return the places in `told` of lines that ran without their effect.

    An effect belongs to the first line of its sending and kind that has none yet. A crash
    interrupts the lines of its sending that have no effect yet; they were not skipped.
    """
    waiting: dict[tuple[int | None, str], list[int]] = {}
    for place, each in enumerate(told):
        if isinstance(each, Ran):
            if each.line in effects:
                waiting.setdefault((each.sending, effects[each.line]), []).append(place)
        elif each.kind in ("effect", "failure"):
            kind = each.effect or each.label.partition(" ")[0]
            of_this_kind = waiting.get((each.sending, kind))
            if of_this_kind:
                of_this_kind.pop(0)
        elif each.kind == "crash":
            waiting = {key: places for key, places in waiting.items() if key[0] != each.sending}
    return {place for places in waiting.values() for place in places}


def _skipped_row(ran: Ran, kind: str) -> Row:
    return Row(
        "skipped",
        f"{kind} not repeated",
        "skipped",
        end=EFFECTS,
        sending=ran.sending,
        effect=kind,
        number=ran.line,
    )


def story(history: History, watched: Watched) -> Story:
    """Return a run, ready to be shown: its history, with the watched lines and records."""
    told = list(_rows_and_lines(history.events, watched))
    effects = effects_of(watched.path)
    for place in _skipped_in(told, effects):
        ran = told[place]
        if isinstance(ran, Ran):
            told[place] = _skipped_row(ran, effects[ran.line])
    rows = [each for each in told if isinstance(each, Row)]
    took = Counter(row.effect for row in rows if row.times)
    reading = HistoryReading(history)
    due = reading.effects_due
    lanes = lanes_of(rows)
    return Story(
        draw_heads(lanes),
        tuple(_steps(told, _places(history), lanes, due)),
        outcome(reading.end),
        took["audit"],
        took["bill"],
        due,
        anomalies_in(history),
    )


def _places(history: History) -> dict[int, str]:
    """Return the client's name for each sending, as in "3", or "3.2" for a second attempt."""
    return {
        each.sending: f"{each.round}.{each.number}" if each.number > 1 else f"{each.round}"
        for each in history.attempts
    }


def _steps(
    told: Iterable[Row | Ran], places: Mapping[int, str], lanes: Lanes, due: int
) -> Iterator[Step]:
    """Yield the steps of a story.

    Lines that ran one after the other are one step. A fault of a request or response is offered
    once per sending.
    """
    offered = set[tuple[str, str]]()
    for group, some in groupby(told, lambda each: each[:3] if isinstance(each, Ran) else each):
        sending = group.sending if isinstance(group, Row) else group[-1]
        place = places.get(sending or 0, "")
        if not isinstance(group, Row):
            lines = tuple(each.line for each in some if isinstance(each, Ran))
            yield Step(sending, place, lines=lines)
            continue
        for _ in some:
            offers = _offers(group) if place else ""
            if (offers, place) in offered and not group.effect:
                offers = ""
            offered.add((offers, place))
            yield Step(
                sending,
                place,
                draw_row(group, lanes, due),
                group.label or group.text,
                offers,
                group.effect if group.times else "",
                skipped=group.number if group.kind == "skipped" else 0,
            )


def _offers(row: Row) -> str:
    """Return which faults a row offers: of a request or response of call 1, or of its effect."""
    if row.kind == "effect":
        return row.effect
    return row.kind if row.kind in ("request", "response") and row.call == 1 else ""


def _rows_and_lines(events: Sequence[Event], watched: Watched) -> Iterator[Row | Ran]:
    """Yield the rows of a run, and between them the lines that ran and the database records.

    An observation without a sending belongs to the last one.
    """
    narrator = Narrator()
    last: int | None = None
    for number, event in enumerate((*events, None)):
        for instance, sending, what in watched.seen.get(number, ()):
            if isinstance(what, int):
                yield Ran(number, instance, sending or last, what)
            else:
                yield Row("kept", what, start=instance, end=DATABASE, sending=sending or last)
        if event is not None:
            yield from filter(is_drawn, narrator.rows(event))
        if isinstance(event, Sent):
            last = event.sending
