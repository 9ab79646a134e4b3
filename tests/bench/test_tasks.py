"""Tasks under review: what becomes of them in memory, and on two real processes."""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.bench.deployments.processes import Processes
from mrtr_options.bench.run import run
from mrtr_options.bench.schedules import SCHEDULES, named
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge import matrix
from mrtr_options.judge.guarantees import guarantees_of, observed
from mrtr_options.judge.reading import Observation
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS
from tests.evidence import every

CELLS = {
    "task-clean": {"1/1"},
    "task-lost-create": {"2/1"},
    "task-lost-update": {"1/1"},
    "task-update-twice": {"1/1"},
    "task-update-at-once": {"1/1"},
    "task-two-answers": {"1/1"},
    "task-unknown-keys": {"1/1"},
    "task-partial-keys": {"1/1"},
    "task-bad-answer": {"1/1"},
    "task-decline": {"1/0"},
    "task-cannot-ask": {"1/0"},
    "task-other-principal": {"1/1"},
    "task-guessed": {"ref"},
    "task-undeclared": {"ref"},
    "task-cancel": {"can"},
    "task-cancel-finished": {"1/1"},
    "task-cancel-races": {"1/1", "can"},
    "task-expired": {"ref"},
    "task-killed-working": {"1/2"},
    "task-killed-working-keyed": {"1/1"},
    "task-killed-waiting": {"1/1"},
    "task-killed-completed": {"1/1"},
    "task-killed-failed": {"ref"},
    "task-killed-cancelled": {"can"},
}
"""What each schedule shows of K; a race may end either way."""


def test_every_task_schedule_is_in_the_table() -> None:
    assert set(CELLS) == {slug for slug, schedule in SCHEDULES.items() if schedule.takes_tasks}


@pytest.mark.parametrize("slug", CELLS)
def test_a_task_fares_as_the_table_says(slug: str, observations: list[Observation]) -> None:
    seen = [each for each in observations if each.schedule == slug]
    assert {each.subject for each in seen} == {"K"}
    assert "two" in {each.deployment for each in seen}
    assert {each.cell for each in seen} <= CELLS[slug]


def test_a_task_is_not_given_to_an_option_that_has_none() -> None:
    cells = matrix.cells([Subject(option_named("L"))], schedules=[SCHEDULES["task-clean"]])
    assert cells == []


K = Subject(option_named("K"))
ONE_OF_EACH = ("task-lost-create", "task-cancel-races", "task-killed-working")
"""A lost response, a race and a kill; `test_tasks_processes` kills in each status."""

SLUGS = {slug: slug for slug in CELLS if slug != "task-expired"}


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("slug", every("tasks on two processes", SLUGS, ONE_OF_EACH))
async def test_a_task_on_two_processes_keeps_every_guarantee(slug: str) -> None:
    with anyio.fail_after(SECONDS):
        seen = observed(await run(K, named(slug), Processes()), guarantees_of(K))
    assert seen.cell in CELLS[slug]
    assert matrix.judge(K, [seen]).broken == []
