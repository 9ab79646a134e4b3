"""What is of PostgreSQL alone in the guard's store; the guard's tests hold both stores to the rest."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mrtr_options.bench.postgres import fresh
from mrtr_options.sdk.single_use import Pending
from tests.bounds import SECONDS

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")

from mrtr_options.sdk.single_use.postgres import PostgresStore  # noqa: E402

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(postgres: str) -> str:
    """A database with nothing in it."""
    return fresh(postgres)


@pytest.fixture
def store(url: str) -> Generator[PostgresStore]:
    """A store with nothing in it."""
    with closing(PostgresStore(url)) as store:
        yield store


async def take(store: PostgresStore, number: str) -> str | None:
    """What `reserve` says to a round whose number is handed out now."""
    return await store.reserve(number, "answers", begins=await store.now(), lease_seconds=60)


def break_connection(store: PostgresStore, url: str) -> None:
    """End a store's connection from the database's side, as a restart of it does."""
    with psycopg.connect(url, autocommit=True) as db:
        pid = store._db.info.backend_pid  # pyright: ignore[reportPrivateUsage]
        assert db.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,)).fetchone() == (True,)


async def test_a_new_database_may_be_opened_by_many_instances_at_once(url: str) -> None:
    ready = threading.Barrier(8, timeout=SECONDS)

    def open_and_close() -> None:
        ready.wait()
        PostgresStore(url).close()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(anyio.to_thread.run_sync, open_and_close)


async def test_a_connection_that_broke_between_rounds_is_replaced(
    store: PostgresStore, url: str
) -> None:
    break_connection(store, url)
    assert await take(store, "number") is None


async def test_a_connection_that_broke_in_a_round_is_replaced_to_record_it(
    store: PostgresStore, url: str
) -> None:
    assert await take(store, "number") is None
    break_connection(store, url)
    await store.record("number", "outcome")
    assert await take(store, "number") == "outcome"


async def test_a_connection_that_broke_in_a_round_is_replaced_to_give_it_back(
    store: PostgresStore, url: str
) -> None:
    assert await take(store, "number") is None
    break_connection(store, url)
    await store.release("number")
    assert await take(store, "number") is None


async def test_a_round_that_another_has_taken_since_is_not_given_back(
    store: PostgresStore, url: str
) -> None:
    assert await take(store, "number") is None
    await store.release("number")
    with closing(PostgresStore(url)) as other:
        assert await take(other, "number") is None
        await store.release("number")
        with pytest.raises(Pending):
            await take(other, "number")


async def test_a_connection_that_broke_while_a_round_was_taken_leaves_no_round_that_never_begins(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has taken the round, and the store has not heard so."""
    db = store._db  # pyright: ignore[reportPrivateUsage]
    execute = db.execute

    def lose_the_response(query: str, *args: Any) -> Any:
        response = execute(query.encode(), *args)
        if "INSERT" in query:
            db.close()
            raise psycopg.OperationalError("the connection is lost")
        return response

    monkeypatch.setattr(db, "execute", lose_the_response)
    assert await take(store, "number") is None
    with pytest.raises(Pending):
        await take(store, "number")


async def test_a_round_that_waits_uses_no_room_up(url: str) -> None:
    with closing(PostgresStore(url, max_rounds=3)) as store:
        assert await take(store, "0") is None
        for _ in range(10):
            with pytest.raises(Pending):
                await take(store, "0")
        for number in "12":
            assert await take(store, number) is None
