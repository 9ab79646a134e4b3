"""The guard's rounds in PostgreSQL, for a fleet whose instances share no file.

The database's clock decides. A broken connection is replaced, and what was under way on it is done
again: a round whose connection broke while it was taken is found to be the store's own. A
connection that stalls (a machine vanished, a proxy swallows packets) is broken off after
`STALL_SECONDS`; no time limit of the driver's covers that.

A pooler between the store and the database may give each transaction another connection of its
own: nothing here outlives a transaction, and no statement is prepared.

Needs psycopg (the extra `durable`). Knows `sql`.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import psycopg

from mrtr_options.sdk.single_use.reservations import Claim, Unusable
from mrtr_options.sdk.single_use.seen import Seen
from mrtr_options.sdk.single_use.sql import MAX_ROUNDS_PER_CALLER, SqlStore, Values

T = TypeVar("T")

STALL_SECONDS = 5.0
"""The time limit of a connection to the database, and of each use of it."""
PATIENCE_SECONDS = 15.0
"""The time that a round waits for those before it.

One may stall on the old connection, while a new one is made, and on the new one.
"""

_SPELLING = {
    "now": "CAST(extract(epoch FROM clock_timestamp()) AS double precision)",
    "serial": "BIGINT GENERATED ALWAYS AS IDENTITY",
}


@cache
def _spelled(statement: str) -> bytes:
    return re.sub(r":(\w+)", r"%(\1)s", statement.format(**_SPELLING)).encode()


class PostgresStore(SqlStore):
    """A store in a PostgreSQL database, for every instance that connects to it.

    Args:
        url: The database, as libpq takes it: `postgresql://...`.
        keep_seconds, max_rounds, max_rounds_per_caller: See `SqliteStore`.

    Raises:
        Unusable: The database cannot be used, in one line that says why.
        ValueError: A number is not over 0.
    """

    def __init__(
        self,
        url: str,
        *,
        keep_seconds: float = 600.0,
        max_rounds: int = 1_000_000,
        max_rounds_per_caller: int = MAX_ROUNDS_PER_CALLER,
    ) -> None:
        super().__init__(keep_seconds, max_rounds, max_rounds_per_caller)
        self._url = url
        with _telling(), ExitStack() as opened:
            self._db = opened.enter_context(closing(self._connect()))
            with self._transaction():
                # IF NOT EXISTS does not hold for two that look at once.
                self._db.execute("SELECT pg_advisory_xact_lock(hashtext('guard_rounds'))")
                self._make_tables()
            opened.pop_all()

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=int(STALL_SECONDS),
            prepare_threshold=None,  # a pooler runs the next one elsewhere
        )

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._db.close()

    def _execute(self, statement: str, values: Values) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._db.execute(_spelled(statement), values)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Run a block in a transaction, which the database ends if this process is paused in it.

        It would hold its locks against all others.
        """
        limit = f"SET LOCAL idle_in_transaction_session_timeout = {int(STALL_SECONDS * 1000)}"
        with self._db.transaction():
            self._db.execute(limit.encode())
            yield

    @contextmanager
    def _alone(self, claim: Claim, seen: Seen) -> Generator[None]:
        with self._transaction():
            name: Values = {"name": claim.call or claim.number}
            self._execute("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))", name)
            yield

    async def reserve(self, claim: Claim) -> str | None:
        with anyio.move_on_after(PATIENCE_SECONDS):  # once it is in the thread it runs to its end
            return await super().reserve(claim)
        raise Unusable("the guard's database cannot be used (it does not answer)")

    async def _use(self, use: Callable[[], T]) -> T:
        """Use the connection; once more, on a new one, if it has broken."""

        def locked() -> T:
            with _telling(), self._lock:
                try:
                    with self._bounded():
                        return use()
                except psycopg.Error:
                    if not self._db.closed:
                        raise
                    self._db = self._connect()
                    with self._bounded():
                        return use()

        return await anyio.to_thread.run_sync(locked, limiter=self._thread)

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


@contextmanager
def _telling() -> Generator[None]:
    """Say in one line why the database cannot be used."""
    try:
        yield
    except psycopg.Error as error:
        what = str(error).strip().partition("\n")[0]
        raise Unusable(
            f"the guard's database cannot be used ({what});"
            " name one that answers: postgresql://HOST/NAME"
        ) from error


def _break_off(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
