"""The matrix: which runs there are, how they are made, and what guarantees they keep or break.

Knows the bench and the guarantees; nothing of how results are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrtr_options.bench.history import ERAS, Era
from mrtr_options.bench.observations import Observation, merged
from mrtr_options.bench.processes import ProcessDeployment
from mrtr_options.bench.redeploys import covers
from mrtr_options.bench.runs import Cell, Place, history_of, one_engine
from mrtr_options.bench.schedules import SCHEDULES, AtOnce, Schedule, Send, Update
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import guarantees
from mrtr_options.tool.guarantees import Guarantees

IN_MEMORY: tuple[Place, ...] = ("one", "two")

LOST_RESPONSES = (
    "lost-first",
    "lost-interim",
    "lost-interim-resent",
    "lost-final",
    "lost-final-anew",
)
"""The rows that no SDK tests."""


# --- running ------------------------------------------------------------------------------------


def cells(
    columns: Sequence[Column],
    *,
    schedules: Sequence[Schedule] | None = None,
    eras: Sequence[Era] = ERAS,
    places: Sequence[Place] = IN_MEMORY,
) -> list[Cell]:
    """Every possible run: a schedule without steps for an era has none in that era."""
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
    to_run: Sequence[Cell], on_begin: Callable[[str], None] = lambda name: None
) -> list[Observation]:
    """Make the runs, one after the other.

    Args:
        to_run: Which.
        on_begin: Told the name of each run before it is made.
    """
    observations: list[Observation] = []
    async with one_engine(to_run) as database:
        for cell in to_run:
            on_begin(name_of(cell))
            # Two deliveries at once interleave in more than one way: fewer turns, and more.
            turns = (1, 0, 3) if _depends_on_timing(cell) else (1,)
            runs = [await history_of(cell, turns=each, database=database()) for each in turns]
            observations.append(merged([guarantees.observed(history) for history in runs]))
    return observations


def name_of(cell: Cell) -> str:
    """What a run is called while it is made."""
    return f"{cell.column.name}: {cell.schedule.slug}, {cell.era}, {cell.place}"


def _depends_on_timing(cell: Cell) -> bool:
    steps = cell.schedule.script if cell.era == "modern" else ()
    return cell.place != "processes" and any(
        isinstance(step, AtOnce) or (isinstance(step, Send | Update) and step.again == "at once")
        for step in steps
    )


# --- judging -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """What an option guarantees, compared with what was observed.

    Attributes:
        column: The option, and what it was put into.
        proven: Its own guarantees that held in every run that can show them.
        broken: The guarantees that did not, with the observation.
        unclaimed: The guarantees that it keeps and does not claim.
    """

    column: Column
    proven: list[guarantees.Guarantee]
    broken: list[guarantees.Broken]
    unclaimed: list[guarantees.Guarantee]


def judge(column: Column, observations: Sequence[Observation]) -> Judged:
    """Hold one column's observations against the contract and its own guarantees."""
    seen = [each for each in observations if each.column == column.name]
    own = guarantees_of(column)
    broken = guarantees.broken(seen, guarantees.guaranteed(own), own)
    fair = [each for each in seen if guarantees.fair(each, own)]
    proven = guarantees.kept(fair, guarantees.own_guarantees(own)) if own else []
    more = guarantees.kept(seen, guarantees.unclaimed(own)) if own else []
    return Judged(column, proven, broken, more)


def guarantees_of(column: Column) -> Guarantees | None:
    """What is guaranteed for an option inside its wrappers, or None if it says nothing."""
    own = column.option.guarantees
    return None if own is None else guarantees.guarantees_of(column.wrappers, own)


def broken_lines(judged: Judged) -> list[str]:
    """One line for each broken guarantee: which, where, and what was seen."""
    return [
        f"{judged.column.name} breaks {each.guarantee.name} under {each.seen.schedule}"
        f" ({each.seen.era}, {each.seen.deployment}): {each.why}"
        for each in judged.broken
    ]
