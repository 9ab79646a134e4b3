"""The output of `explore`: for each subject the smallest sets of faults that show an anomaly.

Knows what was explored and the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.faults import describe_faults, in_words, names_of, parse
from mrtr_options.review.bench.scenario import Fleet
from mrtr_options.review.explore import not_tried_cell, not_tried_lines
from mrtr_options.review.explore.counterexamples import Explored, weakest_of
from mrtr_options.review.explore.never import CONDITIONS, NEVER, describe_lacking, never_in
from mrtr_options.review.judge.anomalies import ANOMALIES, listed
from mrtr_options.terminal import console, plural
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.notation import in_text, list_in_text

FLEETS: dict[Fleet, str] = {
    "one": "one instance",
    "sticky": "two instances, rounds go to the one that asked",
    "free": "two instances in turn",
}
NOT_SEEN = "not seen (≤ {})"
"""The text for an anomaly that no set of so many faults shows."""

Row = dict[str, Any]
"""A subject and a kind of client, as `--json` prints them."""

SHORT = 5
"""The most counterexamples of an anomaly that are printed besides the first; --json has all."""


def show(done: Sequence[Explored], form: Literal["text", "json", "markdown"]) -> None:
    """Print the results of explorations."""
    rows = with_never(found.as_json() for found in done)
    has_never = any(row["never"] for row in rows)
    if form == "json":
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    elif form == "markdown":
        print(markdown(rows), *([f"\n{CONDITIONS}"] if has_never else ()), sep="\n")
    else:
        for found, row in zip(done, rows, strict=True):
            _print(found, row["never"])
        for line in [CONDITIONS] if has_never else describe_lacking():
            console().print(line)


def with_never(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return rows with the anomalies that never happen, as `--json` prints them."""
    return [{**row, "never": never_in(row)} for row in rows]


def print_unclassified(done: Sequence[Explored]) -> int:
    """Print each run that breaks a rule though it shows no anomaly. Return 1 if there is one."""
    for found in done:
        for faults, what in found.unclassified.items():
            setup = found.scenario.setup
            client = f"the client {setup.client}, destination: {setup.destination}"
            where = f"{found.subject.title}, {client}, {names_of(faults) or 'no fault'}"
            print(f"unclassified violation: {where}: {what}", file=sys.stderr)
    return 1 if any(found.unclassified for found in done) else 0


@dataclass(frozen=True)
class Behaviour:
    """Subjects that no set of faults that was tried tells apart.

    Attributes:
        subjects: Their names.
        rows: The row of the first subject, by the client's policy. What never happens there never
            happens to any of them.
        histories: The number of runs of all subjects, by the client's policy.
    """

    subjects: tuple[str, ...]
    rows: Mapping[str, Row]
    histories: Mapping[str, int]

    @property
    def is_compared(self) -> bool:
        """Return whether every kind of fault was tried, as a comparison needs."""
        return not any(map(left_out, self.rows.values()))


def behaviours(rows: Sequence[Row]) -> list[Behaviour]:
    """Group subjects that show each anomaly under the same sets of faults, with each client."""
    by_subject: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_subject.setdefault(row["subject"], {})[row["policy"]] = row
    alike: dict[str, list[str]] = {}
    for subject, own in by_subject.items():
        alike.setdefault(json.dumps([*map(_told_in_table, own.values())]), []).append(subject)
    return [
        _joined(tuple(subjects), [by_subject[subject] for subject in subjects])
        for subjects in alike.values()
    ]


def _joined(subjects: tuple[str, ...], rows: Sequence[Mapping[str, Row]]) -> Behaviour:
    """Return the behaviour of subjects whose rows, by the client's policy, are alike."""
    joined: dict[str, Row] = {}
    histories: dict[str, int] = {}
    for policy, first in rows[0].items():
        own = [each[policy] for each in rows]
        never = set[str](first["never"]).intersection(*(each["never"] for each in own))
        joined[policy] = first | {"never": sorted(never)}
        histories[policy] = sum(each["histories"] for each in own)
    return Behaviour(subjects, joined, histories)


def _told_in_table(row: Row) -> dict[str, Any]:
    """Return what the runs of a row showed, without its subject."""
    other = {name: row[name] for name in row if name not in ("subject", "histories", "never")}
    return other | {"witnesses": {name: sorted(sets) for name, sets in row["witnesses"].items()}}


def left_out(row: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the kinds of faults that were not tried in a row, with the reasons."""
    return row.get("not_tried", {})


def _print(found: Explored, never: Sequence[str]) -> None:
    out = console()
    setup = found.scenario.setup
    where = f"{found.scenario.location}, {setup.era}; {FLEETS[setup.fleet]}"
    who = f"the client {setup.client}; the destination: {setup.destination}"
    out.print(Text.assemble((found.subject.title, "bold"), f": {where}; {who}"))
    lines: list[tuple[str, str, str]] = []
    for anomaly in ANOMALIES:
        sets = [names_of(faults) for faults in found.counterexamples.get(anomaly.name, ())]
        if sets:
            first = weakest_of(sets)
            others = [each for each in sets if each != first]
            says = describe_faults(parse(first))
            if others:
                says += f"; also {' | '.join(others[:SHORT])}"
            if len(others) > SHORT:
                says += f" and {len(others) - SHORT} more"
            lines.append((anomaly.name, "red", says))
    left = [each.name for each in ANOMALIES if each.name not in found.counterexamples]
    unseen = [name for name in left if name not in never]
    label = not_tried_cell(found.not_tried) if found.not_tried else NOT_SEEN.format(found.bound)
    lines.append((label, "", listed(unseen) or "no other anomaly"))
    if never:
        lines.append((NEVER, "green", listed(name for name in left if name in never)))
    runs = plural(found.histories, "run")
    out.print(Padding(_build_grid(lines), (0, 0, 0, 2), expand=False))
    for line in (runs, *not_tried_lines(found.not_tried)):
        out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    out.print()


def _build_grid(lines: Iterable[tuple[str, str, str]]) -> Table:
    """Return a table of lines: a label, its style, and a text."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for label, style, text in lines:
        grid.add_row(Text(label, style), text)
    return grid


def markdown(rows: Sequence[Row]) -> str:
    """Write a table for each destination, under its name where there are several."""
    destinations = dict.fromkeys(row["destination"] for row in rows)
    tables: list[str] = []
    for destination in destinations:
        if len(destinations) > 1:
            tables.append(f"Destination: {destination}")
        there = [row for row in rows if row["destination"] == destination]
        tables.append(_write_table(there))
    return "\n\n".join([*tables, *not_tried_in(rows), *describe_lacking()])


def _write_table(rows: Sequence[Row]) -> str:
    """Write a table: for each behaviour a row for each client, a column for each shown anomaly."""
    shown = [each.name for each in ANOMALIES if any(each.name in row["witnesses"] for row in rows)]
    cells = (
        (
            list_in_text(behaviour.subjects),
            policy,
            *(weakest(row, anomaly) for anomaly in shown),
            f"{behaviour.histories[policy]:,}",
        )
        for behaviour in behaviours(rows)
        for policy, row in behaviour.rows.items()
    )
    head = ("options", "client", *shown, "runs")
    return table(head, cells)


def not_tried_in(rows: Sequence[Row]) -> list[str]:
    """Write a line for each subject and each reason why its runs leave kinds of faults out."""
    lines = (
        line for row in rows for line in not_tried_lines(left_out(row), in_text(row["subject"]))
    )
    return [*dict.fromkeys(lines)]


def weakest(row: Mapping[str, Any], anomaly: str, never: str = NEVER) -> str:
    """Write the cell of an anomaly: the least that has to go wrong for it.

    Without a counterexample it is "not seen" only if every kind of fault was tried.
    """
    sets = row["witnesses"].get(anomaly)
    if sets:
        least = weakest_of(sets)
        return in_words(parse(least), row["location"]) + (f" (`{least}`)" if least else "")
    if anomaly in row["never"]:
        return never
    kinds = left_out(row)
    return not_tried_cell(kinds) if kinds else NOT_SEEN.format(row["bound"])
