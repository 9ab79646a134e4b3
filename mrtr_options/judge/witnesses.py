"""Which faults show which anomaly: every set up to a bound, and the smallest of those that do.

A run that breaks a rule of the contract or a guarantee of the option, and shows no anomaly that the
clean run does not show, lacks a name: that is an error in the definitions, and it is kept.

Knows the exploration, the anomalies and the guarantees; nothing of how results are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mrtr_options.bench.explore import Fault, Played, Policy, World, explore, play, possible
from mrtr_options.bench.observations import observe
from mrtr_options.bench.runs import engine_for, history_of
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import anomalies, guarantees, matrix
from mrtr_options.judge.contract import violations

Faults = tuple[Fault, ...]

LIKE: dict[Policy, dict[str, str]] = {
    "retry": {
        "": "clean-springfield",
        "lost1": "lost-first",
        "lost3": "lost-final",
        "twice2": "duplicate-interim",
        "twice3": "duplicate-final",
        "both2": "concurrent-interim",
        "both3": "concurrent-final",
        "failover2": "failover",
        "failover3": "failover",
        "restart2": "restart",
        "restart3": "restart",
        "fail@audit1": "failed-audit",
        "fail@bill3": "failed-bill",
    },
    "call again": {
        "lost1": "lost-first",
        "lost2": "lost-interim",
        "lost3": "lost-final-anew",
    },
}
"""Faults of a call for Springfield that are what a schedule with a name plays: an option's guarantees
hold there too."""


@dataclass
class Explored:
    """What came of a world under every set of faults up to a bound.

    Attributes:
        world: What was called, where and by which client.
        bound: How many faults at most.
        histories: How many runs were made.
        witnesses: For each anomaly that was shown, the sets of faults that show it and of which no
            smaller part does.
        nameless: For each set of faults that breaks a rule and shows no anomaly of its own: what is
            wrong, in a line.
    """

    world: World
    bound: int
    histories: int = 0
    witnesses: dict[str, list[Faults]] = field(default_factory=dict[str, list[Faults]])
    nameless: dict[Faults, str] = field(default_factory=dict[Faults, str])

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
                name: [" ".join(map(str, faults)) for faults in self.witnesses[name]]
                for name in (anomaly.name for anomaly in anomalies.ANOMALIES)
                if name in self.witnesses
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


def wrong(world: World, played: Played) -> str | None:
    """What a run has that the contract or the option's guarantees do not allow: the first, in a line.

    Args:
        world: What was called, where and by which client.
        played: The run.
    """
    own = matrix.guarantees_of(world.subject)
    departs = own.departs if own else ()
    for each in violations(played.history):
        if each.rule not in departs:
            return f"{each.rule}: allowed is {each.allowed}; came {each.came}"
    like = LIKE[world.policy].get(" ".join(map(str, played.faults)))
    if like is None or (world.era, world.location) != ("modern", "Springfield"):
        return None
    # Where rounds go to the instance that asked, what needs a second one is failover alone.
    place = "two" if like == "failover" or world.fleet == "free" else "one"
    seen = replace(observe(played.history), schedule=like, deployment=place)
    for each in guarantees.broken([seen], guarantees.guaranteed(own), own):
        return f"{each.guarantee.name}: {each.why}"
    return None


def is_part(less: Faults, more: Faults) -> bool:
    """Whether a set of faults is a part of another one. A fault at a later attempt of a round counts as
    the same fault at the first."""
    return Counter(map(_at, less)) <= Counter(map(_at, more))


def _at(fault: Fault) -> tuple[int, str]:
    return fault.round, fault.kind


async def begin(world: World) -> tuple[Explored, Faults]:
    """Make the run of a world in which nothing goes wrong, and see what can go wrong there.

    Args:
        world: What is called, where and by which client.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    found = Explored(world, 0)
    async with engine_for([world.subject]) as database:
        played = await play(world, database=database())
    shown = anomalies.found(played.history)
    if (what := wrong(world, played)) is not None:
        found.nameless[()] = what
    found.take((), shown)
    return found, tuple(possible(world, played))


async def witnesses(
    world: World,
    bound: int,
    on_run: Callable[[], None] = lambda: None,
    *,
    first: Faults | None = None,
) -> Explored:
    """Make every run of a world with up to so many faults, and keep the smallest witnesses.

    Args:
        world: What is called, where and by which client.
        bound: How many faults at most.
        on_run: Told of each run that was made.
        first: Only sets that begin with one of these, and not the run in which nothing goes wrong; all
            runs if it is left out.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    found = Explored(world, bound)
    async with engine_for([world.subject]) as database:
        with scratch() as versions:

            async def play_one(faults: Faults) -> Played:
                return await play(world, faults, database=database(), versions=versions)

            clean = frozenset[str]()
            async for played in explore(world, bound, play_one, first=first):
                shown = anomalies.found(played.history)
                clean = clean if played.faults else shown
                if first is None or played.faults:
                    if shown <= clean and (what := wrong(world, played)) is not None:
                        found.nameless[played.faults] = what
                    found.take(played.faults, shown)
                on_run()
    return found


def joined(world: World, bound: int, parts: Sequence[Explored]) -> Explored:
    """What came of a world, from what came of parts of its sets of faults.

    Args:
        world: What was called, where and by which client.
        bound: How many faults at most.
        parts: The first has the run in which nothing goes wrong.
    """
    whole = Explored(world, bound)
    for name in (anomaly.name for anomaly in anomalies.ANOMALIES):
        sets = [faults for part in parts for faults in part.witnesses.get(name, [])]
        for faults in sorted(sets, key=len):
            whole.take(faults, frozenset({name}))
    for part in parts:
        whole.nameless |= part.nameless
    whole.histories = sum(part.histories for part in parts)
    return whole


async def of_schedules(
    subjects: Sequence[Column], on_begin: Callable[[str], None] = lambda name: None
) -> dict[str, dict[str, list[str]]]:
    """The anomalies that the schedules with names show, each with the subjects in which they do.

    Args:
        subjects: What is played. Of a schedule whose client takes tasks, those that have them.
        on_begin: Told the name of each schedule before it is played.
    """
    shown: dict[str, dict[str, list[str]]] = {slug: {} for slug in SCHEDULES}
    async with engine_for(subjects) as database:
        for slug, schedule in SCHEDULES.items():
            on_begin(slug)
            place = "two" if schedule.needs_two or slug == "failover" else "one"
            for cell in matrix.cells(subjects, schedules=[schedule], eras=("modern",), places=(place,)):
                history = await history_of(cell, database=database())
                for name in sorted(anomalies.found(history)):
                    shown[slug].setdefault(name, []).append(cell.column.name)
    return shown
