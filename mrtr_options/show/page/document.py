"""All that the page knows, as one JSON object: subjects and their code, runs, tables and diffs.

Every number in it is counted from runs, or is one that `explore` or `diff` prints.

Knows runs and option files; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import anyio

from mrtr_options.bench.faults import ERAS, EXPLORED
from mrtr_options.bench.subjects import CALL_KEY, LEGACY_SHIM, SINGLE_USE, Subject
from mrtr_options.judge.anomalies import ANOMALIES
from mrtr_options.judge.proof import Proof, prove
from mrtr_options.judge.witnesses import Faults
from mrtr_options.show.explore import FLEETS, POLICIES, as_json, behaviours, short, weakest_of
from mrtr_options.show.page.runs import Told, on_one_instance
from mrtr_options.show.page.stories import Step, Story, spans
from mrtr_options.tool.author_code import author_code, changed_lines, compare
from mrtr_options.tool.catalogue import Option, whole_deck

AROUND = {SINGLE_USE: "guarded", LEGACY_SHIM: "in the shim", CALL_KEY: "with a call key"}
"""What is around an option, after its name."""


def proofs_of(subjects: Iterable[Subject]) -> dict[str, Proof]:
    """What is proved of each subject that is on no durable engine, by its name."""
    return {
        subject.name: anyio.run(prove, subject) for subject in subjects if subject.option.extra is None
    }


def document(told: Sequence[Told], proofs: Mapping[str, Proof]) -> dict[str, Any]:
    """Everything, ready for `json.dumps`.

    Args:
        told: Each world's runs.
        proofs: By subject.
    """
    tables = _Tables()
    worlds: list[dict[str, Any]] = []
    for each in told:
        worlds.append(tables.world(each) | as_json(proofs.get(each.found.subject.name)))
        if each.found.scenario.setup.fleet == "sticky":
            one = on_one_instance(each)
            row = tables.row(one) | as_json(proofs.get(one.found.subject.name))
            worlds.append(row | {"like": len(worlds) - 1})
    _group(worlds)
    subjects = {each.found.subject.name: each.found.subject for each in told}
    return {
        "anomalies": [{"name": each.name, "says": each.says, "harms": each.harms} for each in ANOMALIES],
        "faults": {
            kind.name: {"says": kind.says, "at": kind.where, "do": kind.do} for kind in EXPLORED.values()
        },
        "fleets": FLEETS,
        "policies": POLICIES,
        "subjects": [_subject(subjects[name]) for name in sorted(subjects, key=_place)],
        "options": {letter: _option(option) for letter, option in whole_deck().items()},
        "diffs": _diffs(whole_deck()),
        "worlds": worlds,
        "names": list(tables.names),
        "heads": list(tables.heads),
        "steps": [_as_object(step) for step in tables.steps],
        "stories": list(tables.stories),
    }


def _group(worlds: Sequence[dict[str, Any]]) -> None:
    """Number the behaviours of each fleet and era: subjects with one number share a row of the table."""
    of_runs = ("before", "added", "stories", "like")
    for fleet, era in product(FLEETS, ERAS):
        here = [world for world in worlds if (world["fleet"], world["era"]) == (fleet, era)]
        rows = [{name: world[name] for name in world if name not in of_runs} for world in here]
        for number, behaviour in enumerate(behaviours(rows)):
            for world in here:
                if world["subject"] in behaviour.subjects:
                    world["behaviour"] = number


def _place(name: str) -> tuple[int, str]:
    """Options alone first, then each wrapper's."""
    letter, *wrappers = name.split("+")
    return len(wrappers), "+".join([*reversed(wrappers), letter])


class _Tables:
    """What many runs have in common, each once, by its number."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.heads: dict[str, int] = {}
        self.steps: dict[Step, int] = {}
        self.stories: dict[tuple[Any, ...], int] = {}

    def world(self, told: Told) -> dict[str, Any]:
        """A world with its runs: of each the run with one fault less, the fault, and its story."""
        place: dict[Faults, int] = {}
        before: list[int] = []
        added: list[int] = []
        stories: list[int] = []
        numbers = [self._story(story) for story in told.stories]
        for faults, number in told.runs.items():
            before.append(place[faults[:-1]] if faults else -1)
            added.append(_number(self.names, str(faults[-1])) if faults else -1)
            stories.append(numbers[number])
            place[faults] = len(place)
        return self.row(told) | {"before": before, "added": added, "stories": stories}

    def row(self, told: Told) -> dict[str, Any]:
        """What `explore --json` says of a world, the weakest fault for each anomaly, and the audits, the
        bills and the end of a call in which nothing goes wrong."""
        row, clean = told.found.as_json(), told.stories[told.runs[()]]
        return row | {
            "weakest": {name: weakest_of(sets) for name, sets in row["witnesses"].items()},
            "clean": [clean.audits, clean.bills, clean.end[0]],
        }

    def _story(self, story: Story) -> int:
        shown = [number for number, each in enumerate(ANOMALIES) if each.name in story.anomalies]
        steps = tuple(_number(self.steps, step) for step in story.steps)
        counts = story.audits, story.bills, story.due
        heads = _number(self.heads, story.heads)
        return _number(self.stories, (heads, steps, *story.end, *counts, tuple(shown)))


def _number(table: dict[Any, int], what: Any) -> int:
    return table.setdefault(what, len(table))


def _as_object(step: Step) -> dict[str, Any]:
    return {name: value for name, value in step._asdict().items() if value not in ("", ())}


def _subject(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "short": short(subject.name),
        "option": subject.option.letter,
        "wrappers": subject.wrappers,
        "says": ", ".join((subject.option.name, *(AROUND[name] for name in subject.wrappers))),
        "modern": subject.name.replace(f"+{LEGACY_SHIM}", ""),
        "keyed": subject.keyed,
    }


def _option(option: Option) -> dict[str, Any]:
    source = option.source
    return {
        "name": option.name,
        "file": option.path.name,
        "code": [[line.line, line.text] for line in author_code(source)],
        "spans": spans(source),
    }


def _diffs(deck: Mapping[str, Option]) -> dict[str, Any]:
    """For each two options the hunks that `diff` shows: changed, and how many lines on either side."""
    code = {letter: author_code(option.source) for letter, option in deck.items()}
    found: dict[str, Any] = {}
    for left, right in product(deck, deck):
        hunks = compare(code[left], code[right])
        found[left + right] = {
            "changed_lines": changed_lines(hunks),
            "hunks": [[int(hunk.changed), len(hunk.left), len(hunk.right)] for hunk in hunks],
        }
    return found
