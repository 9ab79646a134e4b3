"""Which faults show which anomaly: every set up to a bound, and the smallest of those that do.

Worlds are explored in processes of their own, as many as there are processors.

Knows the exploration and the anomalies; nothing of how results are shown.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import anyio

from mrtr_options.bench.explore import Fault, World, explore, play
from mrtr_options.bench.runs import engine_for
from mrtr_options.judge import anomalies

Faults = tuple[Fault, ...]


@dataclass
class Explored:
    """What came of a world under every set of faults up to a bound.

    Attributes:
        world: What was called, where and by which client.
        bound: How many faults at most.
        histories: How many runs were made.
        witnesses: For each anomaly that was shown, the sets of faults that show it and of which no
            smaller part does.
    """

    world: World
    bound: int
    histories: int = 0
    witnesses: dict[str, list[Faults]] = field(default_factory=dict[str, list[Faults]])

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        world = self.world
        return {
            "subject": world.subject.name,
            "fleet": world.fleet,
            "policy": world.policy,
            "era": world.era,
            "location": world.location,
            "honours_keys": world.honours_keys,
            "bound": self.bound,
            "histories": self.histories,
            "witnesses": {
                name: [" ".join(map(str, faults)) for faults in found]
                for name, found in self.witnesses.items()
            },
        }

    def take(self, faults: Faults, shown: frozenset[str]) -> None:
        """Take note of a run. Runs come with the fewest faults first.

        Args:
            faults: What went wrong.
            shown: The anomalies that its history shows.
        """
        self.histories += 1
        for name in shown:
            smaller = self.witnesses.setdefault(name, [])
            if not any(is_part(each, faults) for each in smaller):
                smaller.append(faults)


def is_part(less: Faults, more: Faults) -> bool:
    """Whether a set of faults is a part of another one. A fault at a later attempt of a round counts as
    the same fault at the first."""
    return Counter(map(_at, less)) <= Counter(map(_at, more))


def _at(fault: Fault) -> tuple[int, str]:
    return fault.round, fault.kind


async def witnesses(world: World, bound: int, on_run: Callable[[], None] = lambda: None) -> Explored:
    """Make every run of a world with up to so many faults, and keep the smallest witnesses.

    Args:
        world: What is called, where and by which client.
        bound: How many faults at most.
        on_run: Told of each run that was made.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    found = Explored(world, bound)
    async with engine_for([world.subject]) as database:
        async for played in explore(
            world, bound, lambda faults: play(world, faults, database=database())
        ):
            found.take(played.faults, anomalies.found(played.history))
            on_run()
    return found


def explored(worlds: Sequence[World], bound: int) -> Generator[Explored]:
    """Explore several worlds at once; each is yielded when it is done.

    Args:
        worlds: Which; those that take longest are best named first.
        bound: How many faults at most.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as processes:
        running = [processes.submit(_explored, world, bound) for world in worlds]
        try:
            for done in as_completed(running):
                yield done.result()
        finally:
            processes.shutdown(cancel_futures=True)


def _explored(world: World, bound: int) -> Explored:
    return anyio.run(witnesses, world, bound)
