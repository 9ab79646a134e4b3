"""Shows what the suite found: a table for the terminal, JSON, and the README's tables.

A full run is kept in `docs/conformance.json` (what came of each scenario, no timings), and the
README's table is made from that file: the suite needs npm, which not everybody has who reads or tests.
Knows outcomes, columns and the file; runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from mrtr_options.conformance.columns import EXPECTED, Column
from mrtr_options.conformance.scenarios import CLIENT, MRTR, MRTR_PREFIX, SHARED, SUITE, TASKS
from mrtr_options.conformance.suite import ROOT, Outcome, Status
from mrtr_options.show.terminal import markdown as in_markdown

RESULTS = ROOT / "docs" / "conformance.json"

SECTIONS = {
    "multi-round": MRTR,
    "tasks": TASKS,
    "shared server": SHARED,
    "client": CLIENT,
}
"""The tables, each with its scenarios."""

NOT_CHECKED = (
    (
        "the handler ignores the answers",
        "asks for a result, not for what is in it",
        "clean-springfield bad-answer empty-answer",
    ),
    (
        "the state is plain text that anyone can write",
        "appends `-TAMPERED`, which any strict parser refuses",
        "forged garbage truncated",
    ),
    (
        "a state is good for another call, another user, for ever",
        "sends every state back where it came from, at once",
        "other-arguments other-principal expired",
    ),
    (
        "a no is taken for a yes, or asked again for ever",
        "accepts every question",
        "decline decline-with-content cancel",
    ),
    (
        "effects happen twice",
        "delivers every round once and looks at no effect",
        "lost-final duplicate-final concurrent-final",
    ),
    (
        "the call lives in one process",
        "talks to one server, which stays up",
        "failover restart crash-after-effect",
    ),
    (
        "an answer goes to a question that was changed meanwhile",
        "talks to one version of the code",
        "redeploy-reworded redeploy-schema",
    ),
    (
        "a client that cannot be asked gets a yes",
        "looks at the kinds that are asked, with one kind declared",
        "no-elicitation-tokyo no-elicitation-springfield",
    ),
)
"""What can be wrong in a server that passes, why the suite does not see it, and the slugs of the
schedules of the review that do."""

_SHOWN: dict[Status, tuple[str, str]] = {
    "pass": ("ok", "green"),
    "warn": ("warn", "yellow"),
    "fail": ("FAIL", "bold red"),
    "cannot": ("-", "dim"),
}


def short(scenario: str) -> str:
    """The scenario's name without what all of its table share."""
    return scenario.removeprefix(MRTR_PREFIX)


# --- the terminal -------------------------------------------------------------------------------


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Scenario by column, with the seconds that each took; a table for each section that was run."""
    cells = {(outcome.scenario, outcome.column): outcome for outcome in outcomes}
    names = list(dict.fromkeys(outcome.column for outcome in outcomes))
    shown: list[Table] = []
    for section, scenarios in SECTIONS.items():
        rows = [each for each in scenarios if any(outcome.scenario == each for outcome in outcomes)]
        columns = [name for name in names if any((each, name) in cells for each in rows)]
        if not rows:
            continue
        table = Table(
            "scenario", title=f"{section}, suite {SUITE}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        table.title_justify, table.title_style = "left", "bold"
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(short(row), *(_cell(cells.get((row, column))) for column in columns))
        of_column = {name: [o for o in outcomes if o.column == name] for name in columns}
        table.add_row("passed", *(_passed(of_column[name], rows) for name in columns))
        shown.append(table)
    return shown


def _cell(outcome: Outcome | None) -> Text:
    if outcome is None:
        return Text("")
    word, style = _SHOWN[outcome.status]
    seconds = "" if outcome.status == "cannot" else f" {outcome.seconds:.1f}"
    return Text(word, style) + Text(seconds, "dim")


def _passed(outcomes: Sequence[Outcome], rows: Sequence[str]) -> str:
    run = [each for each in outcomes if each.scenario in rows and each.status != "cannot"]
    good = sum(each.status != "fail" for each in run)
    return f"{good}/{len(run)}"


def remarks(outcomes: Iterable[Outcome]) -> list[str]:
    """What stands below the tables: each complaint by its check, and each reason for not running."""
    lines: list[str] = []
    for outcome in outcomes:
        where = f"{outcome.column} {short(outcome.scenario)}"
        if outcome.cannot is not None:
            lines.append(f"{where}: not expressed: {outcome.cannot}")
        for check, message in outcome.complaints.items():
            why = EXPECTED.get((outcome.column, outcome.scenario, check))
            said = f"as expected: {why}" if why else message
            lines.append(f"{where}: {check}, {said}")
    return lines


def as_json(outcomes: Iterable[Outcome], unexpected: Sequence[str]) -> dict[str, Any]:
    """All of it, for a program."""
    return {
        "suite": SUITE,
        "outcomes": [
            {
                "column": outcome.column,
                "scenario": outcome.scenario,
                "status": outcome.status,
                "seconds": round(outcome.seconds, 3),
                "checks": [check.model_dump(exclude_none=True) for check in outcome.checks],
                "complaints": outcome.complaints,
                "cannot": outcome.cannot,
            }
            for outcome in outcomes
        ],
        "unexpected": list(unexpected),
    }


# --- the file -----------------------------------------------------------------------------------


class Results(BaseModel):
    """What is kept of a full run.

    Attributes:
        suite: The suite's version.
        results: What came of each scenario, by column.
    """

    suite: str
    results: dict[str, dict[str, Status]]


def results_of(outcomes: Iterable[Outcome]) -> Results:
    """What is kept of these."""
    results: dict[str, dict[str, Status]] = {}
    for outcome in outcomes:
        results.setdefault(outcome.column, {})[outcome.scenario] = outcome.status
    return Results(suite=SUITE, results=results)


def write(results: Results, path: Path = RESULTS) -> None:
    """Keep them."""
    path.write_text(json.dumps(results.model_dump(), indent=2) + "\n", encoding="utf-8")


def read(path: Path = RESULTS) -> Results:
    """The last full run that was kept."""
    return Results.model_validate_json(path.read_bytes())


# --- the README ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Notes:
    """Numbered remarks under a table, each said once."""

    numbers: dict[str, int]

    def mark(self, remark: str) -> str:
        number = self.numbers.setdefault(remark, len(self.numbers) + 1)
        return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(number))


def markdown(results: Results, columns: Sequence[Column]) -> str:
    """The kept results as tables, with the reasons of what is not a plain pass."""
    notes = _Notes({})
    parts: list[str] = []
    for scenarios in SECTIONS.values():
        shown = [column for column in columns if set(column.scenarios) & set(scenarios)]
        if not shown:
            continue
        parts.append(_table(results.results, shown, scenarios, notes))
    remarks = [f"{notes.mark(remark)} {remark}" for remark in list(notes.numbers)]
    return "\n\n".join([*parts, "  \n".join(remarks)])


def _table(
    results: Mapping[str, Mapping[str, Status]],
    columns: Sequence[Column],
    scenarios: Sequence[str],
    notes: _Notes,
) -> str:
    lines: list[Sequence[str]] = []
    for scenario in scenarios:
        cells: list[str] = []
        for column in columns:
            status = results[column.name].get(scenario)
            remark = column.cannot.get(scenario) or "; ".join(
                why for (name, of, _), why in EXPECTED.items() if (name, of) == (column.name, scenario)
            )
            word = {"pass": "pass", "warn": "warned", "fail": "**fail**", "cannot": "–", None: ""}[
                status
            ]
            cells.append(word + (notes.mark(f"{column.name}: {remark}.") if remark else ""))
        lines.append((f"`{short(scenario)}`", *cells))
    totals: list[str] = []
    for column in columns:
        run = [results[column.name].get(scenario) for scenario in scenarios]
        run = [status for status in run if status not in (None, "cannot")]
        totals.append(f"{sum(status != 'fail' for status in run)} of {len(run)}")
    head = ("scenario", *(column.name for column in columns))
    return in_markdown(head, [*lines, ("passed", *totals)])


def blind_markdown() -> str:
    """What a green run does not check, as a table."""
    return in_markdown(
        ("a server passes where", "because the suite", "schedules that see it"),
        (
            (what, why, ", ".join(f"`{slug}`" for slug in slugs.split()))
            for what, why, slugs in NOT_CHECKED
        ),
    )
