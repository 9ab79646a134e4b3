"""The guard's rounds in PostgreSQL, for a fleet whose instances share no file.

Every step is one statement that commits by itself, so an instance that dies between two of them leaves
nothing locked for the others. A broken connection is replaced before a round is taken and when its
outcome is recorded. A round whose connection breaks while it is taken fails; it is found taken or not
taken, like any round whose process died.

Needs psycopg (the extra `durable`). Knows the interface in `store`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, LiteralString

import anyio.to_thread
import psycopg

from mrtr_options.sdk.single_use.store import Full, Pending, Spent

_TABLE = """
CREATE TABLE IF NOT EXISTS single_use_rounds (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    answers TEXT NOT NULL,
    taken DOUBLE PRECISION NOT NULL,
    outcome TEXT
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS single_use_rounds_by_age ON single_use_rounds (taken)"
_FORGET = "DELETE FROM single_use_rounds WHERE taken < %s"
# Rounds go oldest first, so the span of `seq` bounds their count, and costs no scan.
_ROOM: LiteralString = "(SELECT coalesce(max(seq) - min(seq) + 1, 0) < %(max)s FROM single_use_rounds)"
# The conflict is for two at once; looking first keeps a delivery that waits from using `seq` up.
_TAKE = f"""
INSERT INTO single_use_rounds (number, answers, taken) SELECT %(number)s, %(answers)s, %(now)s
WHERE {_ROOM} AND NOT EXISTS (SELECT FROM single_use_rounds WHERE number = %(number)s)
ON CONFLICT (number) DO NOTHING
"""
_HAS_ROOM = f"SELECT {_ROOM}"
_FOUND = "SELECT answers, outcome FROM single_use_rounds WHERE number = %s"
_RECORD = "UPDATE single_use_rounds SET outcome = %s WHERE number = %s"
_RELEASE = "DELETE FROM single_use_rounds WHERE number = %s"

Values = tuple[str | float, ...]


class PostgresStore:
    """A store in a PostgreSQL database, for every instance that connects to it.

    Args:
        url: The database, as libpq takes it: `postgresql://...`.
        keep_seconds: How long a round is remembered, by the instances' clocks. More than a state is
            good for by as much as the clocks may differ, or a state could be used again after its
            round was forgotten.
        max_rounds: How many rounds are held. One more is refused, none is forgotten early. Instances
            that take rounds at the same moment may go beyond it by one each.

    Raises:
        psycopg.OperationalError: The database cannot be reached.
    """

    def __init__(self, url: str, *, keep_seconds: float = 660.0, max_rounds: int = 1_000_000) -> None:
        self._url = url
        self._keep_seconds = keep_seconds
        self._max_rounds = max_rounds
        self._lock = threading.Lock()
        self._db = self._connect()
        with self._db.transaction():
            # IF NOT EXISTS does not hold for two that look at once.
            self._db.execute("SELECT pg_advisory_xact_lock(hashtext('single_use_rounds'))")
            self._db.execute(_TABLE)
            self._db.execute(_INDEX)

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._url, autocommit=True)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._db.close()

    async def reserve(self, number: str, answers: str) -> str | None:
        return await anyio.to_thread.run_sync(partial(self._reserve, number, answers))

    def _reserve(self, number: str, answers: str) -> str | None:
        now = time.time()
        values = {"number": number, "answers": answers, "now": now, "max": self._max_rounds}
        with self._lock:
            self._again(_FORGET, (now - self._keep_seconds,))
            while True:
                if self._db.execute(_TAKE, values).rowcount:
                    return None
                row = self._db.execute(_FOUND, (number,)).fetchone()
                if row is not None:
                    break
                room = self._db.execute(_HAS_ROOM, values).fetchone()
                if room == (False,):
                    raise Full
                # It was given back between the two statements: it can be taken now.
        if row[0] != answers:
            raise Spent
        if row[1] is None:
            raise Pending
        return row[1]

    async def record(self, number: str, outcome: str) -> None:
        await anyio.to_thread.run_sync(self._locked, self._again, _RECORD, (outcome, number))

    async def release(self, number: str) -> None:
        # Not a second time: by then another instance may have taken the round.
        await anyio.to_thread.run_sync(self._locked, self._once, _RELEASE, (number,))

    def _locked(
        self, execute: Callable[[LiteralString, Values], None], statement: LiteralString, values: Values
    ) -> None:
        with self._lock:
            execute(statement, values)

    def _again(self, statement: LiteralString, values: Values) -> None:
        """Run what may run twice, on a new connection if the old one has broken."""
        try:
            self._once(statement, values)
        except psycopg.OperationalError:
            if not self._db.closed:
                raise
            self._db = self._connect()
            self._once(statement, values)

    def _once(self, statement: LiteralString, values: Values) -> None:
        self._db.execute(statement, values)
