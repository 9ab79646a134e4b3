"""The runs that the page shows: every single fault, and the sets of more that show an anomaly.

The tables are those of docs/explored.json; only what their cells open is played. A story that many
sets of faults lead to is kept once. Knows the exploration; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace

import anyio

from documents.page.stories import Story, Watched, story
from mrtr_options.review.bench.faults import Faults, parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.explore.combinations import explore
from mrtr_options.review.explore.show import Row
from mrtr_options.review.explore.workers import Called, at_work, options_of, pool
from mrtr_options.tool.notation import TEMPORAL

FAULTS = 1
"""Up to how many faults at a time every set is played."""


@dataclass
class Told:
    """The runs of one row of a table.

    Attributes:
        subject: What was called.
        row: What is kept of it, of more faults than are played.
        runs: For each set of faults, fewest first: the number of its story.
        stories: All that are different.
    """

    subject: Subject
    row: Row
    runs: dict[Faults, int] = field(default_factory=dict[Faults, int])
    stories: list[Story] = field(default_factory=list[Story])


Worlds = Mapping[Called, Row]
"""The rows that are shown, by what they are about."""


def worlds_of(rows: Iterable[Row]) -> dict[Called, Row]:
    """What each kept row is about, but for those that take Temporal to be played."""
    return {
        (subject_named(row["subject"]), calling(fleet=row["fleet"], policy=row["policy"])): row
        for row in rows
        if not row["subject"].endswith(f"+{TEMPORAL}")
    }


def tell(worlds: Worlds, on_world: Callable[[str], None] = lambda name: None) -> list[Told]:
    """Play what the page shows of some rows, on all processors; tells the name of each that is
    done.
    """
    with pool(__name__) as processes:
        running = {
            processes.submit(at_work, tell_one, *called, row): called
            for called, row in worlds.items()
        }
        for done in as_completed(running):
            subject, scenario = running[done]
            setup = scenario.setup
            on_world(f"{subject.name}, {setup.fleet}, {setup.policy}, {setup.era}")
        return [each.result() for each in running]


def tell_one(subject: Subject, scenario: Scenario, row: Row) -> Told:
    """Play every single fault, and the sets of more that a row names."""
    return anyio.run(_tell, subject, scenario, row, backend_options=options_of(subject))


async def _tell(subject: Subject, scenario: Scenario, row: Row) -> Told:
    counterexamples: dict[str, list[str]] = row["witnesses"]
    shown = {parse(each) for sets in counterexamples.values() for each in sets}
    told = Told(subject, row)
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
                number = numbers.setdefault(story(history, watched), len(numbers))
                told.runs[history.scenario.faults] = number

            async for history in explore(subject, scenario, FAULTS, play):
                take(history)
            for faults in sorted(shown - told.runs.keys()):
                take(await play(scenario.under(faults)))
    told.stories = list(numbers)
    return told
