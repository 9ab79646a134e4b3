"""Timing in turns. Knows nothing of what is timed.

Other work may load the machine, so no reading is compared with a reading from another minute:
everything is timed in short turns, one after the other, and every ratio is of two readings of the
same turn. The median of the ratios is the figure, their middle half the spread.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

from scoreboard.cost.report import Spread

Progress = Callable[[], None]

Reading = TypeVar("Reading")


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least two values."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median=median, low=low, high=high)


def ratio(own: Sequence[float], base: Sequence[float]) -> Spread:
    """Return the spread of the ratios of two series from the same turns."""
    return spread([mine / other for mine, other in zip(own, base, strict=True)])


@contextmanager
def steady() -> Generator[None]:
    """Keep the garbage collector from scanning existing objects during a reading."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def in_turns(
    work: Mapping[str, Callable[[], Awaitable[Reading]]], turns: int, progress: Progress
) -> dict[str, list[Reading]]:
    """Do several pieces of work, each once in every turn.

    Args:
        work: The pieces, by name. Each returns its reading, as those of `timed` do.
        turns: The number of turns. One more turn goes first and is not counted.
        progress: Called after each counted turn.

    Returns:
        The readings of each piece, turn by turn.
    """
    readings: dict[str, list[Reading]] = {name: [] for name in work}
    order = Random(0)
    with steady():
        for turn in range(-1, turns):
            # Another order each time: after similar work, the cache is warmer.
            for name in order.sample(list(work), len(work)):
                reading = await work[name]()
                if turn >= 0:
                    readings[name].append(reading)
            if turn >= 0:
                progress()
    return readings


def timed(
    work: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], Awaitable[float]]:
    """Return work that returns the seconds it takes.

    Args:
        work: The work.
        clock: Reads the time or the processor time, in seconds. Other work on the machine hardly
            disturbs the processor time.
    """

    async def seconds() -> float:
        begins = clock()
        await work()
        return clock() - begins

    return seconds
