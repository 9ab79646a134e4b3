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
from mrtr_options.cost.growth import Growth
from mrtr_options.cost.report import Report, measure
from mrtr_options.cost.targets import Target, targets
from mrtr_options.show.progress import progress
from mrtr_options.show.terminal import console
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
        print(json.dumps(as_json(report), indent=1))
        return 0
    out = console()
    for table in tables(report):
        if form == "markdown":
            print(markdown(table))
            print(f"{table.note}\n")
        else:
            out.print(_rich(table))
            out.print(f"{table.note}\n")
    for line in report.left_out:
        print(f"not measured: {line}")
    return 0


def as_json(report: Report) -> dict[str, object]:
    """Every figure, and the targets."""
    return {
        "targets": [_target(each) for each in targets(report)],
        "calls": [asdict(each) for each in report.calls],
        "questions": [asdict(each) for each in report.questions],
        "http": [asdict(each) for each in report.http],
        "growth": [
            {**asdict(each), "total_state_bytes": each.total_state_bytes} for each in report.growth
        ],
        "parked": [
            {**asdict(each), "to_task": each.to_task, "to_streams": each.to_streams}
            for each in report.parked
        ],
        "parked_through_server_bytes": report.parked_through_server,
        "guards": [asdict(each) for each in report.guards],
        "rounds": [asdict(each) for each in report.rounds],
        "ramp": [asdict(each) for each in report.ramp],
        "kept": [asdict(each) for each in report.kept],
        "sizes": [asdict(each) for each in report.sizes],
        "left_out": report.left_out,
    }


def _target(each: Target) -> dict[str, object]:
    return {**asdict(each), "met": each.met}


def tables(report: Report) -> Iterator[Table]:
    """Everything, in tables."""
    yield _calls(report)
    yield _questions(report)
    yield from _http(report)
    yield from _growth(report)
    yield _parked(report)
    if report.rounds:
        yield from _databases(report)
    yield _guards(report)
    yield _sizes(report)
    yield _targets(report)


def _calls(report: Report) -> Table:
    rows = [
        (
            each.option,
            f"{each.milliseconds.median:.2f}",
            str(each.ratio),
            str(each.cpu_ratio),
            "" if each.resolver_ratio is None else str(each.resolver_ratio),
        )
        for each in report.calls
    ]
    return Table(
        "one call with one question, in memory",
        "floor: the tool by hand with nothing but the SDK, its state sealed; server: the same handler on"
        " the server that all options share. I is the SDK's resolver."
        " Ratios are medians, with their middle half.",
        ("option", "ms", "to the floor", "processor time to the floor", "to I"),
        rows,
    )


def _questions(report: Report) -> Table:
    counts = sorted({each.questions for each in report.questions})
    cost = {(each.option, each.questions): each for each in report.questions}
    rows: list[tuple[str, ...]] = []
    for option in dict.fromkeys(each.option for each in report.questions):
        own = [cost[option, count] for count in counts]
        to_resolver = own[-1].resolver_ratio
        rows.append(
            (
                option,
                *(f"{each.milliseconds.median:.2f}" for each in own),
                *(f"{each.ratio.median:.2f}" for each in own),
                "" if to_resolver is None else f"{to_resolver.median:.2f}",
            )
        )
    return Table(
        "one call by the number of its questions, in memory",
        "One generated tool; each question depends on the answer before it. L on SQLite.",
        (
            "option",
            *(f"{count}: ms" for count in counts),
            *(f"{count}: to the floor" for count in counts),
            f"{counts[-1]}: to I",
        ),
        rows,
    )


def _http(report: Report) -> Iterator[Table]:
    for callers in dict.fromkeys(each.callers for each in report.http):
        rows = [
            (
                each.option,
                f"{each.calls_per_second:.0f}",
                str(each.ratio),
                *(f"{value:.1f}" for value in (each.p50, each.p95, each.p99)),
            )
            for each in report.http
            if each.callers == callers
        ]
        yield Table(
            f"over HTTP, {callers} at once, one worker",
            "Calls with one question, which is two requests. Time is to the floor's.",
            ("option", "calls/s", "time to the floor", "p50 ms", "p95 ms", "p99 ms"),
            rows,
        )


def _growth(report: Report) -> Iterator[Table]:
    shortest = min(each.answer_characters for each in report.growth)
    short = [each for each in report.growth if each.answer_characters == shortest]
    counts = sorted({each.questions for each in short})
    options = list(dict.fromkeys(each.option for each in short))
    found = {(each.option, each.questions): each for each in short}
    cells: tuple[tuple[str, str, Callable[[Growth], str]], ...] = (
        (
            "lines of the author's that one call executes, by questions",
            "Suspended (H): a straight line. Replayed (J): with the square. I's resolvers are one line"
            " each here, and all of them run again in every round.",
            lambda one: str(one.lines),
        ),
        (
            "how often one call enters a function of the author's, by questions",
            "The handler, or each step and each resolver.",
            lambda one: str(one.entries),
        ),
        (
            "bytes of state on the wire in one call, by questions",
            f"Out and back, all rounds; answers of {shortest} characters.",
            lambda one: f"{one.total_state_bytes:,}",
        ),
    )
    for title, note, cell in cells:
        rows = [(name, *(cell(found[name, count]) for count in counts)) for name in options]
        yield Table(title, note, ("option", *map(str, counts)), rows)
    rows = [
        (
            each.option,
            str(each.questions),
            str(each.answer_characters),
            ", ".join(map(str, each.states)),
            f"{each.total_state_bytes:,}",
        )
        for each in report.growth
        if each.answer_characters > shortest or each.questions == 3
    ]
    yield Table(
        "bytes of state per round, by the length of the answers",
        "As the client carries it, sealed. What was answered travels in every round that comes after it,"
        " but for H.",
        ("option", "questions", "characters", "rounds", "out and back"),
        rows,
    )


def _parked(report: Report) -> Table:
    rows = [
        (
            f"{each.calls:,}",
            f"{each.call_bytes:,.0f}",
            f"{each.to_task:.2f}",
            f"{each.to_streams:.2f}",
            *(
                f"{micro:.1f} ({to_small:.2f})"
                for micro, to_small in (
                    (each.park.median, each.park_ratio.median),
                    (each.resume.median, each.resume_ratio.median),
                    (each.evict.median, each.evict_ratio.median),
                )
            ),
        )
        for each in report.parked
    ]
    return Table(
        "parked calls of H",
        "In brackets: to a store of 1,000 calls beside it. A bare task waits on a future; the other"
        " baseline is a task with two memory object streams. Through the whole server a parked call has"
        f" {report.parked_through_server:,.0f} bytes.",
        ("calls", "bytes each", "to a task", "to streams", "park µs", "resume µs", "evict µs"),
        rows,
    )


def _databases(report: Report) -> Iterator[Table]:
    yield Table(
        "one round, in memory, on a database",
        "raw: the same tool by hand on the engine (DBOS), its state sealed. H keeps no database.",
        ("database", "option", "ms", "p95", "p99", "to raw"),
        [
            (
                each.database,
                each.option,
                *(f"{value:.1f}" for value in (each.milliseconds, each.p95, each.p99)),
                str(each.ratio),
            )
            for each in report.rounds
        ],
    )
    yield Table(
        "calls at once, on a database",
        "The queue grows where more callers bring no more calls per second.",
        ("database", "option", "callers", "calls/s", "to one caller", "p50 ms", "p95 ms"),
        [
            (
                each.database,
                each.option,
                str(each.callers),
                f"{each.calls_per_second:.0f}",
                f"{each.ratio:.2f}",
                f"{each.p50:.0f}",
                f"{each.p95:.0f}",
            )
            for each in report.ramp
        ],
    )
    yield Table(
        "what the database keeps of a parked call",
        "On disk, with indexes.",
        ("database", "option", "rows", "bytes"),
        [(e.database, e.option, f"{e.rows:.1f}", f"{e.bytes:,.0f}") for e in report.kept],
    )


def _guards(report: Report) -> Table:
    rows = [(each.store, str(each.added_milliseconds), str(each.ratio)) for each in report.guards]
    return Table(
        "the guard of single use around E",
        "To E without a guard; a call has one round that the guard has to look at.",
        ("store", "ms added to that round", "call to one without"),
        rows,
    )


def _sizes(report: Report) -> Table:
    rows = [
        (
            each.option,
            str(each.author_lines),
            str(each.changed_lines),
            str(each.stand_in_lines),
            ", ".join(each.stand_ins),
            ", ".join(each.dependencies) or "none",
        )
        for each in report.sizes
    ]
    return Table(
        "lines of code",
        "What the author types, of that what differs from E, and what an SDK would have to ship.",
        ("option", "author", "against E", "stand-in", "its modules", "to install"),
        rows,
    )


def _targets(report: Report) -> Table:
    rows = [
        (
            each.name,
            f"{each.bound} {each.target:g} {each.unit}",
            f"{each.measured:.3f}",
            "met" if each.met else "missed",
        )
        for each in targets(report)
    ]
    return Table("targets", "Medians of this run.", ("figure", "target", "measured", ""), rows)


def _rich(table: Table) -> RichTable:
    made = RichTable(title=table.title, title_justify="left", box=None)
    for number, heading in enumerate(table.head):
        made.add_column(heading, justify="right" if number else "left")
    for row in table.rows:
        made.add_row(*row)
    return made


def markdown(table: Table) -> str:
    """A table in Markdown."""
    lines = [
        f"**{table.title}**",
        "",
        "| " + " | ".join(table.head) + " |",
        "|---" * len(table.head) + "|",
    ]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in table.rows), ""])
