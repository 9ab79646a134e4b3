"""The guard's rounds in a SQLite file, for every process of one machine that opens it.

The file is readable by its owner alone: results, answers and states of servers stand in it as they
are.

A round uses the file in the event loop: a statement takes a tenth of a millisecond, and a step to a
thread takes twice as long. Two things would take longer, and are for the store's thread: waiting
for another process's lock, and the checkpoint, which waits for the disk.

Knows `sql` and SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from mrtr_options.files import replaced
from mrtr_options.sdk.single_use.reservations import Claim, Unusable
from mrtr_options.sdk.single_use.seen import Seen
from mrtr_options.sdk.single_use.sql import MAX_ROUNDS_PER_CALLER, SqlStore, Values

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""The time that a round waits for the file: for those before it, and for other processes' locks."""
WRITES_BETWEEN_CHECKPOINTS = 250
"""The number of rounds that are reserved or recorded between two checkpoints of the file."""
_OTHERS = 0o007
_SPELLING = {"now": ":now", "serial": "INTEGER"}


@cache
def _spelled(statement: str) -> str:
    return statement.format(**_SPELLING)


class SqliteStore(SqlStore):
    """A store in a SQLite file, for every process of one machine that opens it.

    Args:
        path: The file; made if it is not there, readable by its owner alone. ":memory:" for a store
            that several instances in this process use, and that goes with it.
        keep_seconds: For how long a call key is good, and a state after it was first handed out. At
            least the server's `ttl_seconds`, after which a state is refused in any case.
        max_rounds: How many rounds are held; an ended call with a name is one. One more that begins
            a call is refused, none is forgotten early. Instances that take rounds at the same
            moment may go beyond it by one each.
        max_rounds_per_caller: How many rounds of one authenticated caller are held.
        clock: Tells the time, in seconds since 1970; the machine's clock by default.

    Raises:
        Unusable: The file cannot be opened or is not a SQLite database, in one line.
        ValueError: A number is not over 0.
    """

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
        self.path = path
        self._is_in_memory = str(path) == ":memory:"
        self._clock = clock or _machine_time
        self._file: os.stat_result | None = None
        self._writes = 0
        with self._telling():
            if not self._is_in_memory:
                _keep_from_others(path)
            self._db = sqlite3.connect(
                path, timeout=PATIENCE_SECONDS, check_same_thread=False, isolation_level=None
            )
            try:
                # A crash of the process loses nothing; a power cut may lose the last rounds.
                self._db.execute("PRAGMA synchronous=NORMAL")
                self._write_ahead()
                self._db.execute("PRAGMA wal_autocheckpoint=0")
                with self._transaction():
                    self._make_tables()
                self._wait_for_locks(0)
                if not self._is_in_memory:
                    self._file = os.stat(path)
            except BaseException:
                self._db.close()
                raise

    def _write_ahead(self) -> None:
        # SQLite's own timeout does not hold for this: of two processes that open a new file at
        # once, one is told at once that it is locked.
        give_up = time.monotonic() + PATIENCE_SECONDS
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

    def _now(self, sight: object) -> float:
        return self._clock()

    def _execute(self, statement: str, values: Values) -> sqlite3.Cursor:
        return self._db.execute(_spelled(statement), {**values, "now": self._clock()})

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._db:  # commits at its end, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            yield

    def _alone(self, claim: Claim, seen: Seen) -> AbstractContextManager[object]:
        # One process at a time has a transaction, and one statement is a transaction by itself.
        return nullcontext() if seen.seq is None else self._transaction()

    async def _use(self, use: Callable[[], T]) -> T:
        give_up = time.monotonic() + PATIENCE_SECONDS
        if self._lock.acquire(blocking=False):
            try:
                return self._used(use)
            except _Busy:
                pass
            finally:
                self._lock.release()
        return await self._in_thread(partial(self._use_patiently, use, give_up))

    def _used(self, use: Callable[[], T]) -> T:
        """Use the file.

        Raises:
            _Busy: Another process has locked it. What was not done is not done.
            Unusable: It was deleted or replaced, or SQLite cannot use it.
        """
        try:
            # A deleted file can still be written to, and other processes see nothing of it.
            if why := replaced(self.path, self._file):
                raise Unusable(why)
            return use()
        except (sqlite3.Error, OSError) as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            raise (_Busy if is_busy else Unusable)(self._why(error)) from error

    def _use_patiently(self, use: Callable[[], T], give_up: float) -> T:
        """Use the file when those before this round have, and other processes let go of it."""
        with self._lock, self._telling():
            patience = give_up - time.monotonic()
            if patience <= 0:
                raise sqlite3.OperationalError("it is locked, and many wait for it")
            self._wait_for_locks(patience)
            try:
                return self._used(use)
            finally:
                self._wait_for_locks(0)

    def _wait_for_locks(self, seconds: float) -> None:
        self._db.execute(f"PRAGMA busy_timeout={int(seconds * 1000)}")

    async def _in_thread(self, use: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(use, limiter=self._thread)

    async def _changed(
        self, statement: str, claim: Claim, outcome: str | None = None, then: str | None = None
    ) -> bool:
        changed = await super()._changed(statement, claim, outcome, then)
        self._writes += 1
        if self._writes >= WRITES_BETWEEN_CHECKPOINTS and not self._is_in_memory:
            self._writes = 0
            await self._in_thread(self._checkpoint)
        return changed

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the file; pages that readers still use stay for later."""
        with self._lock, suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def _telling(self) -> Generator[None]:
        """Name the file where SQLite only says what is wrong with it."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise Unusable(self._why(error)) from error

    def _why(self, error: BaseException) -> str:
        return f"cannot use {self.path} as a store of rounds ({error}); name a writable SQLite file"


class _Busy(Unusable):
    """A file that another process has locked."""


def _keep_from_others(path: Path | str) -> None:
    """Make a file that its owner alone can read; take from others what they may do with an old one.

    SQLite gives the files beside it the same mode. What a group may do stays: its members may run
    instances.
    """
    if not str(path):
        return
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        return
    mode = os.stat(path).st_mode
    if mode & _OTHERS:
        with suppress(PermissionError):  # of another user: it is theirs to protect
            os.chmod(path, mode & ~_OTHERS & 0o7777)


def _machine_time() -> float:
    return time.time_ns() / 1e9
