"""Schedules on real processes: what the memory deployment only plays at happens here.

Two server processes behind HTTP on 127.0.0.1, killed by SIGKILL where a schedule restarts or crashes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext

from mrtr_options.bench.client import agreeable
from mrtr_options.bench.deployments import HANG_SECONDS
from mrtr_options.bench.deployments.processes import Processes, ProcessInstances
from mrtr_options.bench.history import HUNG, LOST, Reply, Request
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import Scenario
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject, all_subjects
from mrtr_options.judge.reading import Observation, observe
from mrtr_options.tool.catalogue import option_at
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SUBJECTS = {subject.name: subject for subject in all_subjects()}


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Generator[None]:
    """Every test ends its processes."""
    yield
    assert multiprocessing.active_children() == []


async def on_processes(subject: str, scenario: Scenario) -> Observation:
    """What is seen of a scenario on two processes."""
    with anyio.fail_after(SECONDS):
        return observe(await run(SUBJECTS[subject], scenario, Processes()))


def on_sticky(slug: str) -> Scenario:
    """A schedule whose every round goes to the process where the call lives."""
    scenario = named(slug)
    return replace(scenario, setup=replace(scenario.setup, fleet="sticky"))


# --- as in memory -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "scenario"),
    [
        ("E", named("failover")),
        ("F", named("restart")),
        ("G", named("key-rotation")),
        ("E", named("key-lost")),
        ("H", named("sticky")),
        ("H", named("failover")),
        ("H", on_sticky("restart")),
        ("E", named("lost-final")),
        ("E+single-use", named("lost-final")),
        ("E", named("concurrent-final")),
        ("E", named("crash-after-effect")),
        ("E+single-use", named("crash-after-effect")),
        ("E", named("disconnect-after-effect")),
        ("E+single-use", named("disconnect-after-effect")),
        ("F", named("failed-bill")),
        ("A", named("clean-springfield", "legacy")),
        ("A", named("abandoned", "legacy")),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
async def test_a_schedule_fares_on_processes_as_in_memory(subject: str, scenario: Scenario) -> None:
    def fate(seen: Observation) -> tuple[object, ...]:
        return seen.outcome, seen.code, seen.message, seen.text, seen.questions, seen.effects

    assert fate(await on_processes(subject, scenario)) == fate(
        observe(await run(SUBJECTS[subject], scenario))
    )


async def test_processes_that_share_a_store_bill_a_final_round_once_also_at_once() -> None:
    """One of the two waits, and gives up on a slow machine."""
    assert (await on_processes("F+single-use", named("concurrent-final"))).most("bill") == 1


# --- faults -------------------------------------------------------------------------------------


async def test_a_request_to_a_process_that_dies_is_lost_and_another_process_takes_its_place(
    shared_folder: Path,
) -> None:
    with anyio.fail_after(SECONDS):
        async with ProcessInstances(SUBJECTS["A"], shared_folder).running() as deployment:
            before = {process.pid for process in multiprocessing.active_children()}
            for instance in range(deployment.instances):
                await deployment.arm("crash@audit")
                with anyio.fail_after(HANG_SECONDS):
                    reply = await deployment.send(instance, Request("Tokyo"))
                assert reply == Reply(nothing=LOST)
                await deployment.arm(None)
                assert (await deployment.send(instance, Request("Tokyo"))).questions
            after = {process.pid for process in multiprocessing.active_children()}
            assert len(after) == len(before) == 2
            assert not before & after
            assert (await deployment.effects())["audit"] == 4


async def test_a_request_whose_client_leaves_is_lost_and_its_process_lives(shared_folder: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with ProcessInstances(SUBJECTS["E"], shared_folder).running() as deployment:
            before = {process.pid for process in multiprocessing.active_children()}
            for instance in range(deployment.instances):
                await deployment.arm("gone@audit")
                assert await deployment.send(instance, Request("Tokyo")) == Reply(nothing=LOST)
                await deployment.arm(None)
                assert (await deployment.send(instance, Request("Tokyo"))).questions
            assert {process.pid for process in multiprocessing.active_children()} == before
            assert (await deployment.effects())["audit"] == 4


async def test_a_legacy_call_to_a_process_that_dies_is_lost(shared_folder: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with ProcessInstances(SUBJECTS["A"], shared_folder).running() as deployment:
            await deployment.arm("crash@bill")
            with anyio.fail_after(HANG_SECONDS):
                reply = await deployment.send(0, Request("Springfield", era="legacy"), _user)
            assert reply == Reply(nothing=LOST)
            assert await deployment.effects() == {"audit": 3, "bill": 1}


async def _user(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


# --- the deployment itself ----------------------------------------------------------------------


async def test_the_start_of_a_process_is_no_part_of_a_request(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option, started = SUBJECTS["E"].option, shared_folder / "started"
    file = shared_folder / option.path.name
    says = f"\nfrom pathlib import Path\n\nPath({str(started)!r}).touch()\n"
    file.write_text(option.path.read_text(encoding="utf-8") + says, encoding="utf-8")
    with anyio.fail_after(SECONDS):
        async with ProcessInstances(Subject(option_at(file)), shared_folder).running() as deployment:
            with monkeypatch.context() as hurried:
                hurried.setattr(deployment, "hang_seconds", 0)
                assert await deployment.send(0, Request("Tokyo")) == Reply(nothing=HUNG)
            assert started.exists()
            assert (await deployment.send(0, Request("Tokyo"))).questions


async def test_processes_end_with_the_block_also_when_it_fails(shared_folder: Path) -> None:
    with anyio.fail_after(SECONDS), pytest.raises(ZeroDivisionError):
        await _fail_among(ProcessInstances(SUBJECTS["E"], shared_folder))
    assert multiprocessing.active_children() == []


async def _fail_among(instances: ProcessInstances) -> None:
    async with instances.running():
        assert len(multiprocessing.active_children()) == 2
        raise ZeroDivisionError


async def test_processes_end_with_the_block_also_when_it_is_cancelled(shared_folder: Path) -> None:
    with anyio.fail_after(SECONDS), anyio.CancelScope() as scope:
        async with ProcessInstances(SUBJECTS["E"], shared_folder).running():
            scope.cancel()
            await anyio.sleep_forever()
    assert multiprocessing.active_children() == []


async def test_files_are_shared_within_a_deployment_only(shared_folder: Path) -> None:
    subject = Subject(SUBJECTS["E"].option)
    with anyio.fail_after(SECONDS):
        for name in ("one", "other"):
            (shared_folder / name).mkdir()
            async with ProcessInstances(subject, shared_folder / name).running() as deployment:
                for instance in range(deployment.instances):
                    await deployment.send(instance, Request("Tokyo"))
                assert await deployment.effects() == {"audit": 2, "bill": 0}
