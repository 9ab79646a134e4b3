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
from mrtr_options.review.judge.facts import Reading, anomalies_in
from mrtr_options.review.show.svg import Lanes, draw_heads, draw_row, is_drawn, lanes_of

Seen = tuple[int | None, int | None, int | str]
Lines = tuple[int | None, tuple[int, ...]]
"""A sending, and the lines that ran in it one after the other."""


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


def _with_skipped(told: Sequence[Row | Lines], effects: Mapping[int, str]) -> list[Row | Lines]:
    """Return what was told, with a row of its own for each line whose effect was not repeated."""
    skipped = _skipped_in(told, effects)
    found: list[Row | Lines] = []
    for place, each in enumerate(told):
        if isinstance(each, Row):
            found.append(each)
            continue
        sending, lines = each
        ran: list[int] = []
        for at, line in enumerate(lines):
            if (place, at) not in skipped:
                ran.append(line)
                continue
            if ran:
                found.append((sending, tuple(ran)))
                ran = []
            found.append(_skipped_row(sending, line, effects[line]))
        if ran:
            found.append((sending, tuple(ran)))
    return found


def _skipped_in(told: Sequence[Row | Lines], effects: Mapping[int, str]) -> set[tuple[int, int]]:
    """Return the lines that ran without their effect: the place in `told`, and there in the group.

    An effect belongs to the first line of its sending and kind that has none yet. A crash
    interrupts the lines of its sending that have no effect yet; they were not skipped.
    """
    waiting: dict[tuple[int | None, str], list[tuple[int, int]]] = {}
    for place, each in enumerate(told):
        if not isinstance(each, Row):
            sending, lines = each
            for at, line in enumerate(lines):
                if line in effects:
                    waiting.setdefault((sending, effects[line]), []).append((place, at))
        elif each.kind in ("effect", "failure"):
            kind = each.effect or each.label.partition(" ")[0]
            of_this_kind = waiting.get((each.sending, kind))
            if of_this_kind:
                of_this_kind.pop(0)
        elif each.kind == "crash":
            waiting = {key: lines for key, lines in waiting.items() if key[0] != each.sending}
    return {line for lines in waiting.values() for line in lines}


def _skipped_row(sending: int | None, line: int, kind: str) -> Row:
    return Row(
        "skipped",
        f"{kind} not repeated",
        "skipped",
        end=EFFECTS,
        sending=sending,
        effect=kind,
        number=line,
    )


def story(history: History, watched: Watched) -> Story:
    """Return a run, ready to be shown: its history, with the watched lines and records."""
    told = _with_skipped(list(_rows_and_lines(history.events, watched)), effects_of(watched.path))
    rows = [each for each in told if isinstance(each, Row)]
    took = Counter(row.effect for row in rows if row.times)
    reading = Reading(history)
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
    told: Iterable[Row | Lines], places: Mapping[int, str], lanes: Lanes, due: int
) -> Iterator[Step]:
    """Yield the steps of a story. A fault of a request or response is offered once per sending."""
    offered = set[tuple[str, str]]()
    for each in told:
        if not isinstance(each, Row):
            sending, lines = each
            yield Step(sending, places.get(sending or 0, ""), lines=lines)
            continue
        place = places.get(each.sending or 0, "")
        offers = _offers(each) if place else ""
        if (offers, place) in offered and not each.effect:
            offers = ""
        offered.add((offers, place))
        yield Step(
            each.sending,
            place,
            draw_row(each, lanes, due),
            each.label or each.text,
            offers,
            each.effect if each.times else "",
            skipped=each.number if each.kind == "skipped" else 0,
        )


def _offers(row: Row) -> str:
    """Return which faults a row offers: of a request or response of call 1, or of its effect."""
    if row.kind == "effect":
        return row.effect
    return row.kind if row.kind in ("request", "response") and row.call == 1 else ""


def _rows_and_lines(events: Sequence[Event], watched: Watched) -> Iterator[Row | Lines]:
    """Yield the rows of a run, and between them the lines that ran and the database records."""
    narrator = Narrator()
    last: int | None = None
    for number, event in enumerate((*events, None)):
        yield from _between(watched.seen.get(number, ()), last)
        if event is not None:
            yield from filter(is_drawn, narrator.rows(event))
        if isinstance(event, Sent):
            last = event.sending


def _between(seen: Sequence[Seen], last: int | None) -> Iterator[Row | Lines]:
    """Yield what was watched between two events; successive lines of one sending are one step.

    An observation without a sending belongs to the last one.
    """
    for (instance, sending, is_line), some in groupby(
        seen, lambda each: (each[0], each[1] or last, isinstance(each[2], int))
    ):
        if is_line:
            yield sending, tuple(line for _, _, line in some if isinstance(line, int))
        else:
            for _, _, what in some:
                yield Row("kept", str(what), start=instance, end=DATABASE, sending=sending)
