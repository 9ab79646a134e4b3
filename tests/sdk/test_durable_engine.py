"""Option L's engine: its start and end, its leases, lost connections, dead runs, and what it keeps.

As `test_durable`, on SQLite and on PostgreSQL in one process. A file of its own, since where several
processes run the tests a file is run by one of them.
"""

from __future__ import annotations

import base64
import pickle
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
import sqlalchemy
from dbos import DBOS
from dbos._sys_db import SystemDatabase
from mcp import MCPError
from mcp.server.request_state import AESGCMRequestStateCodec
from sqlalchemy import event
from sqlalchemy.pool import Pool

from mrtr_options.bench import postgres as real_postgres
from mrtr_options.sdk.durable import Call, DurableStore, Engine, WrongDatabase, liveness
from mrtr_options.sdk.durable import engine as durable_engine
from mrtr_options.sdk.durable.engine import SWEEP_LIMIT, current
from mrtr_options.sdk.durable.liveness import HAND_OVERS, Lease
from tests.bounds import KEY, SECONDS
from tests.databases import away
from tests.rounds import Response
from tests.sdk.durable_calls import Ctx, World, asked_by, couple, ended, reason, said, served
from tests.sdk.fakes import key_of, modern, named, params, result, who

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an engine look more often for calls that were handed back."""
    monkeypatch.setattr(durable_engine, "TAKE_OVER_SECONDS", 0.05)


# --- which database -----------------------------------------------------------------------------


async def test_without_a_url_calls_are_kept_in_a_file_that_goes_with_the_engine() -> None:
    async with served(None, World()) as send:
        file = anyio.Path(current().url.removeprefix("sqlite:///"))
        first = await send()
        assert await file.is_file()
        assert key_of(await send(named("Ann", "one"), first)) == "two"
    assert not await file.parent.exists()


async def test_a_second_database_in_one_process_is_refused(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        with pytest.raises(WrongDatabase, match="not on sqlite:///elsewhere"):
            async with served("sqlite:///elsewhere", World()):
                pass
        with pytest.raises(WrongDatabase, match=r"not on postgresql://me:\*\*\*@elsewhere/calls$"):
            async with served("postgresql://me:secret@elsewhere/calls", World()):
                pass
        assert key_of(await send()) == "one"


async def test_a_second_database_is_named_without_its_password(sqlite: str) -> None:
    async with served(sqlite, World()):
        for other in "me:secret@here/calls", "me@here/calls?password=secret", "me:secret@h:p/":
            with pytest.raises(WrongDatabase) as wrong:
                async with served(f"postgresql://{other}", World()):
                    pass
            assert sqlite in str(wrong.value)
            assert "secret" not in str(wrong.value)


# --- one engine ---------------------------------------------------------------------------------


async def test_a_store_that_is_entered_twice_stays_open_until_the_last_block_ends(url: str) -> None:
    store = DurableStore(version="1", wait_seconds=SECONDS)
    call = store.linear(couple)
    async with AsyncExitStack() as last, anyio.create_task_group() as group:
        async with store.serving(World(), database=url):
            group.start_soon(last.enter_async_context, store.serving(None))
            await anyio.wait_all_tasks_blocked()
            first = await call(modern(), params(None, None))
        second = await call(modern(), params(named("Ann", "one"), first))
        assert said(await call(modern(), params(named("Bob", "two"), second))) == "Ann and Bob"


async def test_a_start_that_fails_leaves_nothing_behind(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(DBOS, "launch", fail)
        with pytest.raises(OSError, match="no"):
            async with served(sqlite, World()):
                pass
    assert [file.name for file in Path(sqlite.removeprefix("sqlite:///")).parent.glob("*alive*")] == []
    async with served(sqlite, World()) as send:
        assert key_of(await send()) == "one"


async def test_an_end_that_fails_does_not_break_the_next_opening(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    destroy = DBOS.destroy

    def fail() -> None:
        destroy()
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(DBOS, "destroy", fail)
        here = served(sqlite, World())
        first = await (await here.__aenter__())()
        with pytest.raises(OSError, match="no"):
            await here.__aexit__(None, None, None)
    async with served(sqlite, World()) as send:
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_one_engine_is_kept_for_many_servers_whose_calls_are_apart(url: str) -> None:
    worlds = [World(), World()]
    async with Engine.opened(url) as engine:
        names = [engine.apart(), engine.apart()]
        firsts: list[Response] = []
        for name, world in zip(names, worlds, strict=True):
            async with served(name, world) as send:
                firsts.append(await send())
        assert current() is engine
        for name, world, first in zip(names, worlds, firsts, strict=True):
            async with served(name, world) as send:  # the same run, restarted
                second = await send(named("Ann", "one"), first)
                assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
        async with served(engine.apart(), World()) as send:
            first = await send()
        async with served(engine.apart(), World()) as send:
            with pytest.raises(MCPError) as refused:
                await send(named("Ann", "one"), first)
            assert reason(refused) == "other_version"
    assert [(world.kinds(), world.entered) for world in worlds] == [(["first", "last"], 2)] * 2


# --- leases, lost connections and dead runs -----------------------------------------------------


@asynccontextmanager
async def statements(url: str) -> AsyncGenerator[sqlalchemy.Connection]:
    """A connection of the test's own. Each statement commits by itself."""
    database = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with database.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            yield db
    finally:
        database.dispose()


def calls_table(url: str) -> str:
    return "workflow_status" if url.startswith("sqlite") else "dbos.workflow_status"


async def test_under_load_a_process_has_the_connections_that_operations_says(postgres: str) -> None:
    url = real_postgres.database(postgres)
    async with served(url, World()) as send, anyio.create_task_group() as calls:
        for _ in range(40):
            calls.start_soon(send)
        await send()
        count = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        async with statements(url) as db:
            assert db.execute(sqlalchemy.text(count)).scalar_one() <= 23


@pytest.mark.slow
async def test_a_process_that_is_paused_in_a_transaction_holds_up_the_others_for_seconds(
    postgres: str,
) -> None:
    url = f"{real_postgres.database(postgres)}&options=-cstatement_timeout%3D7min"
    bounds: set[tuple[str, str]] = set()

    def look(connection: Any, *of: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('idle_in_transaction_session_timeout'),"
                " current_setting('statement_timeout')"
            )
            bounds.add(cursor.fetchone())
        connection.rollback()

    event.listen(Pool, "checkout", look)
    try:
        async with served(url, World()) as send:
            await send()
    finally:
        event.remove(Pool, "checkout", look)
    assert bounds == {("5s", "7min")}


@pytest.mark.slow
async def test_a_process_whose_connections_broke_stays_alive_and_its_calls_go_on(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engine polls each minute for what its listener missed while it had no connection.
    monkeypatch.setattr(SystemDatabase, "_notification_fallback_polling_interval", 0.2)
    url = real_postgres.database(postgres)
    world = World()
    async with served(url, world) as send, statements(url) as db:
        first = await send()
        db.execute(
            sqlalchemy.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        assert await current().take_over("nobody", [])
        other = Lease(url, "other")
        assert not await anyio.to_thread.run_sync(other.take_over, current().process, ["couple@1"], "q")
        second = await send(named("Ann", "one"), first)
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 1)


@pytest.mark.slow
async def test_a_process_that_loses_its_lease_stops_before_another_may_begin(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, stopped, other = anyio.Event(), anyio.Event(), Lease(url, "other", 2.0)
    was_dead: list[bool] = []
    entered: list[None] = []
    answers = threading.Event()
    monkeypatch.setattr(durable_engine, "DEAD_RUN_SECONDS", 0.1)

    def pending_once_it_answers(lease: Lease) -> list[tuple[str, str]]:
        answers.wait(SECONDS)
        return []

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        entered.append(None)
        if len(entered) == 1:
            try:
                began.set()
                await anyio.sleep_forever()
            finally:
                was_dead.append(other.take_over(current().process, [], "q"))
                stopped.set()
        return result("done")

    async with Engine.opened(url, "1", lease_seconds=2.0), served(url, None, handler) as send:
        asked = await asked_by(send)
        async with anyio.create_task_group() as group:
            with monkeypatch.context() as patch:
                patch.setattr(Lease, "_extend", _cannot)
                patch.setattr(Lease, "pending", pending_once_it_answers)
                group.start_soon(send, named("Ann"), asked)
                await began.wait()
                await stopped.wait()
                answers.set()
                await anyio.to_thread.run_sync(until_dead, other, current().process)
        assert said(await send(named("Ann"), asked)) == "done"
    assert (was_dead, len(entered)) == ([False], 2)


def until_dead(other: Lease, process: str) -> None:
    while not other.take_over(process, [], "q"):
        time.sleep(0.05)


def _cannot(lease: Lease, **options: Any) -> None:
    raise OSError("no database")


async def test_a_paused_process_begins_no_effect_under_an_old_lease(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that extends the lease may be the first to run after a pause."""
    now = 1000.0
    monkeypatch.setattr(liveness, "clock", lambda: now)
    lease = Lease(sqlite, "paused", 60.0)
    with lease.held():
        assert lease.holds
        now += 61
        assert not lease.holds
        lease._extend()  # pyright: ignore[reportPrivateUsage]
        assert not lease.holds
        assert lease.begin_again()


@pytest.mark.slow
async def test_a_call_that_takes_every_process_along_is_ended(
    url: str, monkeypatch: pytest.MonkeyPatch, soon: None
) -> None:
    """A process that died does not look after its calls: so this one, which only looks dead, must not.

    Otherwise it may hand a call back in the moment between its end and the look of it, and that, as any
    tidy interruption, is not counted.
    """
    monkeypatch.setattr(durable_engine, "DEAD_RUN_SECONDS", 4 * SECONDS)
    tries: list[str] = []

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())

        async def effect(key: str) -> None:
            tries.append(key)
            await anyio.sleep_forever()

        await ctx.step("effect", effect)
        return result("done")

    async with served(url, None, handler, wait_seconds=0.3) as send, statements(url) as db:
        waiting = await asked_by(send)  # a call that waits for its user is not to blame
        asked, died = await asked_by(send), 0

        async def take_processes_along() -> None:
            nonlocal died
            while True:
                await send(named("Ann"), asked)
                if len(tries) > died:
                    died += 1
                    await current().interrupt(list(current().running))
                    die(db, url, f"dead-{died}")

        with pytest.raises(MCPError) as refused:
            await take_processes_along()
        assert reason(refused) == "gave_up"
        while len(tries) == died:
            await send(named("Ann"), waiting)
    assert len(tries) == 1 + HAND_OVERS + 1  # of the first try, of three hand-overs, of the other call


def die(db: sqlalchemy.Connection, url: str, process: str) -> None:
    """Have the calls that run here look as if a process that died had them."""
    db.execute(
        sqlalchemy.text("INSERT INTO mrtr_processes (name, until) VALUES (:name, 0)"), {"name": process}
    )
    db.execute(
        sqlalchemy.text(
            f"UPDATE {calls_table(url)} SET executor_id = :name, owner_xid = 'x' "
            "WHERE status = 'PENDING'"
        ),
        {"name": process},
    )


@pytest.mark.slow
async def test_a_call_that_was_stopped_here_and_taken_over_runs_once(
    url: str, monkeypatch: pytest.MonkeyPatch, soon: None
) -> None:
    """On a busy machine, some time passes between the queue and the run."""
    monkeypatch.setattr(durable_engine, "DEAD_RUN_SECONDS", 4 * SECONDS)
    world, run, take_over = World(), Engine.run, Lease.take_over
    entered: list[str] = []
    has_entered, may_run = threading.Event(), anyio.Event()

    async def late(engine: Engine, name: str, handle: str, begun: str) -> None:
        entered.append(handle)
        has_entered.set()
        await may_run.wait()
        await run(engine, name, handle, begun)

    def later(lease: Lease, *arguments: Any) -> bool:
        taken = take_over(lease, *arguments)
        has_entered.wait(SECONDS)
        return taken

    async with served(url, world, wait_seconds=0.3) as send, statements(url) as db:
        asked = await asked_by(send)
        await current().interrupt(list(current().running))
        die(db, url, "dead-and-taken-over")
        monkeypatch.setattr(Engine, "run", late)
        monkeypatch.setattr(Lease, "take_over", later)
        held = await send(named("Ann", "one"), asked)
        while not entered:
            held = await send(None, held)
        for _ in range(2):
            held = await send(None, held)
        assert len(entered) == 1
        may_run.set()
        assert key_of(await ended(send, held)) == "two"


@pytest.mark.slow
async def test_a_run_that_a_database_error_ended_runs_again_and_is_logged(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a disk that is full for a moment, between an effect and its record."""
    world = World()
    run_step, failures = DBOS.run_step_async, [OSError("disk full")]

    async def fails_once(*arguments: Any, **options: Any) -> Any:
        done = await run_step(*arguments, **options)
        if failures and world.kinds() == ["first", "last"]:
            raise failures.pop()
        return done

    monkeypatch.setattr(DBOS, "run_step_async", fails_once)
    monkeypatch.setattr(durable_engine, "DEAD_RUN_SECONDS", 0.1)
    async with served(url, world) as send:
        second = await send(named("Ann", "one"), await send())
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert world.entered == 2
    assert "disk full" in caplog.text
    assert "run again" in caplog.text


# --- a database that is away ---------------------------------------------------------------------


async def test_a_question_is_asked_again_though_its_process_cannot_be_seen_to_live(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url, World()) as send, statements(url) as db:
        first = await send()
        die(db, url, "another")
        monkeypatch.setattr(Lease, "take_over", away)
        assert key_of(await send(None, first)) == "one"


# --- what a fleet is spared ----------------------------------------------------------------------


async def test_everything_of_a_call_goes_when_its_time_is_over(url: str) -> None:
    async with served(url, World()) as send, statements(url) as db:
        before = rows(db, url)
        second = await send(named("Ann", "one"), await send())
        waiting = await send()
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
        while await current().sweep(-1.0) == 0:  # a second ahead: what has ended, has ended long ago
            await anyio.lowlevel.checkpoint()
        assert await current().sweep(-1.0) == 0
        with pytest.raises(MCPError) as refused:
            await send(named("Bob", "two"), second)
        assert reason(refused) == "unknown_call"
        second = await send(named("Ann", "one"), waiting)
        await send(named("Bob", "two"), second)
        while await current().sweep(-1.0) == 0:
            await anyio.lowlevel.checkpoint()
        assert rows(db, url) == before


async def test_much_that_need_not_be_kept_goes_in_portions_and_then_there_is_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [SWEEP_LIMIT, SWEEP_LIMIT, 1]  # and no more: a sweep without a pause would fail

    async def sweep(engine: Engine, seconds: float) -> int:
        return found.pop(0)

    monkeypatch.setattr(Engine, "sweep", sweep)
    async with anyio.create_task_group() as group:
        group.start_soon(Engine.__new__(Engine).keep_for, 1.0)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        group.cancel_scope.cancel()


def rows(db: sqlalchemy.Connection, url: str) -> dict[str, int]:
    """How many rows each table has."""
    schemas = [None] if url.startswith("sqlite") else ["dbos", None]
    tables = [
        table if schema is None else f"{schema}.{table}"
        for schema in schemas
        for table in sqlalchemy.inspect(db).get_table_names(schema)
    ]
    return {
        each: db.execute(sqlalchemy.text(f"SELECT count(*) FROM {each}")).scalar_one() for each in tables
    }


# --- what is in the database ---------------------------------------------------------------------


class Bomb:
    """Raises an alarm when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sound, ("unpickled",)


alarms: list[str] = []


def sound(alarm: str) -> None:
    """What a pickle has called."""
    alarms.append(alarm)


@pytest.mark.parametrize("what", ["what a call begins with", "what a step recorded"])
async def test_a_row_with_a_pickle_runs_nothing(
    url: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms.clear()
    calls = calls_table(url)
    inputs, outputs = (
        calls.replace("workflow_status", table) for table in ("workflow_input", "operation_outputs")
    )
    changes = [f"UPDATE {outputs} SET output = :bomb, serialization = 'py_pickle'"]
    if what == "what a call begins with":
        changes = [
            f"UPDATE {inputs} SET inputs = :bomb",
            f"UPDATE {calls} SET inputs = :bomb, serialization = 'py_pickle'",
        ]
    async with served(url, World()) as send:
        first = await send()
    async with statements(url) as db:
        for change in changes:
            bomb = base64.b64encode(pickle.dumps(Bomb())).decode()
            assert db.execute(sqlalchemy.text(change), {"bomb": bomb}).rowcount > 0
    refused: list[str] = []

    def refuse(serializer: object, data: str) -> None:
        refused.append(data)
        raise ValueError("a pickle")

    monkeypatch.setattr(durable_engine, "_refuse", refuse)
    async with served(url, World(), wait_seconds=0.2) as send:
        while not (refused or alarms):
            with suppress(MCPError):
                await send(named("Ann", "one"), first)
    assert alarms == []


async def test_what_users_say_cannot_be_read_in_the_database(sqlite: str) -> None:
    codec = AESGCMRequestStateCodec([KEY.encode()])
    file = Path(sqlite.removeprefix("sqlite:///"))
    async with served(sqlite, World(), codec=codec) as send:
        second = await send(named("Ann Abelard", "one"), await send())
        assert said(await send(named("Bob", "two"), second)) == "Ann Abelard and Bob"
        kept = b"".join(each.read_bytes() for each in file.parent.glob(f"{file.name}*"))
    assert b"mrtr_texts" in kept
    assert b"Abelard" not in kept
