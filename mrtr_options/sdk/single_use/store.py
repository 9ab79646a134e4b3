"""Where the guard reserves rounds and records their outcomes: the interface, and a SQLite file.

Knows SQLite; nothing of MCP.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio.to_thread


class Spent(Exception):
    """This round is taken with other answers."""


class Full(Exception):
    """The store holds as many rounds as it may and none of them may be forgotten yet."""


class Pending(Exception):
    """This round is reserved and nothing is recorded yet."""


class Store(Protocol):
    """Where rounds are reserved and their outcomes recorded. Every method is atomic."""

    async def reserve(self, number: str, answers: str) -> str | None:
        """Take a round.

        Args:
            number: The round's number.
            answers: A digest of the answers that it is taken with.

        Returns:
            None if the round is now the caller's to run; the recorded outcome if it has run.

        Raises:
            Spent: Taken before with other answers.
            Pending: Taken before with these answers, and no outcome recorded.
            Full: No room.
        """
        ...

    async def record(self, number: str, outcome: str) -> None:
        """Record the outcome of a reserved round."""
        ...

    async def release(self, number: str) -> None:
        """Give a reserved round back: it counts as not taken."""
        ...


class SqliteStore:
    """A store in a SQLite file, for every process that opens it.

    Args:
        path: The file; made if it is not there.
        keep_seconds: How long a round is remembered. Not less than a state is good for, or a state
            could be used again after its round was forgotten.
        max_rounds: How many rounds are held. One more is refused, none is forgotten early.
        clock: Tells the time by which rounds are kept, in seconds since 1970.
    """

    _TIMEOUT_SECONDS = 30.0

    def __init__(
        self,
        path: Path | str,
        *,
        keep_seconds: float = 660.0,
        max_rounds: int = 1_000_000,
        clock: Callable[[], float] = lambda: time.time(),
    ) -> None:
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._max_rounds = max_rounds
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            path, timeout=self._TIMEOUT_SECONDS, check_same_thread=False, isolation_level=None
        )
        # A crash of the process loses nothing; a power cut may lose the last rounds.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._write_ahead()
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS rounds (seq INTEGER PRIMARY KEY, number TEXT NOT NULL UNIQUE,"
            " answers TEXT NOT NULL, taken REAL NOT NULL, outcome TEXT)"
        )
        self._db.execute("CREATE INDEX IF NOT EXISTS rounds_by_age ON rounds (taken)")

    def _write_ahead(self) -> None:
        # SQLite's own timeout does not hold for this: of two processes that open a new file at once,
        # one is told at once that it is locked.
        give_up = time.monotonic() + self._TIMEOUT_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up:
                    raise
            time.sleep(0.01)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    async def reserve(self, number: str, answers: str) -> str | None:
        return await anyio.to_thread.run_sync(partial(self._reserve, number, answers))

    def _reserve(self, number: str, answers: str) -> str | None:
        now = self._clock()
        with self._lock, self._db:
            # One transaction, or a round given back half-way through would look like a full store.
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM rounds WHERE taken < ?", (now - self._keep_seconds,))
            # Rounds go oldest first, so the span of `seq` bounds their count, and costs no scan.
            taken = self._db.execute(
                "INSERT INTO rounds (number, answers, taken) SELECT ?, ?, ?"
                " WHERE (SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM rounds) < ?"
                " ON CONFLICT DO NOTHING",
                (number, answers, now, self._max_rounds),
            ).rowcount
            if taken:
                return None
            row = self._db.execute(
                "SELECT answers, outcome FROM rounds WHERE number = ?", (number,)
            ).fetchone()
        if row is None:
            raise Full
        if row[0] != answers:
            raise Spent
        if row[1] is None:
            raise Pending
        return row[1]

    async def record(self, number: str, outcome: str) -> None:
        await self._change("UPDATE rounds SET outcome = ? WHERE number = ?", outcome, number)

    async def release(self, number: str) -> None:
        await self._change("DELETE FROM rounds WHERE number = ?", number)

    async def _change(self, statement: str, *values: str) -> None:
        def change() -> None:
            with self._lock:
                self._db.execute(statement, values)

        await anyio.to_thread.run_sync(change)
