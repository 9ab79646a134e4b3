"""Runs as a browser draws them.

A story is one run: its steps in order, how it ended for the client and for the ledger, and the anomalies
that it shows. A step is a short list that begins with its kind, so that it is small as JSON; between
two others, `lines` tells which of the author's lines ran. The kinds, as `page.js` reads them:

    sent    place, instance, round, call, text        a request; the place is the client's, as in "3.2"
    got     place, instance, round, call, what, text, lost
    effect  kind, number, instance, round             the number counts its kind; 0 where it was absorbed
    failed  kind, instance, round
    died    instance, round
    note    text
    user    instance, round, text, answers            a question pushed to a client of the old era
    lines   instance, round, lines

Knows histories; nothing of how they are drawn.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
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
class Lines:
    """The author's lines of one run, as they are reached; `reach` is told of each.

    Attributes:
        path: The option's file. Lines of its next version count as those of the file that they equal.
        reached: How many events there were before, the instance, its round, and the line.
    """

    path: Path
    reached: list[tuple[int, int, int | None, int]] = field(
        default_factory=list[tuple[int, int, int | None, int]]
    )

    def reach(self, events: int, path: Path, instance: int, round: int | None, line: int) -> None:
        """Take note of a line that runs now."""
        if path != self.path:
            found = _same_lines(path, self.path).get(line)
            if found is None:
                return
            line = found
        self.reached.append((events, instance, round, line))


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


def story(played: Played, lines: Lines) -> Story:
    """A run, ready to be drawn.

    Args:
        played: What happened.
        lines: The author's lines that ran.
    """
    history = played.history
    places = {
        sent.played: f"{sent.round}.{sent.attempt}" if sent.attempt > 1 else f"{sent.round}"
        for sent in played.requests
    }
    steps: list[Step] = []
    times: Counter[str] = Counter()
    reached = list(reversed(lines.reached))
    last = 0
    for number, event in enumerate(history.events):
        steps += _lines(reached, number)
        last = event.instance if isinstance(event, Sent) else last
        steps += _steps(event, places, times, last, legacy=history.era == "legacy")
    steps += _lines(reached, len(history.events))
    return Story(
        tuple(steps),
        _said(anomalies.end_of(history)),
        times["audit"],
        times["bill"],
        anomalies.effects_due(history),
        anomalies.found(history),
    )


def _lines(reached: list[tuple[int, int, int | None, int]], before: int) -> Sequence[Step]:
    """The lines that ran before an event, those of one round together."""
    found: dict[tuple[int, int | None], list[int]] = {}
    while reached and reached[-1][0] <= before:
        _, instance, round, line = reached.pop()
        found.setdefault((instance, round), []).append(line)
    return [("lines", instance, round, tuple(ran)) for (instance, round), ran in found.items()]


def _steps(
    event: Event, places: Mapping[int, str], times: Counter[str], last: int, *, legacy: bool
) -> Sequence[Step]:
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
            return [("effect", effect.kind, number, event.instance, event.round)]
        case Failed(kind=kind):
            return [("failed", kind, event.instance, event.round)]
        case Crashed():
            return [("died", event.instance, event.round)]
        case Restarted():
            return [("note", "every instance is replaced")]
        case Redeployed():
            return [("note", "a version with one more question is deployed")]
        case Elapsed(seconds=seconds):
            return [("note", f"{seconds / 60:.0f} minutes pass")]
        case Asked(round=number, message=message) if legacy:
            return [("user", last, number, message, False)]
        case Answered(action=action, content=content) if legacy:
            return [("user", last, None, _values(content) or action, True)]
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
