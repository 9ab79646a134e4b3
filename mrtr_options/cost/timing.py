"""What every measurement shares: rows of figures, and timing in turns. Knows nothing of what is timed.

The machine may be busy with other things, so no reading is compared with one from another minute:
everything is timed in short turns, one after the other, and every ratio is of two readings of the
same turn. The median of those is the figure, their middle half the spread.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

Progress = Callable[[], None]


@dataclass(frozen=True)
class Spread:
    """A figure that was measured several times.

    Attributes:
        median: The figure.
        low, high: The middle half of what was measured.
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"

    def __format__(self, spec: str) -> str:
        return format(self.median, spec) if spec else str(self)


Value = Spread | int | float | str | list[int] | list[str] | None


@dataclass(frozen=True)
class Row:
    """What was measured of one subject under one condition.

    Attributes:
        subject: An option's letter, or a baseline's name.
        figures: By name: the condition (as in `questions` or `database`), and what was measured.
            None is a figure that this subject does not have.
    """

    subject: str
    figures: Mapping[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.subject if name == "option" else self.figures[name]

    def number(self, name: str) -> float:
        """A figure as a number: the median where it was measured several times."""
        value = self.figures[name]
        assert isinstance(value, Spread | int | float), name
        return value.median if isinstance(value, Spread) else value

    def spread(self, name: str) -> Spread:
        """A figure that was measured several times."""
        value = self.figures[name]
        assert isinstance(value, Spread), name
        return value


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least two values."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratio(own: Sequence[float], base: Sequence[float]) -> Spread:
    """The spread of the ratios of two series that were measured in the same turns."""
    return spread([mine / other for mine, other in zip(own, base, strict=True)])


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """The median, and the slowest in twenty and in a hundred, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return {f"p{n}": cuts[n - 1] * 1000 for n in (50, 95, 99)}


@dataclass(frozen=True)
class Readings:
    """How long one turn after the other took, in seconds: on the clock, and of the processor."""

    wall: list[float]
    cpu: list[float]


@contextmanager
def steady() -> Generator[None]:
    """Without what is there already being looked through for garbage in the middle of a reading."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def in_turns(
    work: Mapping[str, Callable[[], Awaitable[object]]], turns: int, progress: Progress
) -> dict[str, Readings]:
    """Time several pieces of work, each once in every turn.

    Args:
        work: The pieces, by name.
        turns: How many turns. One more goes first and is not counted.
        progress: Called after each of them but the first.
    """
    readings = {name: Readings([], []) for name in work}
    order = Random(0)
    with steady():
        for turn in range(-1, turns):
            # Another order each time: what follows one of its like finds a warmer cache.
            for name in order.sample(list(work), len(work)):
                wall, cpu = time.perf_counter(), time.process_time()
                await work[name]()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                if turn >= 0:
                    readings[name].wall.append(wall)
                    readings[name].cpu.append(cpu)
            if turn >= 0:
                progress()
    return readings
