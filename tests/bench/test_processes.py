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
from mrtr_options.bench.schedules import SCHEDULES, named
from mrtr_options.bench.subjects import Subject, all_subjects
from mrtr_options.judge.reading import Observation, observe
from mrtr_options.tool.catalogue import option_at
from tests.bounds import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SUBJECTS = {subject.name: subject for subject in all_subjects()}
SPRINGFIELD = "Springfield, Illinois: 22 °C, partly cloudy."
QUESTIONS = ("Which Springfield?", "Which units for Springfield, Illinois?")


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Generator[None]:
    """Every test ends its processes."""
    yield
    assert multiprocessing.active_children() == []


async def on_processes(subject: str, scenario: Scenario) -> Observation:
    """What is seen of a scenario on two processes."""
    with anyio.fail_after(SECONDS):
        return observe(await run(SUBJECTS[subject], scenario, Processes()))


def bills(seen: Observation) -> int:
    """How often the bill was written."""
    assert seen.least("bill") == seen.most("bill")
    return seen.most("bill")


# --- rounds on another process ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "slug"), [("E", "failover"), ("F", "restart"), ("G", "key-rotation")]
)
async def test_a_stateless_option_goes_on_in_any_process_with_the_effects_it_has_in_memory(
    subject: str, slug: str, shared_folder: Path
) -> None:
    expected = observe(await run(SUBJECTS[subject], named(slug)))
    seen = await on_processes(subject, named(slug))
    assert (seen.outcome, seen.text, seen.questions) == ("completed", SPRINGFIELD, QUESTIONS)
    assert (seen.effects, seen.rounds) == (expected.effects, expected.rounds)


async def test_a_state_is_no_good_to_processes_with_another_key(shared_folder: Path) -> None:
    seen = await on_processes("E", named("key-lost"))
    assert (seen.outcome, seen.code, bills(seen)) == ("refused", types.INVALID_PARAMS, 0)


async def test_a_parked_call_goes_on_in_the_process_that_holds_it(shared_folder: Path) -> None:
    seen = await on_processes("H", named("sticky"))
    assert (seen.outcome, seen.text, seen.questions) == ("completed", SPRINGFIELD, QUESTIONS)
    assert seen.effects == {"audit": 1, "bill": 1}


@pytest.mark.parametrize("slug", ["failover", "restart"])
async def test_a_parked_call_is_lost_in_another_process_in_one_clear_error(
    slug: str, shared_folder: Path
) -> None:
    # The restart alone has to lose the call, so every other round is where the call lives.
    scenario = named(slug)
    if slug == "restart":
        scenario = replace(scenario, setup=replace(scenario.setup, fleet="sticky"))
    seen = await on_processes("H", scenario)
    assert (seen.outcome, seen.code) == ("refused", types.INVALID_PARAMS)
    (refusal,) = seen.refusals
    assert (refusal.message or "").startswith("This call is not waiting on this server")
    assert len(seen.questions) == (2 if slug == "restart" else 1)
    assert seen.effects == {"audit": 1, "bill": 0}


# --- the same round twice -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "slug"), [("E+single-use", "lost-final"), ("F+single-use", "concurrent-final")]
)
async def test_processes_that_share_a_store_bill_a_final_round_once(
    subject: str, slug: str, shared_folder: Path
) -> None:
    seen = await on_processes(subject, named(slug))
    assert bills(seen) == 1
    if slug == "lost-final":  # of two at once, the one that waits may give up first on a slow machine
        assert (seen.outcome, seen.text) == ("completed", SPRINGFIELD)


@pytest.mark.parametrize("slug", ["lost-final", "concurrent-final"])
async def test_processes_that_share_no_store_bill_a_final_round_twice(
    slug: str, shared_folder: Path
) -> None:
    seen = await on_processes("E", named(slug))
    assert (seen.outcome, seen.text, bills(seen)) == ("completed", SPRINGFIELD, 2)


# --- faults -------------------------------------------------------------------------------------


async def test_a_process_that_dies_after_the_bill_bills_again_when_the_round_is_sent_again(
    shared_folder: Path,
) -> None:
    seen = await on_processes("E", named("crash-after-effect"))
    assert (seen.outcome, seen.text, bills(seen)) == ("completed", SPRINGFIELD, 2)


async def test_a_guarded_round_whose_process_died_is_billed_once_and_its_outcome_left_open(
    shared_folder: Path,
) -> None:
    seen = await on_processes("E+single-use", named("crash-after-effect"))
    assert (seen.outcome, seen.code, bills(seen)) == ("refused", types.REQUEST_TIMEOUT, 1)
    assert "its outcome is not known" in (seen.message or "")


@pytest.mark.parametrize(("subject", "times"), [("E", 2), ("E+single-use", 1)])
async def test_a_client_that_leaves_after_the_bill_is_billed_again_unless_the_round_is_guarded(
    subject: str, times: int, shared_folder: Path
) -> None:
    seen = await on_processes(subject, named("disconnect-after-effect"))
    assert (seen.outcome, seen.text, bills(seen)) == ("completed", SPRINGFIELD, times)


async def test_an_effect_that_fails_is_not_counted_and_may_be_tried_again(shared_folder: Path) -> None:
    seen = await on_processes("F", named("failed-bill"))
    assert (seen.outcome, seen.text) == ("completed", SPRINGFIELD)
    assert [refusal.code for refusal in seen.refusals] == [types.INTERNAL_ERROR]
    assert seen.effects == {"audit": 1, "bill": 1}


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


# --- the legacy era -----------------------------------------------------------------------------


async def test_a_legacy_client_has_the_whole_conversation_over_http(shared_folder: Path) -> None:
    seen = await on_processes("A", named("clean-springfield", "legacy"))
    assert (seen.outcome, seen.text, seen.questions) == ("completed", SPRINGFIELD, QUESTIONS)
    assert seen.effects == {"audit": 3, "bill": 1}


async def test_a_legacy_client_that_leaves_at_a_question_is_not_billed(shared_folder: Path) -> None:
    seen = await on_processes("A", named("abandoned", "legacy"))
    assert (seen.outcome, seen.questions, bills(seen)) == ("lost", QUESTIONS[:1], 0)


# --- the deployment itself ----------------------------------------------------------------------


def test_a_schedule_in_which_time_passes_cannot_be_played() -> None:
    left_out = [
        slug
        for slug, each in SCHEDULES.items()
        if not each.changes and Processes().cannot(each.scenario) is not None
    ]
    assert left_out == ["late-replay", "slow-user", "expired", "task-expired"]


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
