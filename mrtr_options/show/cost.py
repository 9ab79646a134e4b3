"""The command `cost`: measure everything, and print it as tables, as Markdown, or as JSON.

Knows the report and the targets; each table says what its baseline is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from rich.table import Table as RichTable

from mrtr_options.bench.deployments import quiet_servers
from mrtr_options.cost.growth import ANSWER_CHARACTERS, QUESTIONS_OF_LONG_ANSWERS
from mrtr_options.cost.report import Report, as_json, measure
from mrtr_options.cost.targets import targets
from mrtr_options.cost.timing import Row, Value
from mrtr_options.show.progress import progress
from mrtr_options.show.terminal import console, markdown
from mrtr_options.tool.catalogue import Option

Form = Literal["table", "markdown", "json"]


@dataclass(frozen=True)
class Table:
    """One table, before it is known how it is printed.

    Attributes:
        title: What it shows.
        note: What the figures are ratios of, and how they are to be read.
        head: The columns' names; the first column names the row.
        rows: The cells.
    """

    title: str
    note: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class View:
    """How a measurement is shown.

    Attributes:
        measurement: Its name in the report.
        title, note: As in `Table`.
        columns: The columns' names, with the figure and its format; without one, a spread has its middle
            half.
        by: A condition that the last column is repeated for, with a column for each of its values.
        where: Which rows.
    """

    measurement: str
    title: str
    note: str
    columns: tuple[tuple[str, str, str], ...]
    by: str | None = None
    where: Callable[[Row], bool] = lambda row: True


def _short(row: Row) -> bool:
    return row["answer_characters"] == ANSWER_CHARACTERS[0]


_OPTION = ("option", "option", "")
_ON = (("database", "database", ""), _OPTION)
_P50, _P95, _P99 = (("p50 ms", "p50", ".1f"), ("p95 ms", "p95", ".1f"), ("p99 ms", "p99", ".1f"))
_TO_I = "I is the SDK's resolver: what users have today. L, on SQLite, has turns of its own, without it."
_GENERATED = "One generated tool; each question depends on the answer before it."

VIEWS = (
    View(
        "calls",
        "one call with one question, in memory",
        "floor: the tool by hand with nothing but the SDK, its state sealed; server: the same handler on"
        " the server that all options share. I is the SDK's resolver."
        " Ratios are medians, with their middle half.",
        (
            _OPTION,
            ("ms", "milliseconds", ".2f"),
            ("to the floor", "ratio", ""),
            ("processor time to the floor", "cpu_ratio", ""),
            ("to I", "resolver_ratio", ""),
        ),
    ),
    *(
        View(
            "questions", f"{what}, by its questions, in memory", note, (_OPTION, ("", figure, ".2f")), by
        )
        for what, figure, note, by in (
            ("milliseconds of one call", "milliseconds", f"{_GENERATED} L on SQLite.", "questions"),
            ("one call to the floor", "ratio", _GENERATED, "questions"),
            ("one call to I", "resolver_ratio", _TO_I, "questions"),
        )
    ),
    View(
        "http",
        "over HTTP, several callers at once, one worker",
        "Calls with one question, which is two requests. Time is to the floor's.",
        (
            _OPTION,
            ("callers", "callers", ""),
            ("calls/s", "calls_per_second", ".0f"),
            ("time to the floor", "ratio", ""),
            *(_P50, _P95, _P99),
        ),
    ),
    *(
        View("growth", title, note, (_OPTION, ("", figure, ",")), "questions", _short)
        for figure, title, note in (
            (
                "lines",
                "lines of the author's that one call executes, by questions",
                "Suspended (H): linear. Replayed (J): quadratic. I's resolvers are one line each"
                " here, and all of them run again in every round.",
            ),
            (
                "entries",
                "how often one call enters a function of the author's, by questions",
                "The handler, or each step and each resolver.",
            ),
            (
                "total_state_bytes",
                "bytes of state on the wire in one call, by questions",
                f"Out and back, all rounds; answers of {ANSWER_CHARACTERS[0]} characters.",
            ),
        )
    ),
    View(
        "growth",
        "bytes of state per round, by the length of the answers",
        "As the client carries it, sealed. Except in H, an answer travels in every round after it.",
        (
            _OPTION,
            ("questions", "questions", ""),
            ("characters", "answer_characters", ""),
            ("rounds", "states", ""),
            ("out and back", "total_state_bytes", ","),
        ),
        where=lambda row: row["questions"] == QUESTIONS_OF_LONG_ANSWERS,
    ),
    View(
        "parked",
        "parked calls of H",
        "Times are microseconds, each beside its ratio to a store of 1,000 calls. A bare task waits on a"
        " future; the other baseline is a task with two memory object streams.",
        (
            ("calls", "calls", ","),
            ("bytes each", "call_bytes", ",.0f"),
            ("to a task", "to_task", ".2f"),
            ("to streams", "to_streams", ".2f"),
            *(("park", "park", ".1f"), ("ratio", "park_ratio", ".2f")),
            *(("resume", "resume", ".1f"), ("ratio", "resume_ratio", ".2f")),
            *(("evict", "evict", ".1f"), ("ratio", "evict_ratio", ".2f")),
        ),
    ),
    View(
        "parked_through_server",
        "a parked call through the whole server",
        "To hold against the bytes of one in the store alone.",
        (_OPTION, ("bytes", "call_bytes", ",.0f")),
    ),
    View(
        "rounds",
        "one round, in memory, on a database",
        "raw: the same tool by hand on the engine (DBOS), its state sealed. H keeps no database.",
        (*_ON, _P50, _P95, _P99, ("to raw", "ratio", "")),
    ),
    View(
        "ramp",
        "calls at once, on a database",
        "The queue grows where more callers bring no more calls per second.",
        (
            *_ON,
            ("callers", "callers", ""),
            ("calls/s", "calls_per_second", ".0f"),
            ("to one caller", "ratio", ".2f"),
            *(_P50, _P95),
        ),
    ),
    View(
        "kept",
        "what the database keeps of a parked call",
        "On disk, with indexes.",
        (*_ON, ("rows", "rows", ".1f"), ("bytes", "bytes", ",.0f")),
    ),
    View(
        "guards",
        "the single-use guard around E",
        "To E without a guard; a call has one round that the guard has to look at.",
        (
            ("store", "store", ""),
            ("ms added to that round", "added_milliseconds", ""),
            ("call to one without", "ratio", ""),
        ),
    ),
    View(
        "sizes",
        "lines of code",
        "What the author types, of that what differs from E, and what an SDK would have to ship.",
        (
            _OPTION,
            ("author", "author_lines", ""),
            ("against E", "changed_lines", ""),
            ("stand-in", "stand_in_lines", ""),
            ("its modules", "stand_ins", ""),
            ("to install", "dependencies", ""),
        ),
    ),
)


def show(options: Sequence[Option], *, form: Form, database: str | None = None) -> int:
    """Measure and print. Returns 0, also where a target is missed.

    Args:
        options: Which options.
        form: How to print.
        database: See `report.measure`.
    """
    with quiet_servers(), progress(quiet=form == "json") as bar:
        report = measure(options, database, bar)
    if form == "json":
        held = [{**asdict(each), "met": each.met} for each in targets(report)]
        print(json.dumps({"targets": held, **as_json(report)}, indent=1))
        return 0
    for table in tables(report):
        if form == "markdown":
            print(f"**{table.title}**\n\n{markdown(table.head, table.rows)}\n\n{table.note}\n")
        else:
            print_table(table)
    for line in report.left_out:
        print(f"not measured: {line}")
    return 0


def tables(report: Report) -> Iterator[Table]:
    """Everything, in tables."""
    for view in VIEWS:
        rows = [row for row in report.rows[view.measurement] if view.where(row)]
        if rows:
            yield table_of(view, rows)
    head = ("figure", "target", "measured", "")
    cells = [
        (each.name, each.says, f"{each.measured:.3f}", "met" if each.met else "missed")
        for each in targets(report)
    ]
    yield Table("targets", "Medians of this run.", head, cells)


def table_of(view: View, rows: Sequence[Row]) -> Table:
    """These rows as a table."""
    heads = tuple(head for head, _, _ in view.columns)
    if view.by is None:
        cells = [tuple(_cell(row[name], spec) for _, name, spec in view.columns) for row in rows]
        return Table(view.title, view.note, heads, cells)
    *_, (_, figure, spec) = view.columns
    counts = list(dict.fromkeys(row.number(view.by) for row in rows))
    found = {(row.subject, row.number(view.by)): _cell(row[figure], spec) for row in rows}
    cells = [
        (subject, *(found.get((subject, count), "") for count in counts))
        for subject in dict.fromkeys(row.subject for row in rows)
    ]
    return Table(view.title, view.note, (heads[0], *map(str, counts)), cells)


def _cell(value: Value, spec: str) -> str:
    match value:
        case None:
            return ""
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return format(value, spec)


def print_table(table: Table) -> None:
    """Print a table for the terminal, under its title and above its note."""
    out = console()
    made = RichTable(box=None)
    for number, heading in enumerate(table.head):
        made.add_column(heading, justify="right" if number else "left")
    for row in table.rows:
        made.add_row(*row)
    out.print(table.title, style="bold")
    out.print(made)
    out.print(f"{table.note}\n")
