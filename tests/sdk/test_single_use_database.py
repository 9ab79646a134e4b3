"""Tests of the single-use guard's database: its statements, its files, and its failures."""

import hashlib
import re
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest

from mrtr_options.sdk.call_key import CallNaming
from mrtr_options.sdk.single_use import SqliteStore, single_use, sql, sqlite
from mrtr_options.sdk.single_use.reservations import Claim, Pending, Stamp, Store, Unusable
from tests.bounds import SECONDS
from tests.sdk.fakes import (
    deliver,
    key_of,
    modern,
    params,
    refused,
    result,
    until,
)
from tests.sdk.guarded_tool import ADA, INDETERMINATE, Tool, begun, guarded, refused_once_begun
from tests.sdk.stores import Database, claim

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "statement",
    [
        "_SEE_ROUND",
        "_SEE_CALL",
        "_TAKE",
        "_FORGET",
        "_OUTCOME",
        "_RECORD",
        "_RELEASE",
        "_TAKE_OVER",
        "_SET_ASIDE",
    ],
)
def test_no_statement_scans_the_table_of_rounds(statement: str, path: Path) -> None:
    text = getattr(sql, statement).format(now=":now", serial="INTEGER")
    names = re.findall(r":(\w+)", text)
    with closing(SqliteStore(path)), closing(sqlite3.connect(path)) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {text}", dict.fromkeys(names, 0)).fetchall()
    found = [step for *_, step in plan if step.startswith("SCAN guard_rounds")]
    # `_TAKE` counts the rounds where the span of `seq` is too long.
    most = 1 if statement == "_TAKE" else 0
    assert len(found) == most, plan


async def test_a_delivery_that_waits_for_another_writes_nothing(path: Path) -> None:
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path, timeout=0)) as other:
        assert await store.reserve(await claim(store, "number")) is None
        other.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(SECONDS), pytest.raises(Pending):
            await store.reserve(await claim(store, "number"))


async def test_the_outcome_of_a_call_is_recorded_with_what_is_forgotten_for_it(path: Path) -> None:
    in_call: dict[str, Any] = {"call": "call", "call_seconds": 60.0}
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as other:
        for number in ("call", "later"):
            taken = await claim(store, number, **in_call)
            assert await store.reserve(taken) is None
            in_call |= {"begins": taken.begins}
            asked = replace(taken, asked_at=taken.begins)
            assert number == "later" or await store.record(asked, "a question")
        other.execute(
            "CREATE TRIGGER fails BEFORE UPDATE OF lasts ON guard_rounds"
            " BEGIN SELECT RAISE(ABORT, 'it fails'); END"
        )
        with pytest.raises(Unusable):
            await store.record(taken, "a result")
        assert await store.outcome("call") == "a question"
        other.execute("DROP TRIGGER fails")
        assert await store.record(taken, "a result")
        assert await store.outcome("call") == "a result"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE guard_rounds SET outcome = '{}'", "indeterminate"),
        ("DELETE FROM guard_horizon", "store_unusable"),
        ("ALTER TABLE guard_rounds RENAME TO away", "store_unusable"),
    ],
)
async def test_what_a_store_cannot_read_is_refused_with_a_reason_and_one_line(
    database: Database, statement: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with database.open() as store:
        tool, handler, asked = await begun(store)
        await deliver(handler, asked, ADA)
        database.execute(statement)
        assert await refused(handler, asked, ADA) == (types.INTERNAL_ERROR, reason)
    assert [len(line.splitlines()) for line in caplog.messages] == [1]
    assert tool.effects == ["Ada"]


def lose(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_gone_is_noticed_and_no_round_is_taken(
    replaced: bool, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SqliteStore(path)) as store:
        tool, handler, asked = await begun(store)
        lose(path)
        if replaced:
            SqliteStore(path).close()
        assert await refused(handler, asked, ADA) == (types.INTERNAL_ERROR, "store_unusable")
    assert f"{path} was deleted or replaced" in caplog.text
    assert tool.effects == []


async def test_a_state_from_before_a_file_was_lost_is_refused(path: Path) -> None:
    tool = Tool()
    with closing(SqliteStore(path)) as store:
        asked = await deliver(guarded(tool, store))
        await deliver(guarded(tool, store), asked, ADA)
    lose(path)
    with closing(SqliteStore(path)) as store:
        expected = (types.INVALID_PARAMS, "request_state_expired")
        assert await refused(guarded(tool, store), asked, ADA) == expected
    assert tool.effects == ["Ada"]


class FailingStore(SqliteStore):
    """A store that fails the next `fails` times."""

    fails: float = 0

    def _fail(self) -> None:
        if self.fails:
            self.fails -= 1
            raise Unusable("the disk is full")

    async def stamp(self) -> Stamp:
        self._fail()
        return await super().stamp()

    async def record(self, claim: Claim, outcome: str) -> bool:
        self._fail()
        return await super().record(claim, outcome)

    async def release(self, claim: Claim) -> None:
        self._fail()
        await super().release(claim)


@pytest.mark.parametrize("answers", [ADA, None], ids=["recorded", "given back"])
async def test_a_round_that_has_begun_is_recorded_or_given_back_when_the_store_is_back(
    answers: types.InputResponses | None, path: Path
) -> None:
    with closing(FailingStore(path)) as store:
        tool, handler, asked = await begun(store)
        store.fails = 3
        first = await deliver(handler, asked, answers)
        assert answers or key_of(first) == key_of(asked)
        assert await deliver(handler, asked, ADA) == result("Ada, asked 1 times")
    assert tool.effects == ["Ada"]
    assert store.fails == 0


async def test_a_round_that_cannot_be_recorded_in_time_is_indeterminate(path: Path) -> None:
    with closing(FailingStore(path)) as store:

        async def fail() -> None:
            store.fails = float("inf")

        tool = Tool(half_way=fail)
        asked = await deliver(guarded(tool, store))
        handler = single_use(store, round_seconds=0.2, wait_seconds=0.4)(tool)
        assert await refused_once_begun(tool, handler, asked) == INDETERMINATE
        assert await refused(handler, asked, ADA) == INDETERMINATE
    assert tool.effects == ["Ada"]


async def test_a_call_that_cannot_be_given_a_round_is_refused_with_a_reason(path: Path) -> None:
    with closing(FailingStore(path)) as store:
        store.fails = 1
        handler = guarded(Tool(), store)
        assert await refused(handler) == (types.INTERNAL_ERROR, "store_unusable")
        assert key_of(await deliver(handler)) == "who"


def test_a_database_that_cannot_be_used_is_refused_in_one_line(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    for name in (path, "", path.parent / "no" / "folder"):
        with pytest.raises(Unusable, match=r"^cannot use .*; name a writable SQLite file$"):
            SqliteStore(name)


def test_a_file_that_another_process_does_not_let_go_is_refused_in_one_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "PATIENCE_SECONDS", 0)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unusable, match=r"^cannot use .*locked.*; name a writable SQLite file$"):
            SqliteStore(path)


def test_a_store_of_another_format_is_refused_by_this_version_and_an_earlier_one(
    database: Database,
) -> None:
    with database.open():
        before_formats = (
            "INSERT INTO guard_horizon (id, until) VALUES (1, 0) ON CONFLICT DO NOTHING"
        )
        with pytest.raises(Exception, match="format"):
            database.execute(before_formats)
    for other in (
        "UPDATE guard_horizon SET format = 1",
        "ALTER TABLE guard_horizon DROP COLUMN format",
    ):
        database.execute(other)
        with pytest.raises(Unusable, match="end all servers that use it"), database.open():
            pass


def test_other_tables_or_names_have_another_format() -> None:
    name = CallNaming("x").name_of(modern(), params(), "ann")
    said = f"{sql._TABLES} {sql._HORIZON} {name and name.handle}"  # pyright: ignore[reportPrivateUsage]
    assert (sql.FORMAT, hashlib.sha256(said.encode()).hexdigest()[:8]) == (3, "f9a93d57")


def test_event_loops_that_share_a_store_take_rounds_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let loops wait for the store's thread while another process has the file."""
    loops = 20
    ready = threading.Barrier(loops + 1)
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as other:
        stamp = anyio.run(store.stamp)

        async def take(number: int) -> str | None:
            ready.wait()
            made = Claim(f"{number}", "", stamp.at, 60, mark=stamp.mark)
            return await store.reserve(made)

        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(loops) as threads:
            taken = [threads.submit(anyio.run, take, number) for number in range(loops)]
            ready.wait()
            other.execute("COMMIT")
            assert [each.result(SECONDS) for each in taken] == [None] * loops


async def test_rounds_are_taken_while_every_thread_of_the_process_hangs(store: Store) -> None:
    _, handler, asked = await begun(store)
    limiter = anyio.to_thread.current_default_thread_limiter()
    tokens = limiter.total_tokens
    let_go = threading.Event()
    limiter.total_tokens = 1
    late = anyio.move_on_after(SECONDS / 2)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, let_go.wait, SECONDS)
            await until(lambda: limiter.borrowed_tokens == 1)
            with late:
                assert await deliver(handler, asked, ADA) == result("Ada, asked 1 times")
            let_go.set()
    finally:
        limiter.total_tokens = tokens
    assert not late.cancelled_caught


def test_two_processes_may_open_a_new_file_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            other.execute("COMMIT")

        monkeypatch.setattr(time, "sleep", sleep)
        with closing(SqliteStore(path)):
            assert slept
