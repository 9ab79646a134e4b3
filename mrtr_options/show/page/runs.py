"""Every set of faults up to a bound, in the worlds that the page shows, each run kept as a story.

What is the same is kept once: a step that is in many stories, a story that many sets of faults lead to.
Worlds with one instance are not played: their runs are those of two sticky instances in which no round
goes elsewhere.

Knows the exploration and the anomalies; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace

import anyio

from mrtr_options.bench.explore import Played, World, explore, play
from mrtr_options.bench.history import ERAS
from mrtr_options.bench.runs import engine_for
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import LEGACY_SHIM, Column
from mrtr_options.judge.shares import at_work, options_of, pool
from mrtr_options.judge.witnesses import Explored, Faults
from mrtr_options.show.page.stories import Story, Watched, story

POLICIES = "call again", "retry"
"""What shipped clients do first."""


@dataclass
class Told:
    """Every run of a world.

    Attributes:
        found: What `explore` says of it.
        runs: For each set of faults, fewest first: the number of its story.
        stories: All that are different.
    """

    found: Explored
    runs: dict[Faults, int] = field(default_factory=dict[Faults, int])
    stories: list[Story] = field(default_factory=list[Story])


def worlds_of(subjects: Iterable[Column], faults: int) -> dict[World, int]:
    """What is played, and up to how many faults; what takes longest comes first.

    Args:
        subjects: Of these. A modern client does not notice the shim for legacy ones, and no legacy one
            sends a call key; both are left out.
        faults: How many at most on two sticky instances. On instances in turn, of old clients, and for
            subjects on a durable engine, it is one at most.
    """
    worlds: dict[World, int] = {}
    least = min(faults, 1)
    for subject in subjects:
        most = faults if subject.option.extra is None else least
        for policy in POLICIES:
            for era in ERAS:
                if not subject.keyed if era == "legacy" else LEGACY_SHIM not in subject.wrappers:
                    worlds[World(subject, "sticky", policy, era)] = most if era == "modern" else least
                    worlds[World(subject, "free", policy, era)] = least
    return dict(sorted(worlds.items(), key=_weight, reverse=True))


def _weight(item: tuple[World, int]) -> float:
    world, faults = item
    slow = 20 if world.subject.option.extra else 2 if world.subject.wrappers else 1
    return slow * (1 if world.era == "legacy" else 6) ** faults


def tell(worlds: Mapping[World, int], on_world: Callable[[str], None] = lambda name: None) -> list[Told]:
    """Play every set of faults, on all processors.

    Args:
        worlds: In which, and up to how many.
        on_world: Told the name of each world that is done.
    """
    with pool(__name__) as processes:
        running = {
            processes.submit(at_work, tell_one, world, bound): world for world, bound in worlds.items()
        }
        try:
            for done in as_completed(running):
                world = running[done]
                on_world(f"{world.subject.name}, {world.fleet}, {world.policy}, {world.era}")
            return [each.result() for each in running]
        finally:
            processes.shutdown(cancel_futures=True)


def tell_one(world: World, bound: int) -> Told:
    """Play every set of up to so many faults in a world."""
    return anyio.run(_tell, world, bound, backend_options=options_of(world))


async def _tell(world: World, bound: int) -> Told:
    told = Told(Explored(world, bound))
    numbers: dict[Story, int] = {}
    path = world.subject.option.path
    watched = Watched(path)
    with scratch() as versions:

        async def play_one(faults: Faults) -> Played:
            nonlocal watched
            watched = Watched(path)
            return await play(world, faults, database=database(), versions=versions, watch=watched)

        async with engine_for([world.subject]) as database:
            async for played in explore(world, bound, play_one):
                found = story(played, watched)
                told.found.take(played.faults, found.anomalies)
                told.runs[played.faults] = numbers.setdefault(found, len(numbers))
    told.stories = list(numbers)
    return told


def on_one_instance(told: Told) -> Told:
    """The runs of two sticky instances that are also runs of one."""
    found = told.found
    one = Told(Explored(replace(found.world, fleet="one"), found.bound), stories=told.stories)
    for faults, number in told.runs.items():
        if all(fault.kind != "failover" for fault in faults):
            one.found.take(faults, told.stories[number].anomalies)
            one.runs[faults] = number
    return one
