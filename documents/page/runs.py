"""The runs that the page shows: every single fault, and the larger sets that show an anomaly.

The tables are those of docs/data/explored.json; only the runs that their cells open are played. If
many sets of faults lead to one story, it is kept once. Knows the exploration; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace

import anyio

from documents.page.stories import Story, Watched, story
from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.faults import Faults, parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.explore import explore
from mrtr_options.review.explore.pool import do_task, pool
from mrtr_options.review.explore.summary import Row
from mrtr_options.review.explore.workers import Called, options_of
from mrtr_options.tool.notation import TEMPORAL

FAULTS = 1
"""Every set of up to this many faults is played."""


@dataclass
class Told:
    """The runs of one row of a table.

    Attributes:
        subject: The subject of the runs.
        row: Its kept row, which covers more faults than are played here.
        runs: The number of each set's story, smallest sets first.
        stories: The different stories.
    """

    subject: Subject
    row: Row
    runs: dict[Faults, int] = field(default_factory=dict[Faults, int])
    stories: list[Story] = field(default_factory=list[Story])


Worlds = Mapping[Called, Row]
"""The rows that are shown, by subject and scenario."""


def worlds_of(rows: Iterable[Row]) -> dict[Called, Row]:
    """Return the kept rows by subject and scenario, without those that need Temporal."""
    return {
        (subject_named(row["subject"]), calling(fleet=row["fleet"], policy=row["policy"])): row
        for row in rows
        if not row["subject"].endswith(f"+{TEMPORAL}")
    }


def tell(worlds: Worlds, on_world: Callable[[str], None] = lambda name: None) -> list[Told]:
    """Play the runs of some rows on all processors; `on_world` gets the name of each row."""
    with pool(__name__) as processes:
        running = {
            processes.submit(do_task, tell_one, *called, row): called
            for called, row in worlds.items()
        }
        for done in as_completed(running):
            subject, scenario = running[done]
            setup = scenario.setup
            on_world(f"{subject.title}, {setup.fleet}, {setup.policy}, {setup.era}")
        return [each.result() for each in running]


def tell_one(subject: Subject, scenario: Scenario, row: Row) -> Told:
    """Play every single fault, and the larger sets that the row names."""
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
