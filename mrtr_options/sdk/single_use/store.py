"""Where the guard reserves rounds and records their outcomes: the interface, and a SQLite file.

One rule keeps a round from running twice, whatever clocks do: a store has a *horizon*, a time that only
grows. It forgets no round whose state was handed out after the horizon, and refuses every state that was
handed out before it. A new store begins with its horizon at the present, so a state whose round was in a
lost file is refused, too.

Knows SQLite; nothing of MCP.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")


class Spent(Exception):
    """This round has run, with other answers."""


class Full(Exception):
    """The store holds as many rounds as it may, of all callers or of this one, and none of them may be
    forgotten yet."""


class Pending(Exception):
    """This round is reserved, its lease lasts, and nothing is recorded yet."""


class Abandoned(Exception):
    """This round was reserved, its lease has ended, and nothing is recorded: its process died."""


class Forgotten(Exception):
    """The state of this round was handed out, or its key was made, longer ago than the store remembers
    rounds, or as far in the future."""


class Unusable(Exception):
    """The store cannot be used. The text is one line that says what to do."""


class Store(Protocol):
    """Where rounds are reserved and their outcomes recorded. Every method is atomic."""

    async def now(self) -> float:
        """The time by the store's clock, in seconds. All instances share it."""
        ...

    async def reserve(
        self,
        number: str,
        answers: str,
        *,
        begins: float,
        lease_seconds: float,
        caller: str | None = None,
    ) -> str | None:
        """Take a round. Writes only where the round is not taken yet.

        Args:
            number: The round's number.
            answers: A digest of what it is taken with: the answers, or a first round's arguments.
            begins: When the number was handed out, by the store's clock; a call key's time, by its
                client's.
            lease_seconds: How long the round may take. Without an outcome by then it is abandoned.
            caller: Whose round it is; None for an anonymous client's.

        Returns:
            None if the round is now the caller's to run; the recorded outcome if it has run.

        Raises:
            Spent, Pending, Abandoned, Forgotten, Full, Unusable: The round is not taken.
        """
        ...

    async def outcome(self, number: str) -> str | None:
        """The recorded outcome of a round, whatever it was taken with; None if it is not taken.

        Raises:
            Pending, Abandoned, Unusable: It is taken, and there is none.
        """
        ...

    async def take_over(self, number: str, answers: str, *, lease_seconds: float) -> bool:
        """Take a round that was abandoned, to run it again; whether it is now the caller's.

        Args:
            number, answers, lease_seconds: As it was taken.
        """
        ...

    async def record(self, number: str, outcome: str) -> bool:
        """Record the outcome of a reserved round. The first one stays; True if that is this one."""
        ...

    async def release(self, number: str) -> None:
        """Give a reserved round back: it counts as not taken. One with an outcome is left as it is."""
        ...


MAX_ROUNDS_PER_CALLER = 10_000
"""How many rounds of one authenticated caller a store holds."""
KEEP_FACTOR, FORGET_FACTOR = 1.1, 1.2
"""A store moves its horizon to 1.1 times `keep_seconds` ago whenever it is further back than 1.2 times.
States are refused at `keep_seconds`, so no round is forgotten while a request for it is under way."""


NO_HORIZON = "the table guard_horizon is empty; drop it and guard_rounds, and restart"


def read(found: tuple[Any, ...] | None, answers: str) -> str | None:
    """The recorded outcome of a round; None if it is not taken.

    Args:
        found: Whether its state is too old; the digest that it was taken with, its outcome and whether
            its lease has ended, each None if it is not taken. None if the store has no horizon.
        answers: A digest of the answers that came.
    """
    if found is None:
        raise Unusable(NO_HORIZON)
    forgotten, taken_with, *rest = found
    if forgotten:
        raise Forgotten
    if taken_with is None:
        return None
    outcome = known(tuple(rest))
    if taken_with != answers:
        raise Spent
    return outcome


def known(found: tuple[Any, ...] | None) -> str | None:
    """The recorded outcome of a round; None if it is not taken.

    Args:
        found: Its outcome and whether its lease has ended.
    """
    if found is None:
        return None
    outcome, ended = found
    if outcome is None:
        raise Abandoned if ended else Pending
    return outcome


_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS guard_rounds (
    seq INTEGER PRIMARY KEY, number TEXT NOT NULL UNIQUE, answers TEXT NOT NULL,
    begins REAL NOT NULL, ends REAL NOT NULL, outcome TEXT
);
CREATE INDEX IF NOT EXISTS guard_rounds_by_age ON guard_rounds (begins);
CREATE TABLE IF NOT EXISTS guard_horizon (id INTEGER PRIMARY KEY CHECK (id = 1), until REAL NOT NULL);
"""
_COLUMNS = "SELECT name FROM pragma_table_info('guard_rounds')"
_ADD_CALLER = "ALTER TABLE guard_rounds ADD COLUMN caller TEXT"
_INDEX_CALLER = """
CREATE INDEX IF NOT EXISTS guard_rounds_by_caller ON guard_rounds (caller) WHERE caller IS NOT NULL
"""
_BEGIN_HORIZON = "INSERT INTO guard_horizon VALUES (1, ?) ON CONFLICT DO NOTHING"
_FOUND = """
SELECT :begins NOT BETWEEN max(until, :now - :keep) AND :now + :keep, answers, outcome, ends <= :now
FROM guard_horizon LEFT JOIN guard_rounds ON number = :number
"""
_OUTCOME = "SELECT outcome, ends <= :now FROM guard_rounds WHERE number = :number"
_TAKE_OVER = """
UPDATE guard_rounds SET ends = :now + :lease
WHERE number = :number AND answers = :answers AND outcome IS NULL AND ends <= :now
"""
_RECORD = """
UPDATE guard_rounds SET outcome = :outcome
WHERE number = :number AND coalesce(outcome, :outcome) = :outcome
"""
_RELEASE = "DELETE FROM guard_rounds WHERE number = :number AND outcome IS NULL"
_MOVE_HORIZON = "UPDATE guard_horizon SET until = :now - :horizon WHERE until < :now - :late"
_FORGET = "DELETE FROM guard_rounds WHERE begins < (SELECT until FROM guard_horizon)"
# The span of `seq` bounds the count, so rounds are counted only where it is as long as that: a key from
# ahead goes later than what was taken after it. Each end is a query of its own: SQLite looks one of them
# up, and scans the table for both.
_TAKE = """
INSERT INTO guard_rounds (number, answers, begins, ends, caller)
SELECT :number, :answers, :begins, :now + :lease, :caller WHERE (
    coalesce((SELECT max(seq) FROM guard_rounds) - (SELECT min(seq) FROM guard_rounds) + 1, 0) < :max
    OR (SELECT count(*) FROM guard_rounds) < :max
) AND (SELECT count(*) FROM guard_rounds WHERE caller = :caller) < :each
"""


class SqliteStore:
    """A store in a SQLite file, for every process of one machine that opens it.

    Args:
        path: The file; made if it is not there. ":memory:" for a store that several instances in this
            process use, and that goes with it.
        keep_seconds: How long a state is good for, from when it was first handed out. Not less than the
            server's own time to live for states, which then decides.
        max_rounds: How many rounds are held. One more is refused, none is forgotten early.
        max_rounds_per_caller: How many rounds of one authenticated caller are held.
        clock: Tells the time, in seconds since 1970; the machine's clock by default.

    Raises:
        Unusable: The file cannot be opened or is not a SQLite database.
    """

    _TIMEOUT_SECONDS = 30.0

    def __init__(
        self,
        path: Path | str,
        *,
        keep_seconds: float = 600.0,
        max_rounds: int = 1_000_000,
        max_rounds_per_caller: int = MAX_ROUNDS_PER_CALLER,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._path = path
        self._now = clock or _machine_time
        self._bounds = {
            "keep": keep_seconds,
            "horizon": KEEP_FACTOR * keep_seconds,
            "late": FORGET_FACTOR * keep_seconds,
            "max": max_rounds,
            "each": max_rounds_per_caller,
        }
        # One connection serves one round at a time, so one thread is enough. It is the store's own:
        # handlers that hang in threads of the process keep no round from being taken.
        self._thread = anyio.CapacityLimiter(1)
        self._lock = threading.Lock()
        self._file: os.stat_result | None = None
        with self._telling():
            self._db = sqlite3.connect(
                path, timeout=self._TIMEOUT_SECONDS, check_same_thread=False, isolation_level=None
            )
            try:
                # A crash of the process loses nothing; a power cut may lose the last rounds.
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._write_ahead()
                with self._db:
                    self._db.executescript(_TABLES)
                    if ("caller",) not in self._db.execute(_COLUMNS).fetchall():
                        self._db.execute(_ADD_CALLER)
                    self._db.execute(_INDEX_CALLER)
                    self._db.execute(_BEGIN_HORIZON, (self._now(),))
            except BaseException:
                self._db.close()
                raise
        if str(path) != ":memory:":
            self._file = os.stat(path)

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

    async def now(self) -> float:
        return self._now()

    async def reserve(
        self,
        number: str,
        answers: str,
        *,
        begins: float,
        lease_seconds: float,
        caller: str | None = None,
    ) -> str | None:
        values = {"number": number, "answers": answers, "begins": begins, "lease": lease_seconds}
        return await self._in_thread(
            partial(self._reserve, {**values, **self._bounds, "caller": caller})
        )

    def _reserve(self, values: dict[str, Any]) -> str | None:
        answers = values["answers"]
        recorded = read(self._db.execute(_FOUND, {**values, "now": self._now()}).fetchone(), answers)
        if recorded is not None:
            return recorded
        with self._db:
            # One transaction, or a round given back half-way through would look like a full store.
            self._db.execute("BEGIN IMMEDIATE")
            values["now"] = self._now()
            if self._db.execute(_MOVE_HORIZON, values).rowcount:
                self._db.execute(_FORGET)
            recorded = read(self._db.execute(_FOUND, values).fetchone(), answers)
            if recorded is None and not self._db.execute(_TAKE, values).rowcount:
                raise Full
        return recorded

    async def outcome(self, number: str) -> str | None:
        def look() -> str | None:
            values = {"number": number, "now": self._now()}
            return known(self._db.execute(_OUTCOME, values).fetchone())

        return await self._in_thread(look)

    async def take_over(self, number: str, answers: str, *, lease_seconds: float) -> bool:
        values = {"number": number, "answers": answers, "lease": lease_seconds, "now": self._now()}
        return await self._changed(_TAKE_OVER, values)

    async def record(self, number: str, outcome: str) -> bool:
        return await self._changed(_RECORD, {"number": number, "outcome": outcome})

    async def release(self, number: str) -> None:
        await self._changed(_RELEASE, {"number": number})

    async def _changed(self, statement: str, values: dict[str, Any]) -> bool:
        return await self._in_thread(lambda: self._db.execute(statement, values).rowcount == 1)

    async def _in_thread(self, use: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock, self._telling():
                self._check_file()
                return use()

        if self._file is None:  # nothing in memory takes so long that it needs a thread
            await anyio.lowlevel.checkpoint()
            return locked()
        return await anyio.to_thread.run_sync(locked, limiter=self._thread)

    def _check_file(self) -> None:
        """A deleted file can still be written to, and other processes see nothing of it."""
        if self._file is None:
            return
        try:
            there = os.path.samestat(self._file, os.stat(self._path))
        except FileNotFoundError:
            there = False
        if not there:
            raise Unusable(
                f"{self._path} was deleted or replaced under this process; restart the server"
            )

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Name the file where SQLite only says what is wrong with it."""
        try:
            yield
        except sqlite3.Error as error:
            raise Unusable(
                f"cannot use {self._path} as a store of rounds ({error}); name a writable SQLite file"
            ) from error


def _machine_time() -> float:
    return time.time_ns() / 1e9
