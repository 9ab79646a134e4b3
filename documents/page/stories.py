"""Runs as a browser shows them.

A story is one run: its steps in order, how it ended for the client and for the ledger, and the
anomalies that it shows. Knows histories, and rows as pictures.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mrtr_options.review.bench.history import Event, History, Sent
from mrtr_options.review.bench.telling import DATABASE, EFFECTS, Row, Telling, outcome
from mrtr_options.review.judge import anomalies
from mrtr_options.review.judge.reading import Reading
from mrtr_options.review.show.svg import drawn, heads, is_drawn, lanes_of

Seen = tuple[int | None, int | None, int | str]
Lines = tuple[int | None, tuple[int, ...]]
"""A round, and the lines that ran in it one after the other."""


class Step(NamedTuple):
    """A row of the picture, or lines of the author's that ran.

    Attributes:
        round: As the history counts; None for what belongs to none.
        place: The client's name for that round, as in "3.2"; empty if it has none.
        svg: The row; empty for lines.
        says: The row in words.
        offers: Where a fault is offered: "request", "response", "audit", "bill"; empty for nowhere.
        effect: The kind of an effect that took place.
        lines: Those that ran.
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
    """One run.

    Attributes:
        heads: The lanes of the picture.
        steps: What is shown, in order.
        end: How call 1 ended: `result`, `question`, `error` or `nothing`, and in which words.
        audits, bills: How often each effect took place.
        due: How often each may take place.
        anomalies: The names of those that it shows.
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
    """What is no event of a run: the author's lines as they are reached, and what a database keeps.

    Attributes:
        path: The option's file. Lines of its next version count as those of the file that they
            equal.
        seen: By how many events there were before: the instance, its round, and the line or the
            words.
    """

    path: Path
    seen: dict[int, list[Seen]] = field(default_factory=dict[int, list[Seen]])

    def line(self, events: int, path: Path, instance: int, round: int | None, line: int) -> None:
        """Take note of a line that runs now."""
        if path != self.path:
            found = _same_lines(path, self.path).get(line)
            if found is None:
                return
            line = found
        self.seen.setdefault(events, []).append((instance, round, line))

    def kept(self, events: int, instance: int | None, round: int | None, what: str) -> None:
        """Take note of what a database keeps."""
        self.seen.setdefault(events, []).append((instance, round, what))


@cache
def _same_lines(version: Path, path: Path) -> Mapping[int, int]:
    """The lines of a file by those of another version of it."""
    both = (each.read_text(encoding="utf-8").splitlines() for each in (version, path))
    blocks = SequenceMatcher(None, *both, autojunk=False).get_matching_blocks()
    return {
        block.a + number + 1: block.b + number + 1
        for block in blocks
        for number in range(block.size)
    }


def spans(source: str) -> dict[int, int]:
    """The last line of each statement of a file, by its first; of one with a block, its head's."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            found[node.lineno] = last
    return found


@cache
def effects_of(path: Path) -> Mapping[int, str]:
    """The statements of a file that bring about an effect, by their first line, and its kind."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: dict[int, str] = {}
    for first, last in spans(source).items():
        if called := re.search(r"\.(audit|bill)\(", "\n".join(lines[first - 1 : last])):
            found[first] = called[1]
    return found


def _with_skipped(told: Sequence[Row | Lines], effects: Mapping[int, str]) -> list[Row | Lines]:
    """What was told, with a row of its own for each line whose effect did not take place again."""
    open_: dict[tuple[int | None, str], list[tuple[int, int]]] = {}
    for place, each in enumerate(told):
        if not isinstance(each, Row):
            round, lines = each
            for at, line in enumerate(lines):
                if line in effects:
                    open_.setdefault((round, effects[line]), []).append((place, at))
        elif each.kind in ("effect", "failure"):
            kind = each.effect or each.label.partition(" ")[0]
            if waiting := open_.get((each.round, kind)):
                waiting.pop(0)
        elif each.kind == "crash":
            open_ = {key: waiting for key, waiting in open_.items() if key[0] != each.round}
    skipped = {at for waiting in open_.values() for at in waiting}
    found: list[Row | Lines] = []
    for place, each in enumerate(told):
        if isinstance(each, Row):
            found.append(each)
            continue
        round, lines = each
        ran: list[int] = []
        for at, line in enumerate(lines):
            if (place, at) not in skipped:
                ran.append(line)
                continue
            if ran:
                found.append((round, tuple(ran)))
                ran = []
            kind = effects[line]
            found.append(
                Row(
                    "skipped",
                    f"{kind} not repeated",
                    "skipped",
                    end=EFFECTS,
                    round=round,
                    effect=kind,
                    number=line,
                )
            )
        if ran:
            found.append((round, tuple(ran)))
    return found


def story(history: History, watched: Watched) -> Story:
    """A run, ready to be shown: its history, and what is no event of it."""
    places = {
        sent.played: f"{sent.round}.{sent.attempt}" if sent.attempt > 1 else f"{sent.round}"
        for sent in history.attempts
    }
    told = _with_skipped(list(_told(history.events, watched)), effects_of(watched.path))
    rows = [each for each in told if isinstance(each, Row)]
    took = Counter(row.effect for row in rows if row.times)
    reading = Reading(history)
    lanes, due = lanes_of(rows), reading.effects_due
    offered = set[str]()
    steps: list[Step] = []
    for each in told:
        if isinstance(each, Row):
            place = places.get(each.round or 0, "")
            offers = _offers(each) if place else ""
            if f"{offers} {place}" in offered and not each.effect:
                offers = ""
            offered.add(f"{offers} {place}")
            effect = each.effect if each.times else ""
            picture, says = drawn(each, lanes, due), each.label or each.text
            skipped = each.number if each.kind == "skipped" else 0
            steps.append(Step(each.round, place, picture, says, offers, effect, skipped=skipped))
        else:
            round, lines = each
            steps.append(Step(round, places.get(round or 0, ""), lines=lines))
    return Story(
        heads(lanes),
        tuple(steps),
        outcome(reading.end),
        took["audit"],
        took["bill"],
        due,
        anomalies.found(history),
    )


def _offers(row: Row) -> str:
    """Which faults a row offers: those of a request or response of call 1, or of its kind of
    effect.
    """
    if row.kind == "effect":
        return row.effect
    return row.kind if row.kind in ("request", "response") and row.call == 1 else ""


def _told(events: Sequence[Event], watched: Watched) -> Iterator[Row | Lines]:
    """The rows of a run, and between them the lines that ran and what a database keeps."""
    telling, last = Telling(), None
    for number, event in enumerate((*events, None)):
        yield from _between(watched.seen.get(number, ()), last)
        if event is not None:
            yield from filter(is_drawn, telling.rows(event))
        if isinstance(event, Sent):
            last = event.round


def _between(seen: Sequence[Seen], last: int | None) -> Iterator[Row | Lines]:
    """What came between two events; lines of one round that follow one another are one step.

    What belongs to no round that can be seen belongs to the one that was sent last.
    """
    for (instance, round, is_line), some in groupby(
        seen, lambda each: (each[0], each[1] or last, isinstance(each[2], int))
    ):
        if is_line:
            yield round, tuple(line for _, _, line in some if isinstance(line, int))
        else:
            for _, _, what in some:
                yield Row("kept", str(what), start=instance, end=DATABASE, round=round)
