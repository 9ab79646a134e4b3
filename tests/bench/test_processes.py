"""Tests of schedules on real processes, where the faults are real and not simulated.

Two server processes behind HTTP on 127.0.0.1, killed by SIGKILL where a schedule restarts or
crashes.
"""

import multiprocessing
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from mrtr_options.review.bench.deployments import HANG_SECONDS
from mrtr_options.review.bench.deployments.processes import Processes, ProcessInstances
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Effect
from mrtr_options.review.bench.messages import LOST, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.explore.counterexamples import first_breach
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.guarantees import guarantees_of, judge_history
from mrtr_options.review.judge.observation import Observation, observe
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS
from tests.evidence import every

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Generator[None]:
    """Check that every test ends its processes."""
    yield
    assert multiprocessing.active_children() == []


async def on_processes(subject: str, scenario: Scenario) -> Observation:
    """Run a scenario on two processes and return what was observed."""
    with anyio.fail_after(SECONDS):
        return observe(await run(subject_named(subject), scenario, Processes()))


PLAYED = {
    f"{subject}-{scenario.name}": (subject, scenario)
    for subject, scenario in (
        ("E", named("failover")),
        ("F", named("restart")),
        ("E", named("key-lost")),
        ("H", replace(named("restart"), setup=replace(named("restart").setup, fleet="sticky"))),
        ("E", named("concurrent-final")),
        ("E+guard", named("crash-after-effect")),
        ("E", named("disconnect-after-effect")),
        ("F", named("failed-bill")),
        ("A", named("abandoned", "legacy")),
        ("L", named("restart")),
        ("L", named("crash-after-effect")),
        ("L", named("crash-after-effect-keyed")),
    )
}
FEW = [name for name in PLAYED if not name.startswith("L-crash")]


@pytest.mark.parametrize("case", every("schedules on processes", PLAYED, FEW))
async def test_a_schedule_fares_on_processes_as_in_memory(case: tuple[str, Scenario]) -> None:
    subject, scenario = case

    def fate(seen: Observation) -> tuple[object, ...]:
        return seen.outcome, seen.code, seen.message, seen.text, seen.questions, seen.effects

    in_memory = observe(await run(subject_named(subject), scenario))
    assert fate(await on_processes(subject, scenario)) == fate(in_memory)


@pytest.mark.parametrize(("fault", "lives"), [("crash@audit", False), ("gone@audit", True)])
async def test_a_request_that_something_ends_is_lost_and_the_next_is_answered(
    fault: str, lives: bool, shared_folder: Path
) -> None:
    with anyio.fail_after(SECONDS):
        async with ProcessInstances(subject_named("A"), shared_folder).running() as deployment:
            before = {process.pid for process in multiprocessing.active_children()}
            for instance in range(deployment.instances):
                await deployment.arm(fault)
                with anyio.fail_after(HANG_SECONDS):
                    reply = await deployment.send(instance, Request("Tokyo"))
                assert reply.nothing == LOST
                await deployment.arm(None)
                assert (await deployment.send(instance, Request("Tokyo"))).questions
            after = {process.pid for process in multiprocessing.active_children()}
            assert len(after) == len(before) == 2
            assert after == before if lives else not before & after
            done = [event for event in deployment.recording.events if isinstance(event, Effect)]
            assert [each.effect.kind for each in done].count("audit") == 4


async def test_processes_end_with_a_block_that_is_cancelled(shared_folder: Path) -> None:
    with anyio.fail_after(SECONDS), anyio.CancelScope() as scope:
        async with ProcessInstances(subject_named("E"), shared_folder).running():
            scope.cancel()
            await anyio.sleep_forever()
    assert multiprocessing.active_children() == []


K = Subject(option_named("K"))
ONE_OF_EACH = (
    "task-lost-create",
    "task-cancel-races",
    "task-killed-working-keyed",
    "task-killed-waiting",
)
"""A lost response, a race, and a kill in two statuses."""

SLUGS = {
    slug: slug
    for slug, schedule in SCHEDULES.items()
    if schedule.scenario.takes_tasks and Processes().cannot(schedule.scenario) is None
}


@pytest.mark.parametrize("slug", every("tasks on a process", SLUGS, ONE_OF_EACH))
async def test_a_task_on_a_process_that_is_killed_keeps_every_guarantee(slug: str) -> None:
    with anyio.fail_after(SECONDS):
        seen = judge_history(await run(K, named(slug), Processes()), guarantees_of(K))
    assert not grid.judge(K, [seen])


async def test_work_that_is_begun_again_since_its_process_died_is_not_wrong() -> None:
    subject = subject_named("L+call-key")
    with anyio.fail_after(SECONDS):
        history = await run(subject, calling().under(parse("crash@audit1 back2")))
    assert first_breach(subject, history) is None
