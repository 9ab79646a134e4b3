"""Tests of the guard's store on PostgreSQL alone; the guard's other tests run on both stores."""

import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from mrtr_options.sdk.single_use.reservations import Claim, Pending, Unusable
from scoreboard.postgres import fresh
from tests.bounds import SECONDS
from tests.sdk.fakes import ON_ASYNCIO
from tests.sdk.stores import claim

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")

from mrtr_options.sdk.single_use import postgres as guards_database  # noqa: E402
from mrtr_options.sdk.single_use.postgres import PostgresStore  # noqa: E402

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


@pytest.fixture
def url(postgres: str) -> str:
    """Make an empty database."""
    return fresh(postgres)


@pytest.fixture
def store(url: str) -> Generator[PostgresStore]:
    """Open an empty store."""
    with closing(PostgresStore(url)) as store:
        yield store


async def take(store: PostgresStore, number: str) -> str | None:
    """Reserve a round whose number is handed out now, and return the answer."""
    return await store.reserve(await claim(store, number))


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


async def test_a_connection_that_broke_in_a_round_is_replaced_to_give_it_back_or_record_it(
    store: PostgresStore, url: str
) -> None:
    first = await claim(store, "number")
    second = await claim(store, "number")
    assert await store.reserve(first) is None
    break_connection(store, url)
    await store.release(first)
    assert await store.reserve(second) is None
    break_connection(store, url)
    assert await store.record(second, "outcome")
    assert await take(store, "number") == "outcome"


async def test_a_connection_that_broke_while_a_round_was_taken_leaves_no_round_that_never_begins(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break the connection after the database has taken the round, before the store hears so."""
    db = store._db  # pyright: ignore[reportPrivateUsage]
    transaction = db.transaction

    @contextmanager
    def lose_the_commit() -> Generator[None]:
        with transaction():
            yield
        db.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(db, "transaction", lose_the_commit)
    assert await store.reserve(await claim(store, "number", lease_seconds=0)) is None
    db = store._db  # pyright: ignore[reportPrivateUsage]
    execute = db.execute

    def lose_the_response(query: bytes, *args: Any) -> Any:
        response = execute(query, *args)
        if b"UPDATE guard_rounds" in query:
            db.close()
            raise psycopg.OperationalError("the connection is lost")
        return response

    monkeypatch.setattr(db, "execute", lose_the_response)
    assert await store.take_over(await claim(store, "number"))
    with pytest.raises(Pending):
        await take(store, "number")


async def test_what_the_database_refuses_on_a_good_connection_is_told_at_once(
    store: PostgresStore,
) -> None:
    refused: list[Any] = []

    def refuse() -> None:
        refused.append(store._db)  # pyright: ignore[reportPrivateUsage]
        raise psycopg.errors.DiskFull("no space left")

    with pytest.raises(Unusable, match="no space left"):
        await store._use(refuse)  # pyright: ignore[reportPrivateUsage]
    assert await take(store, "number") is None
    assert refused == [store._db]  # pyright: ignore[reportPrivateUsage]


@contextmanager
def stalled(url: str) -> Generator[Callable[[], None]]:
    """Stall the database for the block, or until the yielded function is called."""
    with psycopg.connect(url) as db:
        db.execute(f"SET idle_in_transaction_session_timeout = '{SECONDS}s'")
        db.execute("LOCK TABLE guard_rounds")
        yield db.rollback


async def test_a_connection_that_stalls_is_broken_off_and_replaced(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards_database, "STALL_SECONDS", 1)
    held = await claim(store, "number")
    connect = store._connect  # pyright: ignore[reportPrivateUsage]
    assert await store.reserve(held) is None
    with anyio.fail_after(SECONDS), stalled(url) as serve_again:
        monkeypatch.setattr(store, "_connect", lambda: (serve_again(), connect())[1])
        assert await store.record(held, "outcome")
    assert await take(store, "number") == "outcome"


async def test_a_process_that_is_paused_in_a_transaction_keeps_the_others_out_for_seconds(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(connection: object) -> None:
        """Do not break a connection off: the process is paused."""

    monkeypatch.setattr(guards_database, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(guards_database, "_break_off", pause)
    held = await claim(store, "number")
    assert await store.reserve(held) is None
    recorded: list[bool] = []
    paused: Any
    with closing(PostgresStore(url)) as paused, anyio.fail_after(SECONDS):

        def lock_and_pause() -> None:
            with paused._transaction():
                paused._execute("LOCK TABLE guard_rounds", {})
                if not recorded:
                    recorded.append(anyio.from_thread.run(store.record, held, "outcome"))

        await paused._use(lock_and_pause)  # again, on a new connection
    assert recorded == [True]


async def test_a_database_that_does_not_answer_refuses_rounds_in_bounded_time(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards_database, "STALL_SECONDS", 2)
    monkeypatch.setattr(guards_database, "PATIENCE_SECONDS", 1)
    claims = [await claim(store, number) for number in "123"]
    refused: list[str] = []

    async def refuse(claim: Claim) -> None:
        with pytest.raises(Unusable, match="the guard's database cannot be used") as unusable:
            await store.reserve(claim)
        refused.append(str(unusable.value))

    with anyio.fail_after(SECONDS), stalled(url):
        async with anyio.create_task_group() as group:
            for each in claims:
                group.start_soon(refuse, each)
    waited = [each for each in refused if "it does not answer" in each]
    assert len(waited) == 2  # two waited for the first one
    assert await take(store, "after") is None


async def test_no_statement_is_prepared_which_a_pooler_would_run_elsewhere(
    store: PostgresStore,
) -> None:
    """Prepare nothing, since a pooler may hand a transaction to any of its connections."""
    for number in range(12):
        held = await claim(store, f"{number}")
        assert await store.reserve(held) is None
        assert await store.record(held, "outcome")
    db = store._db  # pyright: ignore[reportPrivateUsage]
    assert db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


async def test_a_round_that_was_told_as_not_begun_is_not_taken_later(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards_database, "STALL_SECONDS", 0.3)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE guard_rounds IN SHARE MODE")  # as CREATE INDEX does
        with anyio.fail_after(SECONDS), pytest.raises(Unusable):
            await take(store, "number")
    with psycopg.connect(url, autocommit=True) as db:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while db.execute(waiting).fetchone() is not None:
            pass
        assert db.execute("SELECT count(*) FROM guard_rounds").fetchone() == (0,)
