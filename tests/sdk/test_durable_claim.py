"""Tests of option L on DBOS: one process holds a name, and only recordable work is done."""

import asyncio
import os
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import psycopg
import pytest

from mrtr_options.sdk.durable import CallParams, embedded
from mrtr_options.sdk.durable.claim import GRACE_SECONDS, taken, try_url
from mrtr_options.sdk.durable.embedded import Process, process
from mrtr_options.sdk.durable.engine import WrongDatabase
from scoreboard import postgres as real_postgres
from tests.bounds import SECONDS
from tests.sdk.durable_calls import Ctx, World, asked_by, finish, refused, served
from tests.sdk.fakes import ON_ASYNCIO, named, result, who

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

_LOCK = "SELECT pg_advisory_lock(hashtextextended('mrtr-call local', 0))"
_HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


def end_holder(url: str) -> None:
    """End the connection that holds the name, as a restart of the database does."""
    with psycopg.connect(url, autocommit=True) as db:
        for (holder,) in db.execute(_HOLDERS).fetchall():
            db.execute("SELECT pg_terminate_backend(%s, 5000)", [holder])


@pytest.mark.evidence("on PostgreSQL")
async def test_a_name_whose_connection_ends_is_still_refused_to_another_process_and_others_are_free(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = real_postgres.database(postgres)

    def second() -> None:
        with taken(url):
            raise AssertionError("two processes hold the name")

    async with served(url, World()) as send:
        first = await send()
        for _ in range(2):
            await anyio.to_thread.run_sync(end_holder, url)
            with pytest.raises(WrongDatabase, match="another process has the name 'local'"):
                await anyio.to_thread.run_sync(second)
        assert await finish(send, first, send) == "Ann and Bob"
        monkeypatch.setenv("MRTR_INSTANCE", "other")
        with taken(url):
            pass


async def test_a_process_notices_that_its_connection_is_cut_before_the_database_frees_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: dict[str, Any] = {}

    def connect(url: str, **options: Any) -> None:
        said.update(options)
        raise psycopg.OperationalError("no database")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(WrongDatabase, match="no database"), taken("postgresql://host/name"):
        pass
    here = said["keepalives_idle"] + said["keepalives_interval"] * said["keepalives_count"]
    there = dict(each.split("=") for each in said["options"].split() if "=" in each)
    # The database may ask as soon as the connection is cut.
    assert here < int(there["tcp_keepalives_interval"]) * int(there["tcp_keepalives_count"])


@pytest.mark.evidence("on PostgreSQL")
async def test_a_name_whose_connection_is_cut_at_this_end_alone_is_taken_again(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[psycopg.Connection] = []
    notifies = psycopg.Connection.notifies

    def cut_once(db: psycopg.Connection, *, timeout: float) -> Generator[psycopg.Notify]:
        if not cut:
            watched.wait(SECONDS)
            cut.append(db)
            monkeypatch.setattr(db, "close", lambda: None)  # the database sees nothing of it
            raise psycopg.OperationalError("the connection timed out")
        return notifies(db, timeout=timeout)

    watched = Event()
    stands: Queue[tuple[bool, bool]] = Queue()
    monkeypatch.setattr(psycopg.Connection, "notifies", cut_once)
    with taken(real_postgres.database(postgres)) as claim:
        claim.changed = lambda: stands.put((claim.is_held, claim.is_lost))
        watched.set()
        assert stands.get(timeout=SECONDS) == (False, False)
        assert stands.get(timeout=SECONDS) == (True, False)
    psycopg.Connection.close(cut[0])


async def test_the_file_that_is_held_is_the_one_that_the_url_names(tmp_path: Path) -> None:
    with taken(f"sqlite:///{tmp_path}/calls?timeout=5"):
        with pytest.raises(WrongDatabase, match="another process has"):
            try_url(f"sqlite:///{tmp_path}/calls#mark")
        assert os.listdir(tmp_path) == ["calls"]


async def test_a_process_whose_file_is_deleted_does_no_effect_beside_the_next_one(
    tmp_path: Path,
) -> None:
    world = World()
    file = tmp_path / "calls"

    async def pay(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        file.unlink()
        await ctx.step("pay", lambda key: world.do("pay", key))
        return result("done")

    async with served(f"sqlite:///{file}", world, pay) as send:
        assert await refused(send) == "unknown_call"
    async with served(f"sqlite:///{file}", world) as send:
        second = await send(named("Ann", "one"), await send())
        file.unlink()
        assert await refused(send, named("Bob", "two"), second) == "unknown_call"
        assert await refused(send) == "unknown_call"
    assert world.kinds() == ["first"]


@pytest.mark.evidence("on PostgreSQL")
async def test_a_process_that_lost_its_name_for_good_does_no_effect_any_more(postgres: str) -> None:
    url = real_postgres.database(postgres)
    world = World()
    async with served(url, world) as send:
        first = await send()
        second = await send(named("Ann", "one"), first)
        async with process(None) as here:
            with psycopg.connect(url, autocommit=True) as other:
                # It is in the queue for the name, and gets it when the holder's connection ends.
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.to_thread.run_sync, _queue, other)
                    await anyio.to_thread.run_sync(_until_queued, url)
                    await anyio.to_thread.run_sync(end_holder, url)
                assert await refused(send, named("Bob", "two"), second) == "name_lost"
                assert here.claim.is_lost
                assert await refused(send) == "name_lost"
    assert world.kinds() == ["first"]


def _queue(other: psycopg.Connection) -> None:
    other.execute(_LOCK)


def _until_queued(url: str) -> None:
    waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(url, autocommit=True) as db:
        while not db.execute(waits).fetchall():
            pass


@pytest.mark.evidence("on PostgreSQL")
async def test_a_name_that_is_let_go_is_free_at_once_for_the_next_process(postgres: str) -> None:
    url = real_postgres.database(postgres)
    began = time.monotonic()
    for _ in range(2):
        with taken(url):
            pass
    assert time.monotonic() - began < 2 * GRACE_SECONDS + 5


@pytest.mark.evidence("on PostgreSQL")
@pytest.mark.parametrize("used", [False, True])
async def test_a_database_that_takes_no_calls_is_refused_in_one_line_at_start(
    postgres: str, *, used: bool
) -> None:
    url = real_postgres.database(postgres)
    if used:
        async with served(url, World()) as send:
            await send()
    with psycopg.connect(url, autocommit=True) as db:
        name = db.execute("SELECT current_database()").fetchone()
        assert name is not None
        with suppress(psycopg.errors.DuplicateObject):
            db.execute("CREATE ROLE reader LOGIN")
    separator = "&" if "?" in url else "?"
    as_reader = f"{url}{separator}user=reader"
    with pytest.raises(WrongDatabase, match=r"permission denied|may not write") as reader:
        await anyio.to_thread.run_sync(try_url, as_reader)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f'ALTER DATABASE "{name[0]}" SET default_transaction_read_only = on'.encode())
    with pytest.raises(WrongDatabase, match="read-only") as read_only:
        await anyio.to_thread.run_sync(try_url, url)
    assert ["\n" in str(each.value) for each in (reader, read_only)] == [False, False]


@pytest.mark.parametrize("key", ["a\0b", "half \ud800", "", "x" * 1001])
async def test_a_step_whose_key_no_database_holds_does_nothing(engine: str, key: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        await ctx.step(key, lambda once: world.do("charge", once))
        return result("done")

    async with served(engine, world, handler) as send:
        asked = await asked_by(send)
        for _ in range(2):
            with pytest.raises(ValueError, match="a step's key is a text of 1 to 1000"):
                await send(named("Ann"), asked)
    assert world.effects == []


async def test_a_clock_that_is_ahead_for_one_sweep_deletes_no_call(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    ahead = 0
    monkeypatch.setattr(time, "time", lambda: real() + ahead)
    async with served(sqlite, World()) as send, process(None) as here:
        second = await send(named("Ann", "one"), await send())
        last = await send(named("Bob", "two"), second)
        await here.sweep(24 * 3600)
        ahead = 25 * 3600
        assert await here.sweep(24 * 3600) == 0
        ahead = 0
        assert await here.sweep(24 * 3600) == 0
        assert await send(named("Bob", "two"), second) == last
        ahead = 25 * 3600
        assert await here.sweep(24 * 3600) == 0
        assert await here.sweep(24 * 3600) == 1  # the second look at the clock agrees


async def test_the_stores_of_a_process_look_at_its_clock_by_one_sweep(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweepers: list[object] = []
    enough = anyio.Event()

    async def sweep(here: Process, seconds: float) -> int:
        sweepers.append(asyncio.current_task())
        if len(sweepers) == 4:
            enough.set()
        return 0

    monkeypatch.setattr(Process, "sweep", sweep)
    monkeypatch.setattr(embedded, "SWEEP_SECONDS", 0)
    async with served(sqlite, World()), served(sqlite, World()):
        await enough.wait()
    assert len({*sweepers}) == 1, "the second sweep trusts a clock that the first one saw move"


async def test_a_sweep_deletes_no_open_call_of_another_process(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with process(sqlite) as here:
        async with served(sqlite, World()) as send:
            await send()
        monkeypatch.setenv("MRTR_INSTANCE", "another")
        assert [await here.sweep(-1.0) for _ in range(2)] == [0, 0]
        monkeypatch.delenv("MRTR_INSTANCE")
        assert await here.sweep(-1.0) == 1


async def test_a_sweep_goes_on_by_portions_and_leaves_the_rest_to_the_next_one(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "SWEEP_LIMIT", 1)
    monkeypatch.setattr(embedded, "SWEEP_MOST", 2)
    async with process(sqlite) as here:
        async with served(sqlite, World()) as send:
            for _ in range(3):
                await send()
        assert [await here.sweep(-1.0) for _ in range(4)] == [0, 2, 1, 0]
