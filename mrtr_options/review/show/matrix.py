"""The matrix as tables, Markdown or JSON. Knows the matrix and the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.deployments import offered
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.show import short
from mrtr_options.review.judge import matrix
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.guarantees import declared, guarantees_of, kept, undeclared
from mrtr_options.review.judge.reading import Observation, Verdict
from mrtr_options.terminal import console, in_colour, plural
from mrtr_options.terminal import markdown as in_markdown
from mrtr_options.tool.notation import LEGACY_SHIM, MARKS, SINGLE_USE

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
    f"{MARKS[SINGLE_USE]} inside the single-use guard   {MARKS[LEGACY_SHIM]} inside the legacy shim",
)


IN_WORDS = (
    "a number above 1 is an effect that was duplicated (above 2 in `crossed-states`, two calls)"
)
"""What the colours say, for a console that has none."""


def show(
    observations: Sequence[Observation],
    judged: Mapping[Subject, matrix.Broken],
    form: Literal["table", "json", "markdown"],
) -> None:
    """Print runs of the matrix, and which guarantees each column breaks in them."""
    if form == "json":
        print(json.dumps([seen.as_json() for seen in observations], ensure_ascii=False, indent=1))
    elif form == "markdown":
        print("\n\n".join(markdown(group) for group in _groups(observations)))
    else:
        out = console()
        for group in _groups(observations):
            out.print(_title(group))
            for table in _tables(group, out.width):
                out.print(table)
                out.print()
        for line in LEGEND:
            out.print(line)
        if in_colour(out):
            out.print(
                Text.assemble(*((f"{verdict}  ", colour) for verdict, colour in COLOURS.items()))
            )
        else:
            out.print(IN_WORDS)
        out.print()
        _print_guarantees(judged, observations)
    if form != "table":
        for column, lacks in judged.items():
            for line in matrix.broken_lines(column, lacks):
                console(stderr=True).print(line)


def _groups(observations: Sequence[Observation]) -> list[list[Observation]]:
    """The observations of one table each: one deployment and one era."""
    keys = dict.fromkeys((seen.deployment, seen.era) for seen in observations)
    return [[seen for seen in observations if (seen.deployment, seen.era) == key] for key in keys]


def heading(seen: Observation) -> str:
    """A column's letter, with the mark of what the option was put into."""
    return seen.option + "".join(MARKS.get(name, "+") for name in seen.wrappers)


def _rows(group: Sequence[Observation]) -> dict[str, list[Observation | None]]:
    """By schedule: what was seen in each column, in the columns' order; None where it is not
    played.
    """
    columns = list(dict.fromkeys(seen.subject for seen in group))
    rows: dict[str, dict[str, Observation]] = {}
    for seen in group:
        rows.setdefault(seen.schedule, {})[seen.subject] = seen
    return {slug: [row.get(column) for column in columns] for slug, row in rows.items()}


def _headings(group: Sequence[Observation]) -> list[str]:
    return list(dict.fromkeys(heading(seen) for seen in group))


def _title(group: Sequence[Observation]) -> str:
    return f"{group[0].era} client, {offered()[group[0].deployment].says}"


def _tables(group: Sequence[Observation], width: int) -> Iterator[Table]:
    """As many columns in a table as there is room for."""
    rows, headings = _rows(group), _headings(group)
    room = max(1, (width - max(map(len, rows)) - 1) // 4)
    for first in range(0, len(headings), room):
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("audit/bill", no_wrap=True)
        for heading in headings[first : first + room]:
            table.add_column(heading, justify="center", min_width=3)
        for slug, row in rows.items():
            cells = (Text(each.cell, COLOURS[each.verdict]) if each else "" for each in row)
            table.add_row(slug, *islice(cells, first, first + room))
        yield table


def markdown(group: Sequence[Observation]) -> str:
    """One table in Markdown; a duplicated effect stands out in bold."""
    rows = ((f"`{slug}`", *map(_bold, row)) for slug, row in _rows(group).items())
    return f"{_title(group)}:\n\n{in_markdown(('audit/bill', *_headings(group)), rows)}"


def _bold(seen: Observation | None) -> str:
    if seen is None:
        return ""
    return f"**{seen.cell}**" if seen.verdict == "duplicated" else seen.cell


def _print_guarantees(
    judged: Mapping[Subject, matrix.Broken], observations: Sequence[Observation]
) -> None:
    """What held, one line for all columns of which the same is to be said."""
    alike: dict[tuple[str, ...], list[Subject]] = {}
    for column, lacks in judged.items():
        alike.setdefault(tuple(_said(column, lacks, observations)), []).append(column)
    out = console()
    for (line, *more), columns in alike.items():
        out.print(f"{' '.join(short(each.name) for each in columns)}: {line}")
        for text in more:
            out.print(f"  {text}", style="red" if judged[columns[0]] else "dim")


def _said(
    column: Subject, lacks: matrix.Broken, observations: Sequence[Observation]
) -> Iterator[str]:
    own = guarantees_of(column)
    seen = [each for each in observations if each.subject == column.name]
    proven, more = (kept(seen, of(own), own) if own else [] for of in (declared, undeclared))
    held = [] if any(each.name in RULES for each, _ in lacks) else ["the contract"]
    if proven or not held:
        held.append(f"{plural(len(proven), 'guarantee')} of its own")
    yield f"{' and '.join(held)} held in these schedules{f', {len(lacks)} broken:' if lacks else ''}"
    yield from matrix.broken_lines(column, lacks)
    if more:
        yield f"keeps without guaranteeing it: {', '.join(each.name for each in more)}"
