"""The matrix as tables, Markdown or JSON. Knows the matrix and the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.deployments import offered
from mrtr_options.review.bench.setup import Era
from mrtr_options.review.bench.subjects import Subject, all_subjects
from mrtr_options.review.explore.summary import NOT_TRIED
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.guarantees import declared, find_kept, guarantees_of, undeclared
from mrtr_options.review.judge.observation import Observation, Verdict
from mrtr_options.review.judge.properties import Property
from mrtr_options.terminal import console, in_colour, plural
from mrtr_options.terminal import markdown as in_markdown
from mrtr_options.tool.notation import in_text, list_in_text

COLOURS: dict[Verdict, str] = {
    "once": "green",
    "missing": "cyan",
    "duplicated": "bold red",
    "refused": "yellow",
    "lost": "magenta",
}
LEGEND = (
    "a/b: the call ended with a text, a audits and b bills; ref: refused with an error code; "
    "can: the task was cancelled; ---: the client got no result; ...: no response at all",
)


IN_WORDS = (
    "a number above 1 is an effect that was duplicated (above 2 in `crossed-states`, two calls)"
)
"""The meaning of the colours, for a console that has none."""


def show(
    observations: Sequence[Observation],
    judged: Mapping[Subject, grid.Broken],
    form: Literal["table", "json", "markdown"],
    missing: Sequence[grid.Cell] = (),
) -> None:
    """Print runs of the matrix, and which guarantees each column breaks in them.

    Args:
        observations: The runs.
        judged: The guarantees that each column breaks.
        form: The form in which they are printed.
        missing: The runs that were not tried.
    """
    if form == "json":
        found = [seen.as_json() for seen in observations] + [cell.as_json() for cell in missing]
        print(json.dumps(found, ensure_ascii=False, indent=1))
    elif form == "markdown":
        print("\n\n".join(map(_write_table, _group_cells(observations, missing))))
        for line in _describe_left_out(missing):
            print(f"\n{line}")
    else:
        _print(observations, missing)
        _print_guarantees(judged, observations)
    if form != "table":
        for column, lacks in judged.items():
            for line in grid.describe_broken(column, lacks):
                console(stderr=True).print(line)


def _print(observations: Sequence[Observation], missing: Sequence[grid.Cell]) -> None:
    out = console()
    for group in _group_cells(observations, missing):
        out.print(_title_of(group))
        for table in _build_tables(group, out.width):
            out.print(table)
            out.print()
    for line in (*LEGEND, *_describe_left_out(missing)):
        out.print(line)
    if in_colour(out):
        out.print(Text.assemble(*((f"{verdict}  ", colour) for verdict, colour in COLOURS.items())))
    else:
        out.print(IN_WORDS)
    out.print()


@dataclass(frozen=True)
class _TableCell:
    """A cell of a table.

    Attributes:
        deployment, era, schedule: The run.
        subject: The name of the subject.
        heading: The heading of its column.
        text: The text of the cell.
        verdict: The verdict on the effects; None for a run that was not tried.
    """

    deployment: str
    era: Era
    schedule: str
    subject: str
    heading: str
    text: str
    verdict: Verdict | None


def _cell_of_run(seen: Observation) -> _TableCell:
    where = seen.deployment, seen.era, seen.schedule
    return _TableCell(*where, seen.subject, in_text(seen.subject), seen.cell, seen.verdict)


def _cell_not_tried(cell: grid.Cell) -> _TableCell:
    subject = cell.subject
    scenario = cell.scenario
    where = cell.deployment, scenario.setup.era, scenario.name
    return _TableCell(*where, subject.name, in_text(subject.name), NOT_TRIED, None)


def _group_cells(
    observations: Sequence[Observation], missing: Sequence[grid.Cell]
) -> list[list[_TableCell]]:
    """Return the cells of each table: one deployment and one era."""
    cells = [*map(_cell_of_run, observations), *map(_cell_not_tried, missing)]
    keys = dict.fromkeys((each.deployment, each.era) for each in cells)
    return [[each for each in cells if (each.deployment, each.era) == key] for key in keys]


def _headings_of(group: Sequence[_TableCell]) -> dict[str, str]:
    """Return the heading of each subject, in the order of all subjects."""
    order = {subject.name: place for place, subject in enumerate(all_subjects())}
    found = {each.subject: each.heading for each in group}
    return {name: found[name] for name in sorted(found, key=lambda name: order.get(name, 99))}


def _rows_of(group: Sequence[_TableCell]) -> dict[str, list[_TableCell | None]]:
    """Return the cells of each schedule, by column; None if the schedule does not apply."""
    rows: dict[str, dict[str, _TableCell]] = {}
    for each in group:
        rows.setdefault(each.schedule, {})[each.subject] = each
    columns = _headings_of(group)
    return {slug: [row.get(column) for column in columns] for slug, row in rows.items()}


def _title_of(group: Sequence[_TableCell]) -> str:
    return f"{group[0].era} client, {offered()[group[0].deployment].says}"


def _build_tables(group: Sequence[_TableCell], width: int) -> Iterator[Table]:
    """Yield tables, each with as many columns as there is room for."""
    rows = _rows_of(group)
    headings = [*_headings_of(group).values()]
    first = 0
    while first < len(headings):
        last = first
        room = width - max(map(len, rows)) - 1
        while last < len(headings):
            room -= _width_of(headings, rows, last) + 1
            if room < 0 and last > first:
                break
            last += 1
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("audit/bill", no_wrap=True)
        for column in range(first, last):
            width = _width_of(headings, rows, column)
            table.add_column(headings[column], justify="center", width=width)
        for slug, row in rows.items():
            table.add_row(slug, *map(_colour_cell, row[first:last]))
        yield table
        first = last


def _width_of(
    headings: Sequence[str], rows: Mapping[str, Sequence[_TableCell | None]], column: int
) -> int:
    """Return the width of a column, whose heading may be broken between words."""
    cells = (row[column] for row in rows.values())
    texts = [*headings[column].split(), *(each.text for each in cells if each is not None)]
    return max(3, *map(len, texts))


def _colour_cell(each: _TableCell | None) -> Text:
    if each is None:
        return Text("")
    return Text(each.text, COLOURS[each.verdict] if each.verdict else "")


def markdown(group: Sequence[Observation], missing: Sequence[grid.Cell] = ()) -> str:
    """Write the runs of one deployment and one era as a table in Markdown.

    A duplicated effect stands out in bold.
    """
    (cells,) = _group_cells(group, missing)
    return _write_table(cells)


def _write_table(group: Sequence[_TableCell]) -> str:
    rows = ((f"`{slug}`", *map(_mark_cell, row)) for slug, row in _rows_of(group).items())
    head = ("audit/bill", *_headings_of(group).values())
    return f"{_title_of(group)}:\n\n{in_markdown(head, rows)}"


def _mark_cell(each: _TableCell | None) -> str:
    if each is None:
        return ""
    return f"**{each.text}**" if each.verdict == "duplicated" else each.text


def _describe_left_out(missing: Sequence[grid.Cell]) -> list[str]:
    """Return a line for each reason why runs were not tried."""
    by_reason: dict[str, dict[str, None]] = {}
    for cell in missing:
        by_reason.setdefault(cell.missing, {})[cell.scenario.name] = None
    return [f"{NOT_TRIED}: {', '.join(slugs)} ({why})" for why, slugs in by_reason.items()]


def _print_guarantees(
    judged: Mapping[Subject, grid.Broken], observations: Sequence[Observation]
) -> None:
    """Print the guarantees that held, in one line for all columns with the same ones."""
    alike: dict[tuple[str, ...], list[Subject]] = {}
    for column, lacks in judged.items():
        lines = tuple(_describe_guarantees(column, lacks, observations))
        alike.setdefault(lines, []).append(column)
    out = console()
    for (line, *more), columns in alike.items():
        out.print(f"{list_in_text(each.name for each in columns)}: {line}")
        for text in more:
            out.print(f"  {text}", style="red" if judged[columns[0]] else "dim")


def _describe_guarantees(
    column: Subject, lacks: grid.Broken, observations: Sequence[Observation]
) -> Iterator[str]:
    own = guarantees_of(column)
    seen = [each for each in observations if each.subject == column.name]
    if not seen:
        yield f"{NOT_TRIED} in these schedules"
        return
    proven: list[Property] = []
    more: list[Property] = []
    if own is not None:
        proven = find_kept(seen, declared(own), own)
        more = find_kept(seen, undeclared(own), own)
    held = [] if any(each.name in RULES for each, _ in lacks) else ["the contract"]
    if proven or not held:
        held.append(f"{plural(len(proven), 'guarantee')} of its own")
    broken = f", {len(lacks)} broken:" if lacks else ""
    yield f"{' and '.join(held)} held in these schedules{broken}"
    yield from grid.describe_broken(column, lacks)
    if more:
        yield f"keeps without guaranteeing it: {', '.join(each.name for each in more)}"
