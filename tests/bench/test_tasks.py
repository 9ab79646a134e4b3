"""Tasks on real processes that are killed. What becomes of them in memory: docs/RESULTS.md."""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.bench.deployments.processes import Processes
from mrtr_options.bench.faults import parse
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import calling
from mrtr_options.bench.schedules import SCHEDULES, named
from mrtr_options.bench.subjects import Subject, subject_named
from mrtr_options.judge import matrix
from mrtr_options.judge.counterexamples import wrong
from mrtr_options.judge.guarantees import guarantees_of, observed
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS
from tests.evidence import every


def test_a_task_is_not_given_to_an_option_that_has_none() -> None:
    cells = matrix.cells([Subject(option_named("L"))], schedules=[SCHEDULES["task-clean"]])
    assert cells == []


K = Subject(option_named("K"))
ONE_OF_EACH = (
    *("task-lost-create", "task-cancel-races", "task-killed-working", "task-killed-working-keyed"),
    *(f"task-killed-{status}" for status in ("waiting", "completed", "failed", "cancelled")),
)
"""A lost response, a race, and a kill in each status."""

SLUGS = {
    slug: slug
    for slug, schedule in SCHEDULES.items()
    if schedule.takes_tasks and Processes().cannot(schedule.scenario) is None
}


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("slug", every("tasks on two processes", SLUGS, ONE_OF_EACH))
async def test_a_task_on_two_processes_keeps_every_guarantee(slug: str) -> None:
    with anyio.fail_after(SECONDS):
        seen = observed(await run(K, named(slug), Processes()), guarantees_of(K))
    assert not matrix.judge(K, [seen])


@pytest.mark.anyio
@pytest.mark.slow
async def test_work_that_is_begun_again_since_its_process_died_is_not_wrong() -> None:
    subject = subject_named("Lᵏ")
    with anyio.fail_after(SECONDS):
        history = await run(subject, calling().under(parse("crash@audit1 back2")))
    assert wrong(subject, history) is None
