"""The matrix: every schedule for every option, on every deployment, and what is claimed against it.

Knows the rest of the review. `run` is the work; the rest is how it is shown.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.deployments import Deployment, MemoryDeployment
from mrtr_options.bench.observations import Observation, Verdict
from mrtr_options.bench.processes import ProcessDeployment
from mrtr_options.bench.redeploys import covers
from mrtr_options.bench.runner import Era, play
from mrtr_options.bench.schedules import SCHEDULES, AtOnce, Schedule, Send, Update
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import LEGACY_SHIM, SINGLE_USE, Column
from mrtr_options.judge import claims
from mrtr_options.show.terminal import console
from mrtr_options.tool.guarantees import Guarantees

Place = Literal["one", "two", "processes"]
ERAS: tuple[Era, ...] = ("modern", "legacy")
IN_MEMORY: tuple[Place, ...] = ("one", "two")

PLAYED_VARIABLE = "MRTR_PLAYED"
"""The environment variable that names a file of runs; see `played`."""

LOST_RESPONSES = ("lost-first", "lost-interim", "lost-interim-resent", "lost-final")
"""The rows that no SDK tests."""

COLOURS: dict[Verdict, str] = {
    "exactly once": "green",
    "at most once": "cyan",
    "more than once": "bold red",
    "refused": "yellow",
    "lost": "magenta",
}
MARKS: dict[str, str] = {SINGLE_USE: "¹", LEGACY_SHIM: "²"}
LEGEND = (
    "a/b: the call ended with a text, a audits and b bills; ref: refused with an error code; "
    "can: the task was cancelled; ---: the client got no result; ...: no response at all",
    f"{MARKS[SINGLE_USE]} inside the guard of single use   {MARKS[LEGACY_SHIM]} inside the legacy shim",
)


# --- running ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One run to be made."""

    column: Column
    schedule: Schedule
    era: Era
    place: Place


def cells(
    columns: Sequence[Column],
    *,
    schedules: Sequence[Schedule] | None = None,
    eras: Sequence[Era] = ERAS,
    places: Sequence[Place] = IN_MEMORY,
) -> list[Cell]:
    """Every run that makes sense: a schedule without steps for an era has none there."""
    return [
        Cell(column, schedule, era, place)
        for place in places
        for era in eras
        for schedule in (list(SCHEDULES.values()) if schedules is None else schedules)
        for column in columns
        if (schedule.script if era == "modern" else schedule.legacy)
        if place != "processes" or ProcessDeployment.can_play(schedule)
        if place != "one" or not schedule.needs_two
        if all(covers(column.option, change) for change in schedule.changes)
        if column.option.takes_tasks or not schedule.takes_tasks
    ]


async def run(
    to_run: Sequence[Cell], on_seen: Callable[[Observation], None] = lambda seen: None
) -> list[Observation]:
    """Make the runs, one after the other.

    Args:
        to_run: Which.
        on_seen: Told of each observation.
    """
    observations: list[Observation] = []
    with quiet_servers():
        for cell in to_run:
            seen = await _run(cell)
            observations.append(seen)
            on_seen(seen)
    return observations


async def played(
    to_run: Sequence[Cell], on_seen: Callable[[Observation], None] = lambda seen: None
) -> list[Observation]:
    """The runs, made now; where `MRTR_PLAYED` names a file that `keep` has written, those in it.

    The tests play the matrix once and hand it to a notebook's kernel like that. Nobody else should
    have to: a file of another version of the code says what that version did.

    Args:
        to_run: Which.
        on_seen: Told of each observation that is made.

    Raises:
        ValueError: The file holds something else, or one of the runs is not in it.
    """
    file = os.environ.get(PLAYED_VARIABLE)
    return await run(to_run, on_seen) if file is None else _kept(to_run, Path(file))


_OBSERVATIONS = TypeAdapter(list[Observation])


def keep(observations: list[Observation], file: Path) -> None:
    """Write runs for `played` to read."""
    file.write_bytes(_OBSERVATIONS.dump_json(observations))


def _kept(wanted: Sequence[Cell], file: Path) -> list[Observation]:
    found = {
        (seen.column, seen.schedule, seen.era, seen.deployment): seen
        for seen in _OBSERVATIONS.validate_json(file.read_bytes())
    }
    keys = [(cell.column.name, cell.schedule.slug, cell.era, cell.place) for cell in wanted]
    missing = [key for key in keys if key not in found]
    if missing:
        raise ValueError(f"{PLAYED_VARIABLE}={file} lacks {missing[0]} and {len(missing) - 1} more runs")
    return [found[key] for key in keys]


async def _run(cell: Cell) -> Observation:
    seen = await _play(cell, turns=1)
    if not _depends_on_timing(cell):
        return seen
    # Two deliveries at once interleave in more than one way: fewer turns, and more.
    runs = [seen, *[await _play(cell, turns=turns) for turns in (0, 3)]]
    for effect in seen.effects:
        counts = sorted({each.most(effect) for each in runs})
        if len(counts) > 1:
            seen.effects[effect] = counts
    seen.agreed = all(each.agreed for each in runs)
    return seen


def _depends_on_timing(cell: Cell) -> bool:
    steps = cell.schedule.script if cell.era == "modern" else ()
    return cell.place != "processes" and any(
        isinstance(step, AtOnce) or (isinstance(step, Send | Update) and step.again == "at once")
        for step in steps
    )


async def _play(cell: Cell, *, turns: int) -> Observation:
    async with deployed(
        cell.column, cell.place, turns=turns, honours_keys=cell.schedule.honours_keys
    ) as deployment:
        return await play(cell.schedule, cell.era, deployment, cell.column)


@asynccontextmanager
async def deployed(
    column: Column, place: Place, *, turns: int = 1, honours_keys: bool = False
) -> AsyncGenerator[Deployment]:
    """A fresh deployment of an option, with a ledger and a store of its own.

    Args:
        column: What is deployed.
        place: Where.
        turns: How many turns of the event loop an effect takes, in memory.
        honours_keys: Whether the ledger absorbs an effect whose idempotency key it has seen.
    """
    with scratch() as folder:
        if place == "processes":
            async with ProcessDeployment(
                column, folder, honours_keys=honours_keys
            ).running() as processes:
                yield processes
        else:
            count = 1 if place == "one" else 2
            memory = MemoryDeployment(column, count, folder, honours_keys=honours_keys)
            memory.ledger.turns = turns
            async with memory.running():
                yield memory


@contextmanager
def quiet_servers() -> Generator[None]:
    """The SDK and the engine log every refusal and failure; here they are looked for, or in the way."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


# --- claims -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What an option claims, held against what was seen of it.

    Attributes:
        column: The option, and what it was put into.
        proven: The promises that held wherever they could be seen.
        broken: The promises that did not, with the observation.
        unclaimed: What it keeps without promising it.
    """

    column: Column
    proven: list[claims.Promise]
    broken: list[claims.Broken]
    unclaimed: list[claims.Promise]


def judge(column: Column, observations: Sequence[Observation]) -> Judged:
    """Hold one column's observations against the contract and its own promises."""
    seen = [each for each in observations if each.column == column.name]
    own = guarantees_of(column)
    promised = claims.promised(own)
    broken = claims.broken(seen, promised, own)
    refuted = {each.promise.name for each in broken}
    fair = [each for each in seen if claims.fair(each, own)]
    proven = [each for each in claims.kept(fair, promised) if each.name not in refuted]
    more = claims.kept(seen, claims.unclaimed(own)) if own else []
    return Judged(column, proven, broken, more)


def guarantees_of(column: Column) -> Guarantees | None:
    """What is promised for an option inside its wrappers, or None if it says nothing."""
    own = column.option.guarantees
    return None if own is None else claims.guarantees_of(column.wrappers, own)


# --- showing ------------------------------------------------------------------------------------


def show(
    columns: Sequence[Column],
    *,
    schedules: Sequence[Schedule] | None = None,
    eras: Sequence[Era] = ERAS,
    places: Sequence[Place] = IN_MEMORY,
    form: Literal["table", "json", "markdown"] = "table",
) -> int:
    """Run the matrix and print it. Returns 1 if a claim is broken.

    Args:
        columns: Which options.
        schedules, eras, places: Which runs; None for every schedule.
        form: How to print it.
    """
    import anyio

    to_run = cells(columns, schedules=schedules, eras=eras, places=places)
    with progress(quiet=form != "table") as bar:
        task = bar.add_task("schedules", total=len(to_run))

        def advance(seen: Observation) -> None:
            bar.advance(task)

        observations = anyio.run(run, to_run, advance)
    judged = [judge(column, observations) for column in columns]
    if form == "json":
        print(json.dumps([seen.as_json() for seen in observations], ensure_ascii=False, indent=1))
    elif form == "markdown":
        print("\n\n".join(markdown(group) for group in _groups(observations)))
    else:
        out = console()
        for group in _groups(observations):
            out.print(_table(group))
        for line in LEGEND:
            out.print(line)
        out.print(Text.assemble(*((f"{verdict}  ", colour) for verdict, colour in COLOURS.items())))
        _show_claims(judged)
    if form != "table":
        for each in judged:
            for line in broken_lines(each):
                console(stderr=True).print(line)
    return 1 if any(each.broken for each in judged) else 0


def progress(*, quiet: bool) -> Progress:
    """A progress bar on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console(stderr=True, quiet=quiet),
        transient=True,
    )


def _groups(observations: Sequence[Observation]) -> list[list[Observation]]:
    """The observations of one table each: one deployment and one era."""
    keys = dict.fromkeys((seen.deployment, seen.era) for seen in observations)
    return [[seen for seen in observations if (seen.deployment, seen.era) == key] for key in keys]


def _heading(seen: Observation) -> str:
    return seen.option + "".join(MARKS.get(name, "+") for name in seen.wrappers)


def _rows(group: Sequence[Observation]) -> dict[str, list[Observation | None]]:
    """By schedule: what was seen in each column, in the columns' order; None where it is not played."""
    columns = list(dict.fromkeys(seen.column for seen in group))
    rows: dict[str, dict[str, Observation]] = {}
    for seen in group:
        rows.setdefault(seen.schedule, {})[seen.column] = seen
    return {slug: [row.get(column) for column in columns] for slug, row in rows.items()}


def _headings(group: Sequence[Observation]) -> list[str]:
    return list(dict.fromkeys(_heading(seen) for seen in group))


_NAMES = {
    "one": "one instance in memory",
    "two": "two instances in memory",
    "processes": "two processes",
}


def _table(group: Sequence[Observation]) -> Table:
    rows = _rows(group)
    title = f"{group[0].era} client, {_NAMES[group[0].deployment]}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("audit/bill")
    for heading in _headings(group):
        table.add_column(heading, justify="center", min_width=3)
    for slug, row in rows.items():
        table.add_row(slug, *(Text(seen.cell, COLOURS[seen.verdict]) if seen else "" for seen in row))
    return table


def markdown(group: Sequence[Observation]) -> str:
    """One table in Markdown; what is more than once stands out in bold."""
    rows = _rows(group)
    head = ["audit/bill", *_headings(group)]
    lines = [
        f"{group[0].era} client, {_NAMES[group[0].deployment]}:",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for slug, row in rows.items():
        lines.append("| " + " | ".join([f"`{slug}`", *map(_bold, row)]) + " |")
    return "\n".join(lines)


def _bold(seen: Observation | None) -> str:
    if seen is None:
        return ""
    return f"**{seen.cell}**" if seen.verdict == "more than once" else seen.cell


def _show_claims(judged: Sequence[Judged]) -> None:
    out = console()
    out.print()
    for each in judged:
        line = f"{each.column.name}: {len(each.proven)} promises proven"
        out.print(line + (f", {len(each.broken)} broken:" if each.broken else ""))
        for text in broken_lines(each):
            out.print(f"  {text}", style="red")
        if each.unclaimed:
            names = ", ".join(promise.name for promise in each.unclaimed)
            out.print(f"  keeps without promising it: {names}", style="dim")


def broken_lines(judged: Judged) -> list[str]:
    """One line for each broken promise: which, where, and what was seen."""
    return [
        f"{judged.column.name} breaks {each.promise.name} under {each.seen.schedule}"
        f" ({each.seen.era}, {each.seen.deployment}): {each.why}"
        for each in judged.broken
    ]
