"""The matrix: its runs, how they are made, and the rules and guarantees that they keep or break.

Knows the bench and the properties; nothing of how results are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mrtr_options.review.bench.deployments import Offered, offered
from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import ERAS, Era, JsonObject
from mrtr_options.review.bench.redeploys import why_not
from mrtr_options.review.bench.run import in_memory
from mrtr_options.review.bench.run import run as run_one
from mrtr_options.review.bench.scenario import Scenario, Schedule
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.steps import Together
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.guarantees import (
    Broken,
    find_broken,
    guarantees_of,
    held_to,
    judge_history,
)
from mrtr_options.review.judge.observation import Observation, merge

IN_MEMORY = ("one", "two")
"""The deployments of the whole matrix."""

LOST_RESPONSES = (
    "lost-first",
    "lost-interim",
    "lost-interim-resent",
    "lost-final",
    "lost-final-anew",
)
"""The rows that no SDK tests."""


# --- running ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One run to be made."""

    subject: Subject
    scenario: Scenario
    deployment: str

    @property
    def name(self) -> str:
        """The name of the run while it is made."""
        scenario = self.scenario
        return f"{self.subject.title}: {scenario.name}, {scenario.setup.era}, {self.deployment}"

    @property
    def missing(self) -> str:
        """The reason why it cannot be made, a missing next version; "" if it can be made."""
        return why_not(self.subject.option, self.scenario.changes)

    def as_json(self) -> JsonObject:
        """Return one JSON object, for a run that was not made."""
        return {
            "option": self.subject.option.letter,
            "wrappers": self.subject.wrappers,
            "era": self.scenario.setup.era,
            "deployment": self.deployment,
            "schedule": self.scenario.name,
            "not_tried": self.missing,
        }


def cells(
    subjects: Sequence[Subject],
    *,
    schedules: Sequence[Schedule] | None = None,
    deployments: Sequence[str] = IN_MEMORY,
) -> list[Cell]:
    """Return every possible run: a schedule that does not apply to an era has none in it."""
    return split(subjects, schedules=schedules, deployments=deployments)[0]


def split(
    subjects: Sequence[Subject],
    *,
    schedules: Sequence[Schedule] | None = None,
    eras: Sequence[Era] = ERAS,
    deployments: Sequence[str] = IN_MEMORY,
) -> tuple[list[Cell], list[Cell]]:
    """Return the possible runs, and those that lack a version to deploy and are not tried."""
    every = [
        Cell(subject, scenario, name)
        for name in deployments
        for era in eras
        for scenario in _scenarios_on(offered()[name], era, schedules)
        for subject in subjects
        if subject.option.takes_tasks or not scenario.takes_tasks
    ]
    return [cell for cell in every if not cell.missing], [cell for cell in every if cell.missing]


def _scenarios_on(
    where: Offered, era: Era, schedules: Sequence[Schedule] | None
) -> Iterator[Scenario]:
    """Yield the schedules of an era that can run on a deployment; None for all schedules."""
    for schedule in SCHEDULES.values() if schedules is None else schedules:
        scenario = schedule.of(era)
        if scenario is None or where.where.cannot(scenario) is not None:
            continue
        if where.instances > 1:
            yield scenario
        elif not scenario.needs_two:
            yield scenario.on_one()


async def run(
    to_run: Sequence[Cell], on_begin: Callable[[str], None] = lambda name: None
) -> list[Observation]:
    """Make the runs, one after the other. `on_begin` gets the name of each before it is made."""
    observations: list[Observation] = []
    subjects = [
        cell.subject for cell in to_run if isinstance(offered()[cell.deployment].where, Memory)
    ]
    async with in_memory(subjects) as memory:
        for cell in to_run:
            on_begin(cell.name)
            own = guarantees_of(cell.subject)
            found = merge([judge_history(each, own) for each in await _play_cell(cell, memory)])
            observations.append(replace(found, deployment=cell.deployment))
    return observations


async def _play_cell(cell: Cell, memory: Memory) -> list[History]:
    where = [offered()[cell.deployment].where]
    if isinstance(where[0], Memory):
        # Two deliveries at once interleave in more than one way: fewer turns, and more.
        turns = (1, 0, 3) if _depends_on_timing(cell.scenario) else (where[0].turns,)
        where = [replace(where[0], turns=each, database=memory.database) for each in turns]
    return [await run_one(cell.subject, cell.scenario, each) for each in where]


def _depends_on_timing(scenario: Scenario) -> bool:
    if any(fault.name == "both" for fault in scenario.faults):
        return True
    if scenario.setup.era != "modern":
        return False
    return any(step.again == "at once" or isinstance(step, Together) for step in scenario.script)


# --- judging -----------------------------------------------------------------------------------


def judge(subject: Subject, observations: Sequence[Observation]) -> Broken:
    """Hold one subject's observations against the contract and its own guarantees."""
    own = guarantees_of(subject)
    return find_broken(
        [each for each in observations if each.subject == subject.name], held_to(own), own
    )


def describe_broken(subject: Subject, lacks: Broken) -> list[str]:
    """Return a line for each broken rule or guarantee: its name, the run, and the reason."""
    return [
        f"{subject.title} breaks the {each.noun} {each.name} under {seen.schedule}"
        f" ({seen.era}, {seen.deployment}): {seen.breaks[each.name]}"
        for each, seen in lacks
    ]
