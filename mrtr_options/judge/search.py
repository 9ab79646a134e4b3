"""The search: calls drawn at random on every option, held against the contract, until one breaks it.

Knows cases, runs in memory, and how a run that breaks a rule is made small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from mrtr_options.bench.history import History
from mrtr_options.bench.runs import Cell, history_of
from mrtr_options.bench.subjects import Column, all_columns
from mrtr_options.judge.cases import Case, at_random
from mrtr_options.judge.findings import Finding, Held, smallest

TURNS = (1, 0, 3)
"""How many turns of the event loop an effect takes; from case to case, since it decides how calls at the
same moment interleave."""


def columns_to_search() -> list[Column]:
    """Every column that runs in memory alone."""
    return [column for column in all_columns() if column.option.extra is None]


async def search(
    columns: Sequence[Column], *, seed: int, seconds: float, on_played: Callable[[], None]
) -> tuple[Column, Finding] | None:
    """Play cases drawn at random until one breaks a rule; then find the smallest that does.

    Args:
        columns: What each case is played on.
        seed: The same one draws the same cases.
        seconds: Begin no more after this time.
        on_played: Told of each run, but for those that make a case smaller.
    """
    until = anyio.current_time() + seconds
    for number, case in enumerate(at_random(seed)):
        for column in columns:
            if anyio.current_time() >= until:
                return None

            async def play(
                case: Case, column: Column = column, turns: int = TURNS[number % len(TURNS)]
            ) -> History:
                place = "one" if case.instances == 1 else "two"
                return await history_of(Cell(column, case.schedule, case.era, place), turns=turns)

            own = column.option.guarantees
            held = Held(departs=own.departs if own else ())
            held.hold(case, await play(case))
            on_played()
            for finding in held.first.values():
                return column, await smallest(play, finding, held)
    return None
