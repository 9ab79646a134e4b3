"""Where the guard reserves rounds and records their outcomes: the interface, one set of statements
for SQLite and PostgreSQL, and a SQLite file.

One rule keeps a round from running twice, whatever clocks do: a store has a *horizon*, a time that
only grows. It forgets no round whose state was handed out after the horizon, and refuses every
state that was handed out before it. A new store begins with its horizon at the present, so a state
whose round was in a lost file is refused, too.

Every row carries a fencing token, the `owner`: of the delivery that took the round, and then of the
one that took it over. Only that one records its outcome or gives it back, so a delivery that was
paused beyond its lease changes nothing of a round that another runs, in its own process or
elsewhere. Every statement commits by itself: a process that dies between two of them leaves nothing
locked.

Knows SQL and SQLite; nothing of MCP.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from mrtr_options.checks import check_numbers
from mrtr_options.errors import UsageError
from mrtr_options.files import replaced

T = TypeVar("T")


class Spent(Exception):
    """This round has run, with other answers."""


class Full(Exception):
    """The store holds as many rounds as it may, of all callers or of this one, and none of them may
    be forgotten yet.
    """


class Pending(Exception):
    """This round is reserved, its lease lasts, and nothing is recorded yet."""


class Abandoned(Exception):
    """This round was reserved, its lease has ended, and nothing is recorded: its process died."""


class Forgotten(Exception):
    """The state of this round was handed out, or its key was made, longer ago than the store
    remembers rounds, or as far in the future.
    """


class Unusable(UsageError):
    """The store cannot be used. The text is one line that says what to do."""


@dataclass(frozen=True)
class Claim:
    """One delivery's claim to a round.

    Attributes:
        number: The round's number.
        answers: A digest of what it is taken with: the answers, or a first round's arguments.
        begins: When the number was handed out, by the store's clock; a call key's time, by its
            client's.
        lease_seconds: How long the round may take. Without an outcome by then it is abandoned.
        caller: Whose round it is; None for an anonymous client's.
        owner: A fencing token: this delivery's, and no other one's.
    """

    number: str
    answers: str
    begins: float
    lease_seconds: float
    caller: str | None = None
    owner: str = field(default_factory=lambda: secrets.token_urlsafe(16))


class Store(Protocol):
    """Where rounds are reserved and their outcomes recorded. Every method is atomic."""

    async def now(self) -> float:
        """The time by the store's clock, in seconds. All instances share it."""
        ...

    async def reserve(self, claim: Claim) -> str | None:
        """Take a round. Writes only where the round is not taken yet.

        Returns:
            None if the round is now the delivery's to run; the recorded outcome if it has run.

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

    async def take_over(self, claim: Claim) -> bool:
        """Take a round that was abandoned, to run it again; whether it is now the delivery's."""
        ...

    async def record(self, claim: Claim, outcome: str) -> bool:
        """Record the outcome of a delivery's round. The first one stays; True if that is this
        one.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Give back a delivery's round: it counts as not taken. One with an outcome stays."""
        ...


MAX_ROUNDS_PER_CALLER = 10_000
"""How many rounds of one authenticated caller a store holds."""
KEEP_FACTOR, FORGET_FACTOR = 1.1, 1.2
"""A store moves its horizon to 1.1 times `keep_seconds` ago whenever it is further back than 1.2
times. States are refused at `keep_seconds`, so no round is forgotten while a request for it is
under way.
"""


# How a database spells what differs: {now}, {latest} of two numbers, and a {serial} number for each
# row.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS guard_rounds (
        seq {serial} PRIMARY KEY, number TEXT NOT NULL UNIQUE, answers TEXT NOT NULL,
        begins DOUBLE PRECISION NOT NULL, ends DOUBLE PRECISION NOT NULL, outcome TEXT
    )""",
    "CREATE INDEX IF NOT EXISTS guard_rounds_by_age ON guard_rounds (begins)",
    """CREATE TABLE IF NOT EXISTS guard_horizon (
        id INTEGER PRIMARY KEY CHECK (id = 1), until DOUBLE PRECISION NOT NULL
    )""",
    "INSERT INTO guard_horizon VALUES (1, {now}) ON CONFLICT DO NOTHING",
)
_COLUMNS = "SELECT * FROM guard_rounds LIMIT 0"
_ADD = {  # what tables of older versions lack
    "owner": "ALTER TABLE guard_rounds ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "caller": "ALTER TABLE guard_rounds ADD COLUMN caller TEXT",
}
_BY_CALLER = """
CREATE INDEX IF NOT EXISTS guard_rounds_by_caller ON guard_rounds (caller) WHERE caller IS NOT NULL
"""
_NOW = "SELECT {now}"
_FOUND = """
SELECT :begins NOT BETWEEN {latest}(until, {now} - :keep) AND {now} + :keep, answers,
    outcome, ends <= {now}, owner
FROM guard_horizon LEFT JOIN guard_rounds ON number = :number
"""
_MOVE_HORIZON = "UPDATE guard_horizon SET until = {now} - :horizon WHERE until < {now} - :late"
_FORGET = "DELETE FROM guard_rounds WHERE begins < (SELECT until FROM guard_horizon)"
# The span of `seq` bounds the count, so rounds are counted only where it is as long as that: a key
# from ahead goes later than what was taken after it. Each end is a query of its own: SQLite looks
# one of them up, and scans the table for both.
_ROOM = """(
    coalesce((SELECT max(seq) FROM guard_rounds) - (SELECT min(seq) FROM guard_rounds) + 1, 0) < :max
    OR (SELECT count(*) FROM guard_rounds) < :max
) AND (SELECT count(*) FROM guard_rounds WHERE caller = :caller) < :each"""
_HAS_ROOM = f"SELECT {_ROOM}"
# The conflict is for two at once; the horizon may have moved while this process was paused.
_TAKE = f"""
INSERT INTO guard_rounds (number, answers, owner, begins, ends, caller)
SELECT :number, :answers, :owner, :begins, {{now}} + :lease_seconds, :caller
WHERE :begins >= (SELECT until FROM guard_horizon) AND {_ROOM}
ON CONFLICT (number) DO NOTHING
"""
_OUTCOME = "SELECT outcome, ends <= {now} FROM guard_rounds WHERE number = :number"
_TAKE_OVER = """
UPDATE guard_rounds SET ends = {now} + :lease_seconds, owner = :owner
WHERE number = :number AND answers = :answers AND outcome IS NULL
    AND (ends <= {now} OR owner = :owner)
"""
# The same outcome is no other one: the connection may have broken after it was recorded.
_RECORD = """
UPDATE guard_rounds SET outcome = :outcome
WHERE number = :number AND owner = :owner AND coalesce(outcome, :outcome) = :outcome
"""
_RELEASE = "DELETE FROM guard_rounds WHERE number = :number AND owner = :owner AND outcome IS NULL"

Values = dict[str, str | float | None]


class SqlStore:
    """A store in a database. A subclass connects, and says how its database runs the statements.

    Args:
        keep_seconds, max_rounds, max_rounds_per_caller: See `SqliteStore`.

    Raises:
        ValueError: A number is not over 0.
    """

    def __init__(self, keep_seconds: float, max_rounds: int, max_rounds_per_caller: int) -> None:
        check_numbers(type(self).__name__, keep_seconds, max_rounds, max_rounds_per_caller)
        self._values: Values = {
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

    def _execute(self, statement: str, values: Values) -> Any:
        """The cursor of a statement, which commits by itself."""
        raise NotImplementedError

    async def _use(self, use: Callable[[], T]) -> T:
        """Use the connection, alone and in the store's thread; `Unusable` where that fails."""
        raise NotImplementedError

    def _make_tables(self) -> None:
        """In a transaction that no two processes have at once."""
        for statement in _TABLES:
            self._execute(statement, {})
        columns = [column[0] for column in self._execute(_COLUMNS, {}).description]
        for name, statement in _ADD.items():
            if name not in columns:
                self._execute(statement, {})
        self._execute(_BY_CALLER, {})

    async def now(self) -> float:
        return (await self._use(lambda: self._row(_NOW, {})))[0]

    async def reserve(self, claim: Claim) -> str | None:
        values: Values = {**self._values, **vars(claim)}
        taking = False

        def reserve() -> str | None:
            nonlocal taking
            while True:
                forgotten, taken_with, outcome, ended, owner = self._row(_FOUND, values)
                if taking and owner == claim.owner:
                    return None  # the connection broke after it was taken
                if forgotten:
                    raise Forgotten
                if taken_with is not None:
                    recorded = _known(outcome, ended)
                    if taken_with != claim.answers:
                        raise Spent
                    return recorded
                if taking and not self._row(_HAS_ROOM, values)[0]:
                    raise Full
                if self._execute(_MOVE_HORIZON, values).rowcount:
                    self._execute(_FORGET, {})
                taking = True
                if self._execute(_TAKE, values).rowcount:
                    return None
                # There is no room; or another took it between the statements and may have given it
                # back.

        return await self._use(reserve)

    async def outcome(self, number: str) -> str | None:
        def look() -> str | None:
            found = self._execute(_OUTCOME, {"number": number}).fetchone()
            return None if found is None else _known(*found)

        return await self._use(look)

    async def take_over(self, claim: Claim) -> bool:
        return await self._changed(_TAKE_OVER, claim)

    async def record(self, claim: Claim, outcome: str) -> bool:
        return await self._changed(_RECORD, claim, outcome)

    async def release(self, claim: Claim) -> None:
        await self._changed(_RELEASE, claim)

    async def _changed(self, statement: str, claim: Claim, outcome: str | None = None) -> bool:
        values: Values = {**vars(claim), "outcome": outcome}
        return await self._use(lambda: self._execute(statement, values).rowcount == 1)

    def _row(self, statement: str, values: Values) -> tuple[Any, ...]:
        row = self._execute(statement, values).fetchone()
        if row is None:
            raise Unusable(
                "the table guard_horizon is empty; drop it and guard_rounds, and restart"
            )
        return row


def _known(outcome: str | None, ended: bool) -> str:
    """The recorded outcome of a round that is taken."""
    if outcome is None:
        raise Abandoned if ended else Pending
    return outcome


_SPELLING = {"now": ":now", "latest": "max", "serial": "INTEGER"}


class SqliteStore(SqlStore):
    """A store in a SQLite file, for every process of one machine that opens it.

    Args:
        path: The file; made if it is not there. ":memory:" for a store that several instances in
            this process use, and that goes with it.
        keep_seconds: For how long a call key is good, and a state after it was first handed out. At
            least the server's `ttl_seconds`, after which a state is refused in any case.
        max_rounds: How many rounds are held. One more is refused, none is forgotten early.
            Instances that take rounds at the same moment may go beyond it by one each.
        max_rounds_per_caller: How many rounds of one authenticated caller are held.
        clock: Tells the time, in seconds since 1970; the machine's clock by default.

    Raises:
        Unusable: The file cannot be opened or is not a SQLite database, in one line.
        ValueError: A number is not over 0.
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
        super().__init__(keep_seconds, max_rounds, max_rounds_per_caller)
        self._path = path
        self._now = clock or _machine_time
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
                    self._db.execute("BEGIN IMMEDIATE")
                    self._make_tables()
                if str(path) != ":memory:":
                    self._file = os.stat(path)
            except BaseException:
                self._db.close()
                raise

    def _write_ahead(self) -> None:
        # SQLite's own timeout does not hold for this: of two processes that open a new file at
        # once, one is told at once that it is locked.
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

    def __del__(self) -> None:
        if hasattr(self, "_db"):  # or else Python 3.13 warns
            self._db.close()

    async def now(self) -> float:
        return self._now()

    def _execute(self, statement: str, values: Values) -> sqlite3.Cursor:
        return self._db.execute(statement.format(**_SPELLING), {**values, "now": self._now()})

    async def _use(self, use: Callable[[], T]) -> T:
        def locked() -> T:
            with self._lock, self._telling():
                # A deleted file can still be written to, and other processes see nothing of it.
                if why := replaced(self._path, self._file):
                    raise Unusable(why)
                return use()

        if self._file is None:  # nothing in memory takes so long that it needs a thread
            await anyio.lowlevel.checkpoint()
            return locked()
        return await anyio.to_thread.run_sync(locked, limiter=self._thread)

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Name the file where SQLite only says what is wrong with it."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Unusable(
                f"cannot use {self._path} as a store of rounds ({error}); name a writable SQLite file"
            ) from error


def _machine_time() -> float:
    return time.time_ns() / 1e9
