"""Runs as a browser draws them.

A story is one run: its steps in order, how it ended for the client and for the ledger, and the anomalies
that it shows. A step is a short list that begins with its kind, so that it is small as JSON. The kinds,
as the scripts read them:

    sent    place, instance, round, call, text        a request; the place is the client's, as in "3.2"
    got     place, instance, round, call, what, text, lost
    effect  kind, number, instance, round             the number counts its kind; 0 where it was absorbed
    failed  kind, instance, round
    died    instance, round
    note    text
    user    instance, round, text, answers            a question pushed to a client of the old era
    lines   instance, round, lines
    kept    instance, round, text                     what a database keeps; the instance may be unknown

Knows histories; nothing of how they are drawn.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import mcp_types as types

from mrtr_options.bench.explore import Played
from mrtr_options.bench.history import (
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Event,
    Failed,
    Received,
    Redeployed,
    Reply,
    Request,
    Restarted,
    Sent,
)
from mrtr_options.judge import anomalies
from mrtr_options.tool.server import TOOL

Step = tuple[Any, ...]
Seen = tuple[int | None, int | None, int | str]


@dataclass(frozen=True)
class Story:
    """One run.

    Attributes:
        steps: What is drawn, in order.
        end: How call 1 ended: `result`, `error` or `nothing`, and in which words.
        audits, bills: How often each effect took place.
        due: How often each may take place.
        anomalies: The names of those that it shows.
    """

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
        path: The option's file. Lines of its next version count as those of the file that they equal.
        seen: By how many events there were before: the instance, its round, and the line or the words.
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
        block.a + number + 1: block.b + number + 1 for block in blocks for number in range(block.size)
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


def story(played: Played, watched: Watched) -> Story:
    """A run, ready to be drawn.

    Args:
        played: What happened.
        watched: What is no event of it.
    """
    history = played.history
    places = {
        sent.played: f"{sent.round}.{sent.attempt}" if sent.attempt > 1 else f"{sent.round}"
        for sent in played.requests
    }
    steps: list[Step] = []
    times: Counter[str] = Counter()
    last = None
    for number, event in enumerate(history.events):
        steps += _between(watched.seen.get(number, ()), last)
        last = event if isinstance(event, Sent) else last
        steps += _steps(event, places, times, last, legacy=history.era == "legacy")
    steps += _between(watched.seen.get(len(history.events), ()), last)
    return Story(
        tuple(steps),
        _said(anomalies.end_of(history)),
        times["audit"],
        times["bill"],
        anomalies.effects_due(history),
        anomalies.found(history),
    )


def _between(seen: Sequence[Seen], last: Sent | None) -> Iterator[Step]:
    """What came between two events; lines of one round that follow one another are one step.

    What belongs to no round that can be seen belongs to the one that was sent last.
    """
    for (instance, found, is_line), some in groupby(
        seen, lambda each: (each[0], each[1], isinstance(each[2], int))
    ):
        round = found or (last.round if last else None)
        if is_line:
            yield "lines", instance, round, tuple(line for _, _, line in some)
        else:
            yield from (("kept", instance, round, what) for _, _, what in some)


def _steps(
    event: Event,
    places: Mapping[int, str],
    times: Counter[str],
    last: Sent | None,
    *,
    legacy: bool,
) -> Sequence[Step]:
    here, round = (last.instance, last.round) if last else (0, None)
    match event:
        case Sent(request=Request(method="tasks/get")) | Received(reply=Reply(status="working")):
            return ()
        case Sent(request=request):
            place = places.get(event.round, "")
            return [("sent", place, event.instance, event.round, event.call, _request(request))]
        case Received(reply=reply):
            place = places.get(event.round, "")
            what, text = _said(reply)
            lost = event.lost or what == "nothing"
            return [("got", place, event.instance, event.round, event.call, what, text, lost)]
        case Effect(effect=effect):
            times[effect.kind] += not event.absorbed
            number = 0 if event.absorbed else times[effect.kind]
            return [("effect", effect.kind, number, event.instance, event.round or round)]
        case Failed(kind=kind):
            return [("failed", kind, event.instance, event.round or round)]
        case Crashed():
            return [("died", event.instance, event.round)]
        case Restarted():
            return [("note", "every instance is replaced")]
        case Redeployed():
            return [("note", "a version with one more question is deployed")]
        case Elapsed(seconds=seconds):
            return [
                (
                    "note",
                    f"{seconds / 60:.0f} minutes pass" if seconds > 120 else f"{seconds:.0f} s pass",
                )
            ]
        case Asked(round=number, message=message) if legacy:
            return [("user", here, number, message, False)]
        case Answered(action=action, content=content) if legacy:
            return [("user", here, round, _values(content) or action, True)]
        case _:
            return ()


def _values(content: Any) -> str:
    return ", ".join(map(str, dict(content or {}).values()))


def _request(request: Request) -> str:
    given = [
        _values(answer.content) or answer.action
        for answer in (request.answers or {}).values()
        if isinstance(answer, types.ElicitResult)
    ]
    return ", ".join(given) or f"{TOOL}({request.location})"


def _said(reply: Reply) -> tuple[str, str]:
    """What a response is, and in which words."""
    if reply.nothing is not None or reply.malformed is not None:
        return "nothing", "no response"
    if reply.code is not None:
        return "error", f"error {reply.code}: {reply.message}"
    if reply.questions:
        return "question", f"asks {', '.join(map(reply.name_of, reply.questions))}"
    return "error" if reply.is_error else "result", reply.text or ""
