"""All data of the page, as one JSON object: subjects and their code, runs, tables and diffs.

Every number is counted from runs, or printed by `explore` or `diff`. Knows runs and option files;
nothing of HTML.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from documents import front
from documents.advice import FOR_SDKS, FOR_THE_SPECIFICATION
from documents.explored import FILE
from documents.page.boards import boards
from documents.page.differences import differences, pairs
from documents.page.runs import FAULTS, Told
from documents.page.stories import Step, Story, spans
from documents.tables import compare_redeploys
from mrtr_options.demo.diff import written
from mrtr_options.review.bench.faults import EXPLORED, Faults, in_words, parse
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore import not_tried_cell
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.explore.summary import behaviours, left_out, not_tried_in
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.observation import Observation
from mrtr_options.tool.author_code import author_code
from mrtr_options.tool.catalogue import Option, whole_deck
from mrtr_options.tool.choosing import QUESTIONS
from mrtr_options.tool.notation import DEFAULT, in_text, titled
from scoreboard.clients.kept import read as read_clients
from scoreboard.clients.page import addresses, by_server, overview
from scoreboard.cost import report as costs
from scoreboard.cost.lines import count_again


def document(
    told: Sequence[Told],
    chooser: Sequence[Mapping[str, Any]] = (),
    redeploys: Sequence[Observation] = (),
) -> JsonObject:
    """Return the whole object, ready for `json.dumps`.

    Args:
        told: The runs of each row.
        chooser: The choices (see `documents.choosing`).
        redeploys: The runs in which an open call meets a redeploy.
    """
    tables = _Tables()
    worlds = [tables.world(each) for each in told]
    told_apart = [{name: world[name] for name in world if name not in OF_RUNS} for world in worlds]
    for number, behaviour in enumerate(behaviours(told_apart)):
        for world in worlds:  # worlds with the same number share a row of the table
            if world["subject"] in behaviour.subjects:
                world["behaviour"] = number
    subjects = {each.subject.name: each.subject for each in told}
    deck = whole_deck()
    return {
        "made": made(),
        "default": DEFAULT,
        "advice": {
            "docs/FOR_SDKS.md": [each.says for each in FOR_SDKS],
            "docs/FOR_THE_SPECIFICATION.md": [each.says for each in FOR_THE_SPECIFICATION],
        },
        "front": front_table(),
        "questions": QUESTIONS,
        "chooser": list(chooser),
        "clients": addresses(read_clients()),
        "tables": kept_tables(redeploys),
        "why": {
            name: schedule.why for name, schedule in SCHEDULES.items() if schedule.scenario.changes
        },
        "anomalies": [{"name": each.name, "says": each.says} for each in ANOMALIES],
        "faults": {
            kind.name: {"says": kind.says, "at": kind.where, "do": kind.instruction}
            for kind in EXPLORED.values()
        },
        "subjects": [_subject(subjects[name]) for name in sorted(subjects, key=_place)],
        "options": {letter: _option(option) for letter, option in deck.items()},
        "pairs": pairs(deck),
        **differences(deck),
        "worlds": worlds,
        "scoreboard": boards(),
        "untried": not_tried_in([each.row for each in told]),
        "names": {
            name: {"words": in_words(parse(name)), "says": parse(name)[0].says}
            for name in tables.names
        },
        "heads": list(tables.heads),
        "steps": [_as_object(step) for step in tables.steps],
        "stories": list(tables.stories),
    }


OF_RUNS = ("before", "added", "stories")
"""The keys of a world that hold its runs, as numbers."""


def made() -> dict[str, str]:
    """Return the project's version, commit and date; the commit is empty outside a repository."""
    git = ["git", "-C", str(FILE.parent), "log", "-1", "--format=%h %cs"]
    said = subprocess.run(git, capture_output=True, text=True, check=False).stdout.split()
    commit, date = said if len(said) == 2 else ("", "")
    names = ("mrtr-options", "mcp")
    return dict(zip(names, map(version, names), strict=True)) | {"commit": commit, "date": date}


def front_table() -> JsonObject:
    """Return README's table of all options: its heads, and its rows in Markdown by heading."""
    groups = {True: "In the design papers", False: "Beyond the papers"}
    rows = front.options_table()
    return {
        "heads": front.HEADS,
        "groups": [
            [title, [front.cells(row) for row in rows if row.is_in_papers == is_in_papers]]
            for is_in_papers, title in groups.items()
        ],
    }


def kept_tables(redeploys: Sequence[Observation]) -> dict[str, list[list[str]]]:
    """Return the tables of results that the page shows, head first, as plain text."""
    report = read_clients()
    return {
        "clients": overview(report, "modern"),
        "old clients": overview(report, "legacy"),
        "clients and servers": by_server(report, "modern"),
        "old clients and servers": by_server(report, "legacy"),
        "redeploys": cells_of(compare_redeploys(redeploys)),
        "costs": cells_of(costs.with_notes(count_again(costs.read()))),
    }


def cells_of(table: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, without links and emphasis."""
    rows = [line[1:-1].split("|") for line in table.splitlines() if line.startswith("| ")]
    return [
        [re.sub(r"[*`]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell)).strip() for cell in row]
        for row in rows
    ]


def _place(name: str) -> tuple[int, str]:
    """Return the sort key of a subject: options alone come first, then those in wrappers."""
    letter, *wrappers = name.split("+")
    return len(wrappers), "+".join([*reversed(wrappers), letter])


class _Tables:
    """Tables of the things that many runs share; each thing is kept once, by its number."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.heads: dict[str, int] = {}
        self.steps: dict[Step, int] = {}
        self.stories: dict[tuple[Any, ...], int] = {}

    def world(self, told: Told) -> JsonObject:
        """Return a row with its clean call, the weakest fault of each anomaly, and its runs.

        A run has the number of the run with one fault less, of the added fault, and of its story.
        """
        place: dict[Faults, int] = {(): 0}
        before = [-1]
        added = [-1]
        stories = [-1]
        numbers = [self._story(story) for story in told.stories]

        def at(faults: Faults) -> int:
            """Return the number of a set of faults.

            A set that was not played, but a larger one was, has no story.
            """
            if faults not in place:
                before.append(at(faults[:-1]))
                added.append(_number(self.names, str(faults[-1])))
                stories.append(-1)
                place[faults] = len(place)
            return place[faults]

        for faults, number in told.runs.items():
            stories[at(faults)] = numbers[number]
        row = told.row
        clean = told.stories[told.runs[()]]
        not_tried = left_out(row)
        return row | {
            "every": FAULTS,
            "weakest": {name: weakest_of(sets) for name, sets in row["witnesses"].items()},
            "untried": not_tried_cell(not_tried) if not_tried else "",
            "clean": [clean.audits, clean.bills, clean.end[0]],
            "before": before,
            "added": added,
            "stories": stories,
        }

    def _story(self, story: Story) -> int:
        shown = [number for number, each in enumerate(ANOMALIES) if each.name in story.anomalies]
        steps = tuple(_number(self.steps, step) for step in story.steps)
        counts = story.audits, story.bills, story.due
        heads = _number(self.heads, story.heads)
        return _number(self.stories, (heads, steps, *story.end, *counts, tuple(shown)))


def _number(table: dict[Any, int], what: Any) -> int:
    return table.setdefault(what, len(table))


def _as_object(step: Step) -> JsonObject:
    return {name: value for name, value in step._asdict().items() if value or name == "round"}


def _subject(subject: Subject) -> JsonObject:
    return {
        "name": subject.name,
        "short": in_text(subject.name),
        "option": subject.option.letter,
        "wrappers": subject.wrappers,
        "title": titled(subject.name),
        "around": _around(subject),
    }


def _around(subject: Subject) -> list[str]:
    """Return the lines that put an option into its wrappers."""
    own = {line.text.strip() for line in author_code(subject.option.source)}
    lines = author_code(written(subject.name).source)
    return [line.text for line in lines if line.text.strip() not in own]


def _option(option: Option) -> JsonObject:
    source = option.source
    own = option.guarantees
    return {
        "title": titled(option.letter),
        "file": option.path.name,
        "code": [[line.line, line.text] for line in author_code(source)],
        "spans": spans(source),
        "writes": own.writes if own else "",
    }
