"""Tasks on two real processes, which are killed where a schedule kills: every guarantee holds there too.

A file of its own, since where several processes run the tests a file is run by one of them.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from mrtr_options.bench.observations import observe
from mrtr_options.bench.player import play
from mrtr_options.bench.processes import ProcessDeployment
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import matrix
from mrtr_options.judge.guarantees import broken, guaranteed
from mrtr_options.tool.catalogue import option_named
from tests.bench.test_tasks import CELLS
from tests.bounds import SECONDS
from tests.evidence import every

pytestmark = pytest.mark.slow

K = Column(option_named("K"))
ONE_OF_EACH = ("task-lost-create", "task-cancel-races", "task-killed-working")
"""A lost response, a race and a kill; `test_tasks_processes` kills in each status."""

SLUGS = {slug: slug for slug in CELLS if slug != "task-expired"}


@pytest.mark.anyio
@pytest.mark.parametrize("slug", every("tasks on two processes", SLUGS, ONE_OF_EACH))
async def test_a_task_on_two_processes_keeps_every_guarantee(slug: str, shared_folder: Path) -> None:
    schedule = SCHEDULES[slug]
    with anyio.fail_after(SECONDS):
        async with ProcessDeployment(
            K, shared_folder, honours_keys=schedule.honours_keys
        ).running() as both:
            seen = observe(await play(schedule, "modern", both, K))
    own = matrix.guarantees_of(K)
    assert seen.cell in CELLS[slug]
    assert broken([seen], guaranteed(own), own) == []
