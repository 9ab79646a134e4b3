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
from typing import Any

import anyio

from mrtr_options.bench.explore import explore
from mrtr_options.bench.faults import ERAS, Faults, parse
from mrtr_options.bench.history import History
from mrtr_options.bench.run import in_memory, run
from mrtr_options.bench.scenario import Policy, Scenario, calling
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import LEGACY_SHIM, Subject, subject_named
from mrtr_options.judge.counterexamples import Explored
from mrtr_options.judge.shares import Called, at_work, options_of, pool
from mrtr_options.show.page.stories import Story, Watched, story

POLICIES: tuple[Policy, ...] = ("call again", "retry")
"""What shipped clients do first."""


@dataclass
class Told:
    """Runs of a world.

    Attributes:
        found: What `explore` says of it.
        every: Up to how many faults each set was played.
        kept: What is kept of more faults than were played, as a row of docs/explored.json.
        runs: For each set of faults, fewest first: the number of its story.
        stories: All that are different.
    """

    found: Explored
    every: int
    kept: dict[str, Any] | None = None
    runs: dict[Faults, int] = field(default_factory=dict[Faults, int])
    stories: list[Story] = field(default_factory=list[Story])

    def row(self) -> dict[str, Any]:
        """What `explore --json` says of it."""
        return self.kept or self.found.as_json()


Worlds = Mapping[Called, int | dict[str, Any]]
"""What is played: up to how many faults, or what a row that is kept says."""


def kept_worlds(rows: Iterable[dict[str, Any]]) -> dict[Called, dict[str, Any]]:
    """What is played of each row that is kept: every single fault, and the sets that show an anomaly."""
    return {
        (subject_named(row["subject"]), calling(fleet=row["fleet"], policy=row["policy"])): row
        for row in rows
    }


def worlds_of(subjects: Iterable[Subject], faults: int) -> dict[Called, int]:
    """What is played, and up to how many faults; what takes longest comes first.

    Args:
        subjects: Of these. A modern client does not notice the shim for legacy ones, and no legacy one
            sends a call key; both are left out.
        faults: How many at most on two sticky instances. On instances in turn, of old clients, and for
            subjects on a durable engine, it is one at most.
    """
    worlds: dict[Called, int] = {}
    least = min(faults, 1)
    for subject in subjects:
        most = faults if subject.option.extra is None else least
        for policy in POLICIES:
            for era in ERAS:
                if not subject.keyed if era == "legacy" else LEGACY_SHIM not in subject.wrappers:
                    sticky = calling(fleet="sticky", policy=policy, era=era)
                    free = calling(fleet="free", policy=policy, era=era)
                    worlds[subject, sticky] = most if era == "modern" else least
                    worlds[subject, free] = least
    return dict(sorted(worlds.items(), key=_weight, reverse=True))


def _weight(item: tuple[Called, int]) -> float:
    (subject, scenario), faults = item
    slow = 20 if subject.option.extra else 2 if subject.wrappers else 1
    return slow * (1 if scenario.setup.era == "legacy" else 6) ** faults


def tell(worlds: Worlds, on_world: Callable[[str], None] = lambda name: None) -> list[Told]:
    """Play sets of faults, on all processors.

    Args:
        worlds: Which, and in which worlds.
        on_world: Told the name of each world that is done.
    """
    with pool(__name__) as processes:
        running = {
            processes.submit(at_work, tell_one, *called, bound): called
            for called, bound in worlds.items()
        }
        try:
            for done in as_completed(running):
                subject, scenario = running[done]
                setup = scenario.setup
                on_world(f"{subject.name}, {setup.fleet}, {setup.policy}, {setup.era}")
            return [each.result() for each in running]
        finally:
            processes.shutdown(cancel_futures=True)


def tell_one(subject: Subject, scenario: Scenario, which: int | dict[str, Any]) -> Told:
    """Play sets of faults in a world: every one of up to so many, or those that a kept row needs."""
    return anyio.run(_tell, subject, scenario, which, backend_options=options_of(subject))


async def _tell(subject: Subject, scenario: Scenario, which: int | dict[str, Any]) -> Told:
    bound, kept = (which, None) if isinstance(which, int) else (1, which)
    counterexamples: dict[str, list[str]] = kept["witnesses"] if kept else {}
    shown = {parse(each) for sets in counterexamples.values() for each in sets}
    told = Told(Explored(subject, scenario, bound), bound, kept)
    numbers: dict[Story, int] = {}
    path = subject.option.path
    watched = Watched(path)
    with scratch() as versions:
        async with in_memory([subject], versions=versions) as here:

            async def play(scenario: Scenario) -> History:
                nonlocal watched
                watched = Watched(path)
                return await run(subject, scenario, replace(here, watch=watched))

            def take(history: History) -> None:
                found, faults = story(history, watched), history.scenario.faults
                told.found.take(faults, found.anomalies)
                told.runs[faults] = numbers.setdefault(found, len(numbers))

            async for history in explore(subject, scenario, bound, play):
                take(history)
            for faults in sorted(shown - told.runs.keys()):
                take(await play(scenario.under(faults)))
    told.stories = list(numbers)
    return told


def on_one_instance(told: Told) -> Told:
    """The runs of two sticky instances that are also runs of one."""
    found = told.found
    alone = Explored(found.subject, found.scenario.on_one(), found.bound)
    one = Told(alone, told.every, stories=told.stories)
    for faults, number in told.runs.items():
        if not any(fault.kind.needs_two for fault in faults):
            one.found.take(faults, told.stories[number].anomalies)
            one.runs[faults] = number
    return one
