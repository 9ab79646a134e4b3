"""The guard's rounds in PostgreSQL, for a fleet whose instances share no file.

Every step is one statement that commits by itself, so an instance that dies between two of them leaves
nothing locked for the others. The database's clock decides. A broken connection is replaced, and what
was under way on it is done again: every row names the store that took it, so a round whose connection
broke while it was taken is found to be the store's own. A connection that stalls (a machine vanished, a
proxy swallows packets) is broken off after `STALL_SECONDS`; no time limit of the driver's covers that.

Needs psycopg (the extra `durable`). Knows the interface in `store`.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, LiteralString, TypeVar

import anyio
import anyio.to_thread
import psycopg

from mrtr_options.sdk.single_use.store import (
    FORGET_FACTOR,
    KEEP_FACTOR,
    MAX_ROUNDS_PER_CALLER,
    NO_HORIZON,
    Full,
    Unusable,
    known,
    read,
)

T = TypeVar("T")

STALL_SECONDS = 5.0
"""How long the database may take to connect, and how long to serve a store once it has."""
PATIENCE_SECONDS = 15.0
"""How long a round waits for those before it: one may stall on the old connection, while a new one is
made, and on the new one."""

_NOW: LiteralString = "extract(epoch FROM clock_timestamp())::double precision"
_TABLES = f"""
CREATE TABLE IF NOT EXISTS guard_rounds (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    answers TEXT NOT NULL,
    owner TEXT NOT NULL,
    begins DOUBLE PRECISION NOT NULL,
    ends DOUBLE PRECISION NOT NULL,
    outcome TEXT
);
ALTER TABLE guard_rounds ADD COLUMN IF NOT EXISTS caller TEXT;
CREATE INDEX IF NOT EXISTS guard_rounds_by_age ON guard_rounds (begins);
CREATE INDEX IF NOT EXISTS guard_rounds_by_caller ON guard_rounds (caller) WHERE caller IS NOT NULL;
CREATE TABLE IF NOT EXISTS guard_horizon (
    id INTEGER PRIMARY KEY CHECK (id = 1), until DOUBLE PRECISION NOT NULL
);
INSERT INTO guard_horizon VALUES (1, {_NOW}) ON CONFLICT DO NOTHING
"""
_FORGET = f"""
WITH moved AS (
    UPDATE guard_horizon SET until = {_NOW} - %(horizon)s
    WHERE until < {_NOW} - %(late)s
    RETURNING until
)
DELETE FROM guard_rounds USING moved WHERE begins < moved.until
"""
# The span of `seq` bounds the count, so rounds are counted only where it is as long as that: a key from
# ahead goes later than what was taken after it.
_ROOM: LiteralString = """(
    (SELECT coalesce(max(seq) - min(seq) + 1, 0) < %(max)s FROM guard_rounds)
    OR (SELECT count(*) < %(max)s FROM guard_rounds)
) AND (SELECT count(*) < %(each)s FROM guard_rounds WHERE caller = %(caller)s)"""
# The conflict is for two at once.
_TAKE = f"""
INSERT INTO guard_rounds (number, answers, owner, begins, ends, caller)
SELECT %(number)s, %(answers)s, %(owner)s, %(begins)s, {_NOW} + %(lease)s, %(caller)s WHERE {_ROOM}
ON CONFLICT (number) DO NOTHING
"""
_FOUND: LiteralString = f"""
SELECT %(begins)s NOT BETWEEN greatest(until, {_NOW} - %(keep)s) AND {_NOW} + %(keep)s,
    answers, outcome, ends <= {_NOW}, owner
FROM guard_horizon LEFT JOIN guard_rounds ON number = %(number)s
"""
_OUTCOME = f"SELECT outcome, ends <= {_NOW} FROM guard_rounds WHERE number = %(number)s"
_TAKE_OVER = f"""
UPDATE guard_rounds SET ends = {_NOW} + %(lease)s, owner = %(owner)s
WHERE number = %(number)s AND answers = %(answers)s AND outcome IS NULL AND ends <= {_NOW}
"""
# The same outcome is no other one: the connection may have broken after it was recorded.
_RECORD: LiteralString = """
UPDATE guard_rounds SET outcome = %(outcome)s
WHERE number = %(number)s AND coalesce(outcome, %(outcome)s) = %(outcome)s
"""
_RELEASE: LiteralString = """
DELETE FROM guard_rounds WHERE number = %(number)s AND owner = %(owner)s AND outcome IS NULL
"""

Values = dict[str, str | float | None]


class PostgresStore:
    """A store in a PostgreSQL database, for every instance that connects to it.

    Args:
        url: The database, as libpq takes it: `postgresql://...`.
        keep_seconds: How long a state is good for, from when it was first handed out. Not less than the
            server's own time to live for states, which then decides.
        max_rounds: How many rounds are held. One more is refused, none is forgotten early. Instances
            that take rounds at the same moment may go beyond it by one each.
        max_rounds_per_caller: How many rounds of one authenticated caller are held.

    Raises:
        psycopg.OperationalError: The database cannot be reached.
    """

    def __init__(
        self,
        url: str,
        *,
        keep_seconds: float = 600.0,
        max_rounds: int = 1_000_000,
        max_rounds_per_caller: int = MAX_ROUNDS_PER_CALLER,
    ) -> None:
        self._url = url
        self._values: Values = {
            "keep": keep_seconds,
            "horizon": KEEP_FACTOR * keep_seconds,
            "late": FORGET_FACTOR * keep_seconds,
            "max": max_rounds,
            "each": max_rounds_per_caller,
            "owner": secrets.token_urlsafe(16),
        }
        # One connection serves one round at a time, so one thread is enough. It is the store's own:
        # handlers that hang in threads of the process keep no round from being taken.
        self._thread = anyio.CapacityLimiter(1)
        self._lock = threading.Lock()
        self._db = self._connect()
        with self._db.transaction():
            # IF NOT EXISTS does not hold for two that look at once.
            self._db.execute("SELECT pg_advisory_xact_lock(hashtext('guard_rounds'))")
            self._db.execute(_TABLES)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._url, autocommit=True, connect_timeout=int(STALL_SECONDS))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._db.close()

    async def now(self) -> float:
        return (await self._in_thread(lambda: self._row(f"SELECT {_NOW}", {})))[0]

    async def reserve(
        self,
        number: str,
        answers: str,
        *,
        begins: float,
        lease_seconds: float,
        caller: str | None = None,
    ) -> str | None:
        values: Values = {
            **self._values,
            "number": number,
            "answers": answers,
            "begins": begins,
            "lease": lease_seconds,
            "caller": caller,
        }
        taking = False

        def reserve() -> str | None:
            nonlocal taking
            while True:
                *found, owner = self._row(_FOUND, values)
                if taking and owner == values["owner"]:
                    return None  # the connection broke after it was taken
                recorded = read(tuple(found), answers)
                if recorded is not None:
                    return recorded
                if taking and not self._row(f"SELECT {_ROOM}", values)[0]:
                    raise Full
                self._db.execute(_FORGET, values)
                taking = True
                if self._db.execute(_TAKE, values).rowcount:
                    return None
                # There is no room; or another took it between the statements and may have given it back.

        with anyio.move_on_after(PATIENCE_SECONDS):
            return await self._in_thread(reserve)  # once it is in the thread it runs to its end
        raise Unusable("the guard's database cannot be used (it does not answer)")

    async def outcome(self, number: str) -> str | None:
        return await self._in_thread(
            lambda: known(self._db.execute(_OUTCOME, {"number": number}).fetchone())
        )

    async def take_over(self, number: str, answers: str, *, lease_seconds: float) -> bool:
        values: Values = {**self._values, "number": number, "answers": answers, "lease": lease_seconds}
        return await self._changed(_TAKE_OVER, values)

    async def record(self, number: str, outcome: str) -> bool:
        return await self._changed(_RECORD, {"number": number, "outcome": outcome})

    async def release(self, number: str) -> None:
        await self._changed(_RELEASE, {**self._values, "number": number})

    async def _changed(self, statement: LiteralString, values: Values) -> bool:
        return await self._in_thread(lambda: self._db.execute(statement, values).rowcount == 1)

    def _row(self, statement: LiteralString, values: Values) -> tuple[Any, ...]:
        row = self._db.execute(statement, values).fetchone()
        if row is None:
            raise Unusable(NO_HORIZON)
        return row

    async def _in_thread(self, use: Callable[[], T]) -> T:
        """Use the connection; once more, on a new one, if it has broken."""

        def locked() -> T:
            with self._lock:
                try:
                    with self._bounded():
                        return use()
                except psycopg.OperationalError:
                    if not self._db.closed:
                        raise
                    self._db = self._connect()
                    with self._bounded():
                        return use()

        def telling() -> T:
            try:
                return locked()
            except psycopg.Error as error:
                what = str(error).strip().partition("\n")[0]
                raise Unusable(f"the guard's database cannot be used ({what})") from error

        return await anyio.to_thread.run_sync(telling, limiter=self._thread)

    @contextmanager
    def _bounded(self) -> Generator[None]:
        """Break the connection off if it is still in use after `STALL_SECONDS`."""
        with socket.socket(fileno=os.dup(self._db.fileno())) as connection:
            timer = threading.Timer(STALL_SECONDS, _break_off, [connection])
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()


def _break_off(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
