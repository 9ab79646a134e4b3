"""Tests of option L on DBOS: its start and end, abandoned calls, and deleted calls.

They have a file of their own, since one process runs a whole file.
"""

import asyncio
import re
import sqlite3
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
import sqlalchemy
import sqlalchemy.event
from dbos import DBOS
from mcp.server.request_state import AESGCMRequestStateCodec
from sqlalchemy.exc import OperationalError

from mrtr_options.review.bench.deployments.processes import CALLS, ProcessInstances
from mrtr_options.review.bench.messages import Request
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.sdk.durable import CallParams, DurableStore, live
from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.durable.engine import WrongDatabase
from mrtr_options.sdk.handler import NotAHandler
from mrtr_options.tool.catalogue import option_named
from scoreboard import postgres as real_postgres
from tests.bounds import KEY
from tests.sdk.durable_calls import (
    Ctx,
    World,
    asked_by,
    away,
    ended,
    finish,
    held_until,
    is_held,
    refused,
    served,
)
from tests.sdk.fakes import ON_ASYNCIO, key_of, named, result, until, who
from tests.sending import Response, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


async def test_without_a_url_calls_are_kept_in_a_file_that_goes_with_the_engine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with served(None, World()) as send, process(None) as here:
        send.store.try_database(None)
        assert "a restart ends them" in capsys.readouterr().err
        file = anyio.Path(here.url.removeprefix("sqlite:///"))
        first = await send()
        assert await file.is_file()
        assert key_of(await send(named("Ann", "one"), first)) == "two"
    assert not await file.parent.exists()


async def test_a_second_database_or_event_loop_in_one_process_is_refused(sqlite: str) -> None:
    async def opens() -> None:
        async with served(sqlite, World()):
            pass

    async with served(sqlite, World()) as send:
        with pytest.raises(WrongDatabase, match="another event loop"):
            await anyio.to_thread.run_sync(asyncio.run, opens())
        with pytest.raises(WrongDatabase, match="another database"):
            async with served("sqlite:///elsewhere", World()):
                pass
        with pytest.raises(RuntimeError, match="open already"):
            async with send.store.serving(None, database=sqlite):
                pass
        assert key_of(await send()) == "one"


@pytest.mark.slow
async def test_a_file_that_another_process_has_is_refused(shared_folder: Path) -> None:
    there = ProcessInstances(Subject(option_named("L")), shared_folder)
    async with there.running():
        await there.send(0, Request("Springfield"))
        with pytest.raises(WrongDatabase, match="another process has"):
            async with process(f"sqlite:///{shared_folder / CALLS}"):
                pass


@pytest.mark.parametrize(
    ("method", "error", "told"),
    [
        ("launch", OSError("no"), OSError),
        ("launch", OperationalError("", {}, OSError("no")), WrongDatabase),
        ("destroy", OSError("no"), OSError),
    ],
)
async def test_a_start_or_an_end_that_fails_leaves_nothing_behind(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, told: Any
) -> None:
    real = getattr(DBOS, method)

    def fail() -> None:
        if method == "destroy":
            real()
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(DBOS, method, fail)
        with pytest.raises(told, match="no"):
            async with served(sqlite, World()):
                pass
    async with served(sqlite, World()) as send:
        assert key_of(await send()) == "one"


async def test_one_engine_is_kept_for_many_servers_whose_calls_are_apart(sqlite: str) -> None:
    worlds = [World(), World()]
    async with process(sqlite) as engine:
        names = [engine.apart(), engine.apart()]
        firsts: list[Response] = []
        for name, world in zip(names, worlds, strict=True):
            async with served(name, world) as send:
                firsts.append(await send())
        for name, world, first in zip(names, worlds, firsts, strict=True):
            async with served(name, world) as send:  # restart the same run
                assert await finish(send, first, send) == "Ann and Bob"
    assert [(world.kinds(), world.entered) for world in worlds] == [(["first", "last"], 2)] * 2


async def test_a_call_begins_on_its_own_store_though_another_has_a_handler_of_its_name(
    sqlite: str,
) -> None:
    def says(name: str) -> Any:
        async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
            return result(name)

        return handler

    async with served(sqlite, None, says("Ann")) as ann, served(sqlite, None, says("Bob")) as bob:
        assert [text_of(await send()) for send in (ann, bob)] == ["Ann", "Bob"]
    store = DurableStore()
    store.linear(says("Ann"))
    with pytest.raises(NotAHandler, match=r"another handler '.*' in this store"):
        store.linear(says("Bob"))
    with pytest.raises(NotAHandler, match="which has a name"):
        store.linear(partial(says("Bob")))


async def test_a_step_that_is_fatal_is_given_up(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that only the fatal call is given up, and not one that waits for its user meanwhile."""
    monkeypatch.setattr(live, "ATTEMPTS", 2)
    tries: list[str] = []

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())

        async def effect(key: str) -> None:
            tries.append(key)
            await anyio.sleep_forever()

        await ctx.step("effect", effect)
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.2) as send:
        fatal = await asked_by(send)
        waiting = await asked_by(send)
        held = await held_until(lambda: bool(tries), send, await send(named("Ann"), fatal))
    for _ in range(2):
        async with served(sqlite, None, handler, wait_seconds=0.2) as send:
            while len(tries) < 2:
                await anyio.lowlevel.checkpoint()
            assert key_of(await ended(send, await send(None, waiting))) == "who"
    async with served(sqlite, None, handler) as send:
        assert await refused(send, None, held) == "gave_up"
    assert len(tries) == 2


async def test_a_step_whose_process_died_asks_its_destination_before_it_is_tried_again(
    sqlite: str,
) -> None:
    charged: list[str] = []

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        async def charge(key: str) -> int:
            charged.append(key)
            if len(charged) == 1:
                await anyio.sleep_forever()
            return len(charged)

        number = await ctx.step("charge", charge, settled=lambda: len(charged))
        return result(f"charge {number}")

    async with served(sqlite, None, handler, wait_seconds=0.2) as send:
        held = await held_until(lambda: bool(charged), send, await send())
    async with served(sqlite, None, handler) as send:
        assert text_of(await ended(send, held)) == "charge 1"


async def test_the_database_knows_the_time_that_dbos_asks_for_on_python_3_12(sqlite: str) -> None:
    """Compare with SQLite's own function, which is there from 3.42 on and has fractions."""
    asked: list[tuple[Any]] = []

    def connected(connection: Any, record: Any) -> None:
        asked.extend(connection.execute("SELECT typeof(unixepoch('subsec') * 1000)"))

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", connected)
    async with served(sqlite, World()) as send:
        await send()
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", connected)
    assert set(asked) == {("integer",)}


async def test_a_call_that_waits_outlives_a_server_that_starts_again_and_again(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        first = await send()
    with closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file, file:
        file.execute("UPDATE workflow_status SET recovery_attempts = 500")
    async with served(sqlite, World()) as send:
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_a_call_that_its_engine_has_ended_was_given_up(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        first = await send()
    with closing(sqlite3.connect(sqlite.removeprefix("sqlite:///"))) as file, file:
        file.execute("UPDATE workflow_status SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'")
    async with served(sqlite, World()) as send:
        for answers in named("Ann", "one"), None:
            assert await refused(send, answers, first) == "gave_up"


async def test_what_the_database_does_not_take_at_first_is_recorded_later_and_found_after_a_restart(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Fail once between an effect and its record, as on a disk that is full for a moment."""
    world = World()
    failures = [OperationalError("", {}, OSError("disk full"))]
    monkeypatch.setattr(live, "AGAIN_SECONDS", 0)

    def full(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if (
            failures
            and world.effects
            and re.match(r"\s*INSERT INTO \S*operation_outputs", statement)
        ):
            raise failures.pop()

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", full)
    async with served(sqlite, world) as send:
        first = await send()
    sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", full)
    assert failures == []
    assert "disk full" in caplog.text
    async with served(sqlite, world) as send:
        assert await finish(send, first, send) == "Ann and Bob"
    assert world.kinds() == ["first", "last"]
    assert world.entered == 2


async def test_a_result_is_told_once_it_is_on_record(sqlite: str) -> None:
    """Check the order: if the process died in between, no round could get the result."""
    file = sqlite.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:

        async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
            await ctx.elicit(who())
            other.execute("BEGIN IMMEDIATE")
            return result("done")

        async with served(sqlite, None, handler, wait_seconds=0.2) as send:
            held = await send(named("Ann"), await asked_by(send))
            held = await held_until(lambda: other.in_transaction, send, held)
            assert is_held(held)
            other.rollback()
            assert text_of(await ended(send, held)) == "done"


async def test_an_effect_that_happened_is_put_on_record_though_its_store_closes(
    sqlite: str,
) -> None:
    world = World()
    file = sqlite.removeprefix("sqlite:///")
    with closing(sqlite3.connect(file, isolation_level=None)) as other:

        async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
            async def effect(key: str) -> None:
                await world.do("effect", key)
                if len(world.effects) == 1:
                    other.execute("BEGIN IMMEDIATE")

            await ctx.elicit(who())
            await ctx.step("effect", effect)
            return result("done")

        async with process(sqlite):
            async with served(sqlite, None, handler, wait_seconds=0.2) as send:
                held = await send(named("Ann"), await asked_by(send))
                held = await held_until(lambda: bool(world.effects), send, held)
                asyncio.get_running_loop().call_later(0.1, other.rollback)
            async with served(sqlite, None, handler) as send:
                assert text_of(await ended(send, held)) == "done"
    assert world.kinds() == ["effect"]


async def test_a_call_whose_record_cannot_be_read_is_left_alone_for_its_key(
    sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = (AESGCMRequestStateCodec([key.encode()]) for key in (KEY, KEY[::-1]))
    world = World()
    async with served(sqlite, world, codec=one) as send:
        first = await send()
    async with served(sqlite, world, codec=other) as send:
        for _ in range(2):
            assert await refused(send, named("Ann", "one"), first) == "unknown_call"
        await until(lambda: "cannot go on here" in caplog.text)
    async with served(sqlite, world, codec=one) as send:
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_a_first_round_on_a_full_disk_begins_its_call_once_when_there_is_room(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = DBOS.start_workflow_async
    world = World()
    full = [OperationalError("", {}, OSError("full"))]

    async def fails_once(*arguments: Any) -> Any:
        if full:
            raise full.pop()
        return await start(*arguments)

    monkeypatch.setattr(DBOS, "start_workflow_async", fails_once)
    async with served(sqlite, world, wait_seconds=0.3) as send:
        assert key_of(await ended(send, await send())) == "one"
    assert world.kinds() == ["first"]
    assert full == []


@pytest.mark.parametrize(("name", "next"), [("Ann", "two"), (9_000 * "A", "one")])
async def test_a_round_during_an_outage_gets_a_state_that_carries_its_answer_of_up_to_8_kib(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, name: str, next: str
) -> None:
    async with served(sqlite, World()) as send:
        first = await send()
    async with served(sqlite, World(), wait_seconds=0.3) as send:
        with monkeypatch.context() as patch:
            patch.setattr(DBOS, "get_workflow_status_async", away)
            held = await send(named(name, "one"), first)
            assert is_held(held)
        assert key_of(await ended(send, await send(None, held))) == next


@pytest.mark.evidence("on PostgreSQL")
async def test_an_answer_that_comes_while_postgres_is_down_is_not_asked_for_again(
    postgres: str,
) -> None:
    url = real_postgres.database(postgres)
    world = World()
    async with served(url, world) as send:
        first = await send()
    async with served(url, world, wait_seconds=1.0, rounds=1000) as send:
        with real_postgres.stopped(url):
            held = await send(named("Ann", "one"), first)
            assert is_held(held)
        second = await ended(send, await send(None, held))
        assert key_of(second) == "two"
        assert text_of(await ended(send, await send(named("Bob", "two"), second))) == "Ann and Bob"
    assert sorted(world.kinds()) == ["first", "last"]


async def test_parked_calls_need_no_threads(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        firsts = [await send() for _ in range(60)]
        await anyio.wait_all_tasks_blocked()
        assert threading.active_count() < 60
        assert key_of(await send(named("Ann", "one"), firsts[0])) == "two"


async def test_a_call_goes_when_its_time_is_over_and_not_while_it_runs(sqlite: str) -> None:
    async with served(sqlite, World()) as send, process(None) as here:
        second = await send(named("Ann", "one"), await send())
        waiting = await send()
        assert text_of(await send(named("Bob", "two"), second)) == "Ann and Bob"
        assert await here.sweep(3600.0) == 0
        while await here.sweep(-1.0) == 0:  # a limit in the future covers every ended call
            await anyio.lowlevel.checkpoint()
        assert await refused(send, named("Bob", "two"), second) == "unknown_call"
        assert await here.sweep(-1.0) == 0
        assert key_of(await send(named("Ann", "one"), waiting)) == "two"


async def test_what_users_say_cannot_be_read_in_the_database(sqlite: str) -> None:
    codec = AESGCMRequestStateCodec([KEY.encode()])
    file = Path(sqlite.removeprefix("sqlite:///"))
    async with served(sqlite, World(), codec=codec) as send:
        second = await send(named("Ann Abelard", "one"), await send())
        assert text_of(await send(named("Bob", "two"), second)) == "Ann Abelard and Bob"
        kept = b"".join(each.read_bytes() for each in file.parent.glob(f"{file.name}*"))
    assert b"operation_outputs" in kept
    assert b"Abelard" not in kept
