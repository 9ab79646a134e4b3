"""Tests of the guard's stores in trouble: jumping clocks, locked files, many expired rounds."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.effects import in_doubt
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.single_use import sqlite as sqlite_store
from mrtr_options.sdk.single_use.outcomes import write_error, write_response
from mrtr_options.sdk.single_use.reservations import (
    Abandoned,
    Claim,
    Forgotten,
    Full,
    OtherArguments,
    Pending,
    Unanswered,
    Unusable,
)
from mrtr_options.sdk.single_use.round_state import RoundState, digest_of_answers
from mrtr_options.sdk.single_use.sql import EPOCHS, PORTION
from tests.sdk.fakes import ON_ASYNCIO, Params, deliver, key_made, refused, result, who
from tests.sdk.guarded_tool import ADA, INDETERMINATE, Tool
from tests.sdk.stores import Database, claim, sqlite, statements_of

pytestmark = pytest.mark.anyio

HOUR = 3600.0
YEAR = 365 * 24 * 3600.0


@ON_ASYNCIO
@pytest.mark.parametrize("rounds", [1, 40])
@pytest.mark.parametrize("jump", [HOUR, YEAR, -HOUR, -YEAR])
async def test_a_clock_that_jumps_and_comes_back_refuses_no_new_call_and_runs_no_round_twice(
    jump: float, rounds: int, path: Path
) -> None:
    now = 2_000_000_000.0
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        tool = Tool()
        key = key_made(now)
        handler = single_use(store)(tool)
        early = await deliver(handler)
        keyed = await deliver(handler, key=key)
        await deliver(handler, early, ADA)
        await deliver(handler, keyed, ADA, key=key)
        for number in range(3 * EPOCHS // rounds + 2):  # jumps, and ways back
            now += jump if number % 2 == 0 else -jump
            for _ in range(rounds):
                ended = await deliver(handler, await deliver(handler), ADA)
                assert ended == result("Ada, asked 1 times")
                if number % 2:  # it is back
                    assert await deliver(handler, key=key_made(now)) is not None
                now += 10
            done = len(tool.effects)
            for sent in (early, keyed, None):
                with suppress(MCPError):
                    assert await deliver(handler, sent, ADA if sent else None, key=key)
            assert len(tool.effects) == done


async def test_a_named_call_is_known_after_a_clock_was_ahead_for_a_while(path: Path) -> None:
    now = 2_000_000_000.0
    tool = Tool()
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        guard = single_use(store, call="x", call_is_secret=True)
        handler = guard(tool)
        await deliver(handler, await deliver(handler, x=1), ADA, x=1)
        now += 25 * HOUR
        for other in range(100):
            await deliver(handler, x=other + 10)
        now -= 24 * HOUR
        assert await deliver(handler, x=1) == result("Ada, asked 1 times")
    assert tool.effects == ["Ada"]


@pytest.mark.parametrize(("ahead", "lease"), [(5.0, 65.0), (HOUR, 60.0)], ids=["seconds", "hour"])
async def test_a_lease_from_a_clock_that_was_ahead_is_no_longer_than_one_that_begins_now(
    ahead: float, lease: float, path: Path
) -> None:
    now = 2e9 + ahead
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        begun = await claim(store, "call", call="call", call_seconds=24 * HOUR)
        again = replace(begun, owner="another delivery")
        await store.reserve(begun)
        now = 2e9
        with pytest.raises(Pending):
            await store.reserve(again)
        now += lease - 1
        with pytest.raises(Pending):
            await store.reserve(again)
        now += 1
        with pytest.raises(Abandoned):
            await store.reserve(again)


async def test_a_call_key_that_is_forgotten_is_refused_when_the_clock_has_come_back(
    path: Path,
) -> None:
    now = 2e9
    key = key_made(now)
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        handler = single_use(store)(Tool())
        await deliver(handler, await deliver(handler, key=key), ADA, key=key)
        for _ in range(EPOCHS + 2):
            now += HOUR
            await deliver(handler, await deliver(handler), ADA)
            now -= HOUR
            await deliver(handler, await deliver(handler), ADA)
        assert await refused(handler, key=key) == (types.INVALID_PARAMS, "call_key_expired")


async def test_two_clocks_on_one_file_end_open_calls_and_run_none_again(path: Path) -> None:
    tool = Tool()
    with (
        closing(SqliteStore(path, clock=lambda: 2e9)) as store,
        closing(SqliteStore(path, clock=lambda: 2e9 + 61)) as ahead,
    ):
        here, there = (
            single_use(each, call="x", call_is_secret=True)(tool) for each in (store, ahead)
        )
        await deliver(here, await deliver(here, x=1), ADA, x=1)
        left = await deliver(here, x=2)
        for x in range(10, EPOCHS + 11):
            await deliver(here, x=x)
            await deliver(there, x=-x)
        expected = (types.INVALID_PARAMS, "request_state_expired")
        assert await refused(here, left, ADA, x=2) == expected
        for handler in (here, there):
            assert await deliver(handler, x=1) == result("Ada, asked 1 times")
    assert tool.effects == ["Ada"]


async def one_call(store: Any, number: str, rounds: int = 3) -> None:
    """Take and record the rounds of a call that its server named."""
    more: Any = {"call": number, "caller": "host", "call_seconds": 24 * HOUR}
    for nth in range(rounds):
        name = number if nth == 0 else f"{number}, round {nth}"
        made = await claim(store, name, **more)
        assert await store.reserve(made) is None
        asked_at = None if nth == rounds - 1 else made.begins
        assert await store.record(replace(made, asked_at=asked_at), name)
        more |= {"has_begun": True, "begins": made.begins}


async def test_an_ended_call_with_a_name_is_one_row_in_a_quarter_of_an_hour(path: Path) -> None:
    now = 2e9
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        for number in range(3):
            await one_call(store, f"call {number}")
        for _ in range(EPOCHS + 1):
            now += 65
            await store.reserve(await claim(store, f"at {now}"))
        rows = [each for each in sqlite(path).rounds() if each[0].startswith("call")]
        ends = [f"call {number}, round 2" for number in range(3)]
        assert rows == [(end, True) for end in ends]
        again = await claim(store, "call 1", call="call 1", call_seconds=24 * HOUR)
        assert await store.reserve(again) == ends[1]


@pytest.mark.parametrize("bound", ["max_rounds", "max_rounds_per_caller"])
async def test_a_full_store_refuses_calls_that_begin_and_none_that_has_begun(
    bound: str, database: Database
) -> None:
    with database.open(**{bound: 3}) as store:
        await one_call(store, "call")
        with pytest.raises(Full):
            await one_call(store, "other")
        without_name = await claim(store, "round 2", caller="host", has_begun=True)
        assert await store.reserve(without_name) is None
        for number in range(26):
            await store.reserve(await claim(store, f"{number}", caller="host", has_begun=True))
        with pytest.raises(Full):  # of a caller that goes on and on
            await store.reserve(await claim(store, "last", caller="host", has_begun=True))


async def test_what_is_old_is_forgotten_in_portions_by_any_process(database: Database) -> None:
    many = 4 * PORTION
    epoch_ends = "UPDATE guard_horizon SET started = started - 100"
    with database.open() as store:
        for number in range(many):
            await store.reserve(await claim(store, f"{number}"))
    database.execute("UPDATE guard_rounds SET lasts = -1")
    held = [many]
    for process in range(2):
        database.execute(epoch_ends)
        with database.open() as store:
            for number in range(3):
                await store.reserve(await claim(store, f"{process} {number}"))
                held.append(len(database.rounds()))
    forgotten = [before + 1 - after for before, after in pairwise(held)]
    assert forgotten == [PORTION] * 4 + [0, 0]


async def test_rounds_that_wait_for_a_locked_file_share_one_limit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 0.8
    monkeypatch.setattr(sqlite_store, "PATIENCE_SECONDS", limit)
    with (
        closing(SqliteStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        claims = [await claim(store, f"{number}") for number in range(20)]
        other.execute("BEGIN IMMEDIATE")
        waited: list[float] = []
        began = anyio.current_time()

        async def reserve(number: int) -> None:
            with pytest.raises(Unusable, match="locked"):
                await store.reserve(claims[number])
            waited.append(anyio.current_time() - began)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(reserve, number)
        other.execute("ROLLBACK")
        assert max(waited) < 19 * limit, "they waited one after the other"
        for each in claims:
            assert await store.reserve(each) is None, "the store waits as long as before"


@pytest.mark.parametrize(("between", "grows"), [(10, False), (10_000, True)])
async def test_what_is_written_goes_into_the_file_itself_again_and_again(
    between: int, grows: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "WRITES_BETWEEN_CHECKPOINTS", between)
    beside = path.with_name(f"{path.name}-wal")
    sizes = list[int]()
    with closing(SqliteStore(path)) as store:
        for number in range(100):
            held = await claim(store, f"{number}")
            await store.reserve(held)
            await store.record(held, "x" * 1000)
            sizes.append(os.stat(beside).st_size)
    assert (sizes[-1] > 2 * sizes[30]) == grows


@pytest.mark.parametrize(
    ("before", "after"), [(None, 0o600), (0o644, 0o640), (0o666, 0o660), (0o600, 0o600)]
)
def test_a_file_is_its_owners_and_what_is_beside_it(
    before: int | None, after: int, path: Path
) -> None:
    if before is not None:
        path.touch()
        path.chmod(before)
    old = os.umask(0o022)
    try:
        with closing(SqliteStore(path)):
            beside = sorted(path.parent.glob(f"{path.name}-*"))
            assert len(beside) == 2
            modes = {stat.S_IMODE(each.stat().st_mode) for each in (path, *beside)}
            assert modes == {after}
    finally:
        os.umask(old)


async def test_a_question_is_stamped_without_a_look_into_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.open() as store:
        statements = statements_of(store, monkeypatch)
        handler = single_use(store)(Tool())
        asked = [await deliver(handler) for _ in range(5)]
        assert len(statements) == 1
        assert await deliver(handler, asked[-1], ADA) == result("Ada, asked 1 times")
        assert len(statements) == 4, "a look, the round, its outcome"


@pytest.mark.parametrize(
    ("outcome", "asked_at", "age", "became"),
    [
        (None, None, 0, "open"),
        (None, None, HOUR, "in doubt"),
        (write_error(in_doubt(["pay"])), None, 0, "in doubt"),
        ("a question", 2e9, 0, "open"),
        ("a result", None, HOUR, "ended"),
    ],
    ids=["at work", "died", "in doubt", "asked", "ended"],
)
async def test_a_name_with_other_arguments_is_told_what_became_of_its_call(
    outcome: str | None, asked_at: float | None, age: float, became: str, path: Path
) -> None:
    now = 2e9
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        begun = await claim(
            store, "call", call="call", call_seconds=24 * HOUR, arguments="amount 1"
        )
        await store.reserve(begun)
        if outcome is not None:
            await store.record(replace(begun, asked_at=asked_at), outcome)
        now += age
        other = replace(begun, owner="another delivery", arguments="amount 2")
        with pytest.raises(OtherArguments) as told:
            await store.reserve(other)
        assert told.value.became == became


ASKED = {"outcome": "a question", "asked_at": 2e9}


@pytest.mark.parametrize(
    ("ends", "begun", "age", "then"),
    [
        ({}, {"call_seconds": 60, "lease_seconds": HOUR}, HOUR / 2, Pending),
        ({}, {"call_seconds": 60}, HOUR / 2, None),
        (ASKED, {}, HOUR / 2, None),
        (ASKED, {"effects": "a charge"}, HOUR / 2, Unanswered),
        (ASKED, {"effects": "a charge"}, -HOUR / 2, Unanswered),
        ({"outcome": "a result"}, {}, HOUR / 2, "a result"),
    ],
    ids=[
        "at work",
        "in doubt",
        "unanswered",
        "unanswered after an effect",
        "asked by a clock that was ahead",
        "ended",
    ],
)
async def test_a_name_is_free_unless_its_call_is_at_work_or_known(
    ends: dict[str, Any], begun: dict[str, Any], age: float, then: Any, path: Path
) -> None:
    now = 2e9
    with closing(SqliteStore(path, clock=lambda: now)) as store:
        more = {"call": "call", "call_seconds": HOUR, **begun}
        first = replace(await claim(store, "call"), **more)
        await store.reserve(first)
        if ends:
            await store.record(replace(first, asked_at=ends.get("asked_at")), ends["outcome"])
        now += age
        again = replace(first, owner="another delivery", begins=now)
        if isinstance(then, type):
            with pytest.raises(then):
                await store.reserve(again)
        else:
            assert await store.reserve(again) == then


async def test_a_free_name_that_another_delivery_takes_first_is_at_work(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"call": "call", "call_seconds": 24 * HOUR}
    other: Any = SqliteStore(path)
    with closing(SqliteStore(path)) as store, closing(other):
        declined = await claim(store, "call", **more)
        await store.reserve(declined)
        await store.record(replace(declined, frees=True), "declined")
        mine, its = [await claim(store, "call", **more) for _ in range(2)]

        def forget(seen: object) -> None:
            """Let the other one be faster, in place of forgetting what is old."""
            assert other._reserve(its, {**other._values, **vars(its)}) is None

        monkeypatch.setattr(store, "_forget", forget)
        with pytest.raises(Pending):
            await store.reserve(mine)


async def test_an_answer_to_a_call_whose_name_another_call_takes_first_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 2e9
    more: Any = {"call": "call", "call_seconds": 24 * HOUR}
    other: Any = SqliteStore(path, clock=lambda: now + HOUR)
    with closing(SqliteStore(path, clock=lambda: now)) as store, closing(other):
        first, answer = [await claim(store, number, **more) for number in ("call", "answer")]
        await store.reserve(first)
        await store.record(replace(first, asked_at=answer.begins), "a question")
        its = await claim(other, "call", **more)

        def forget(seen: object) -> None:
            """Let the other one be faster, in place of forgetting what is old."""
            assert other._reserve(its, {**other._values, **vars(its)}) is None

        monkeypatch.setattr(store, "_forget", forget)
        with pytest.raises(Forgotten):
            await store.reserve(answer)


async def test_an_abandoned_question_that_another_delivery_answers_first_is_at_work(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(path)) as store:
        guard = single_use(store, call="x", call_is_secret=True, attempts=2, wait_seconds=0)
        handler = guard(Tool())
        asked: Any = await deliver(handler, x=1)
        state = RoundState.model_validate_json(asked.request_state)
        assert state.call is not None
        more: Any = {"mark": state.mark, "call": state.call.handle, "call_seconds": 24 * HOUR}
        died = Claim(state.number, "answers", state.begins, 0, **more)
        other = Claim(state.number, "answers", state.begins, 60, **more)
        assert await store.reserve(died) is None
        reopen = store.reopen

        async def reopen_later(claim: Claim, outcome: str) -> bool:
            assert await store.take_over(other)
            return await reopen(claim, outcome)

        monkeypatch.setattr(store, "reopen", reopen_later)
        assert await refused(handler, x=1) == (types.REQUEST_TIMEOUT, "still_at_work")


async def test_an_abandoned_round_that_another_delivery_ends_first_has_its_outcome(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool()
    with closing(SqliteStore(path)) as store:
        handler = single_use(store, attempts=2)(tool)
        asked: Any = await deliver(handler)
        state = RoundState.model_validate_json(asked.request_state)
        said = digest_of_answers(ADA)
        died = Claim(state.number, said, state.begins, 0, mark=state.mark)
        assert await store.reserve(died) is None
        take_over = store.take_over

        async def take_over_later(claim: Claim) -> bool:
            other = replace(died, lease_seconds=60, owner="another delivery")
            assert await take_over(other)
            assert await store.record(other, write_response(result("of another delivery")))
            return await take_over(claim)

        monkeypatch.setattr(store, "take_over", take_over_later)
        assert await deliver(handler, asked, ADA) == result("of another delivery")
    assert tool.effects == []


async def test_an_abandoned_round_that_another_delivery_fails_first_has_the_effects_of_that_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[str] = []
    failures = [OSError("the printer is out of paper")]

    async def pay(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        await ctx.elicit(who())
        await ctx.once("pay", lambda _: charged.append("Ada"))
        if failures:
            raise failures.pop()
        return result("paid")

    with closing(SqliteStore(path)) as store:
        handler = single_use(store)(keyed_replay(pay))
        asked: Any = await deliver(handler)
        state = RoundState.model_validate_json(asked.request_state)
        died = Claim(state.number, digest_of_answers(ADA), state.begins, 0, mark=state.mark)
        assert await store.reserve(died) is None
        take_over = store.take_over

        async def take_over_later(claim: Claim) -> bool:
            monkeypatch.setattr(store, "take_over", take_over)
            assert await refused(handler, asked, ADA) == INDETERMINATE
            return await take_over(claim)

        monkeypatch.setattr(store, "take_over", take_over_later)
        assert await deliver(handler, asked, ADA) == result("paid")
    assert charged == ["Ada"]


@pytest.mark.parametrize("charges", [["Ada"], []])
async def test_a_delivery_whose_round_another_one_has_taken_does_and_records_nothing(
    charges: list[str], path: Path
) -> None:
    now = 2e9
    charged: list[str] = []
    replies: list[Any] = []

    async def pay(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        nonlocal now
        number = len(replies)
        if number == 0:
            replies.append(None)
            now += HOUR  # as of a machine that was suspended
            replies.append(await deliver(handler, x=1))
        if charges:
            await ctx.once("pay", lambda _: charged.append("Ada"))
        return result(f"run {number}")

    with closing(SqliteStore(path, clock=lambda: now)) as store:
        handler = single_use(store, call="x", call_is_secret=True)(keyed_replay(pay))
        assert await refused(handler, x=1) == INDETERMINATE
        assert replies[1] == await deliver(handler, x=1) == result("run 1")
    assert charged == charges
