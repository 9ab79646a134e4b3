"""The matrix as tables, Markdown or JSON. Knows the matrix and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.deployments import offered
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.subjects import Subject, all_subjects
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.guarantees import (
    Broken,
    declared,
    find_kept,
    guarantees_of,
    undeclared,
)
from mrtr_options.review.judge.observation import Observation, Verdict
from mrtr_options.review.judge.properties import Property
from mrtr_options.terminal import console, in_colour, plural, print_json
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
    "can: the task was cancelled; ---: the client got no result; ...: no response at all"
)


IN_WORDS = (
    "a number above 1 is an effect that was duplicated (above 2 in `crossed-states`, two calls)"
)
"""The meaning of the colours, for a console that has none."""


def build_table(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Return a table without lines, whose cells go on in the next line where they are too long."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in head:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def show(
    observations: Sequence[Observation],
    judged: Mapping[Subject, Broken],
    form: Literal["text", "json", "markdown"],
    missing: Sequence[grid.Cell] = (),
) -> None:
    """Print runs of the matrix, and the rules and guarantees that each column breaks in them.

    Args:
        observations: The runs.
        judged: The rules and guarantees that each column breaks.
        form: The form in which they are printed.
        missing: The runs that were not tried.
    """
    if form == "json":
        found = [seen.as_json() for seen in observations] + [cell.as_json() for cell in missing]
        print_json(found)
    elif form == "markdown":
        print(markdown(observations, missing))
        for line in _describe_left_out(missing):
            print(f"\n{line}")
    else:
        _print(observations, missing)
        _print_properties(judged, observations)
    if form != "text":
        for column, lacks in judged.items():
            for line in grid.describe_broken(column, lacks):
                console(stderr=True).print(line)


def _print(observations: Sequence[Observation], missing: Sequence[grid.Cell]) -> None:
    out = console()
    for where, rows in _group_runs(observations, missing).items():
        out.print(_title_of(*where))
        for table in _build_tables(rows, out.width):
            out.print(table)
            out.print()
    for line in (LEGEND, *_describe_left_out(missing)):
        out.print(line)
    if in_colour(out):
        out.print(Text.assemble(*((f"{verdict}  ", colour) for verdict, colour in COLOURS.items())))
    else:
        out.print(IN_WORDS)
    out.print()


Row = Mapping[str, Observation | None]
"""The runs of one schedule, by subject; None for a run that was not tried."""

Rows = Mapping[str, Row]
"""The runs of one table, by schedule."""


def _group_runs(
    observations: Sequence[Observation], missing: Sequence[grid.Cell]
) -> Mapping[tuple[str, Era], Rows]:
    """Return the rows of each table: one deployment and one era."""
    found: dict[tuple[str, Era], dict[str, dict[str, Observation | None]]] = {}
    for seen in observations:
        rows = found.setdefault((seen.deployment, seen.era), {})
        rows.setdefault(seen.schedule, {})[seen.subject] = seen
    for cell in missing:
        rows = found.setdefault((cell.deployment, cell.scenario.setup.era), {})
        rows.setdefault(cell.scenario.name, {})[cell.subject.name] = None
    return found


def _columns_of(rows: Rows) -> list[str]:
    """Return the subjects of a table, in the order of all subjects."""
    order = {subject.name: place for place, subject in enumerate(all_subjects())}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    return sorted(names, key=lambda name: order.get(name, len(order)))


def _title_of(deployment: str, era: Era) -> str:
    return f"{era} client, {offered()[deployment].says}"


def _text_of(row: Row, name: str) -> str:
    """Return a cell; it is empty if the schedule does not apply to the subject."""
    if name not in row:
        return ""
    seen = row[name]
    return NOT_TRIED if seen is None else seen.cell


def _build_tables(rows: Rows, width: int) -> Iterator[Table]:
    """Yield tables, each with as many columns as there is room for.

    A heading may be broken between words.
    """
    widths = {
        name: max(
            3, *map(len, (*in_text(name).split(), *(_text_of(row, name) for row in rows.values())))
        )
        for name in _columns_of(rows)
    }
    room = left = width - max(map(len, rows)) - 1
    parts: list[list[str]] = [[]]
    for name, needed in widths.items():
        if needed + 1 > left and parts[-1]:
            parts.append([])
            left = room
        parts[-1].append(name)
        left -= needed + 1
    for names in parts:
        table = Table(box=None, padding=(0, 1, 0, 0))
        table.add_column("audit/bill", no_wrap=True)
        for name in names:
            table.add_column(in_text(name), justify="center", width=widths[name])
        for slug, row in rows.items():
            table.add_row(slug, *(_colour_cell(row, name) for name in names))
        yield table


def _colour_cell(row: Row, name: str) -> Text:
    seen = row.get(name)
    return Text(_text_of(row, name), COLOURS[seen.verdict] if seen else "")


def markdown(group: Sequence[Observation], missing: Sequence[grid.Cell] = ()) -> str:
    """Write the runs of each deployment and era as a table in Markdown.

    A duplicated effect stands out in bold.
    """
    return "\n\n".join(
        _write_table(*where, rows) for where, rows in _group_runs(group, missing).items()
    )


def _write_table(deployment: str, era: Era, rows: Rows) -> str:
    columns = _columns_of(rows)
    lines = (
        (f"`{slug}`", *(_mark_cell(row, name) for name in columns)) for slug, row in rows.items()
    )
    table = in_markdown(("audit/bill", *map(in_text, columns)), lines)
    return f"{_title_of(deployment, era)}:\n\n{table}"


def _mark_cell(row: Row, name: str) -> str:
    text = _text_of(row, name)
    seen = row.get(name)
    return f"**{text}**" if seen and seen.verdict == "duplicated" else text


def _describe_left_out(missing: Sequence[grid.Cell]) -> list[str]:
    """Return a line for each reason why runs were not tried."""
    by_reason: dict[str, dict[str, None]] = {}
    for cell in missing:
        by_reason.setdefault(cell.missing, {})[cell.scenario.name] = None
    return [f"{NOT_TRIED}: {', '.join(slugs)} ({why})" for why, slugs in by_reason.items()]


def _print_properties(
    judged: Mapping[Subject, Broken], observations: Sequence[Observation]
) -> None:
    """Print the rules and guarantees that held, in one line for all columns that are alike."""
    alike: dict[tuple[str, ...], list[Subject]] = {}
    for column, lacks in judged.items():
        lines = tuple(_describe_properties(column, lacks, observations))
        alike.setdefault(lines, []).append(column)
    out = console()
    for (line, *more), columns in alike.items():
        out.print(f"{list_in_text(each.name for each in columns)}: {line}")
        for text in more:
            out.print(f"  {text}", style="red" if judged[columns[0]] else "dim")


def _describe_properties(
    column: Subject, lacks: Broken, observations: Sequence[Observation]
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
    nouns = Counter(each.noun for each, _ in lacks)
    counted = " and ".join(plural(number, noun) for noun, number in nouns.items())
    broken = f", {counted} broken:" if lacks else ""
    yield f"{' and '.join(held)} held in these schedules{broken}"
    yield from grid.describe_broken(column, lacks)
    if more:
        yield f"keeps without guaranteeing it: {', '.join(each.name for each in more)}"
