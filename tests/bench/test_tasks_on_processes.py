"""Tasks on two real processes, which are killed where a schedule kills: every guarantee holds there too.

A file of its own, since where several processes run the tests a file is run by one of them.
"""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.bench.deployments.processes import Processes
from mrtr_options.bench.run import run
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge import matrix
from mrtr_options.judge.guarantees import guarantees_of, observed
from mrtr_options.tool.catalogue import option_named
from tests.bench.test_tasks import CELLS
from tests.bounds import SECONDS
from tests.evidence import every

pytestmark = pytest.mark.slow

K = Subject(option_named("K"))
ONE_OF_EACH = ("task-lost-create", "task-cancel-races", "task-killed-working")
"""A lost response, a race and a kill; `test_tasks_processes` kills in each status."""

SLUGS = {slug: slug for slug in CELLS if slug != "task-expired"}


@pytest.mark.anyio
@pytest.mark.parametrize("slug", every("tasks on two processes", SLUGS, ONE_OF_EACH))
async def test_a_task_on_two_processes_keeps_every_guarantee(slug: str) -> None:
    with anyio.fail_after(SECONDS):
        seen = observed(await run(K, named(slug), Processes()), guarantees_of(K))
    assert seen.cell in CELLS[slug]
    assert matrix.judge(K, [seen]).broken == []
