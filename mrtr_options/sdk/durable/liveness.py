"""Which processes of a fleet are alive, and the hand-over of the calls of one that is not.

Each process holds a lease: a row in the engine's database with the time of its end, which a thread
extends long before. On PostgreSQL the database's clock decides; on SQLite the machine's, and a lock on
a file, which tells of a process that died at once. Each statement has a connection of its own, so a
connection that breaks is no sign of death.

- A process that cannot extend its lease stops its calls `MARGIN` of the lease before its end. No
  other process takes them over before that end. It begins no effect in between, and does not go on
  afterwards: it runs its calls again under a new lease.
- A process that dies, vanishes or is paused (SIGSTOP) is noticed at the end of its lease, so after
  `LEASE_SECONDS` at most.
- One effect can still happen twice: the one under way when its process dies, is paused or loses the
  database. Give its key to the destination.
- A step of the database's own clock ahead by more than the margin counts against every lease.

Knows the two databases and the tables of DBOS; nothing of MCP.
"""

from __future__ import annotations

import glob
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Collection, Generator, Iterable
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, String, bindparam, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from mrtr_options.sdk.durable.database import connect_args, driver_url
from mrtr_options.sdk.durable.folder import is_young

LEASE_SECONDS = 6.0
"""How long a process counts as alive after its last sign of life."""
MARGIN = 0.25
"""The part of a lease by which a process stops before others may begin."""
HAND_OVERS = 3
"""How many processes a call may take along before it is ended."""
WAITING = "mrtr.asked"
"""The name of the last step of a call that waits for an answer."""
KEPT_SECONDS = 7 * 24 * 3600.0
"""How long rows of processes and counts of hand-overs are kept."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS mrtr_processes (name TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS mrtr_hand_overs (call TEXT PRIMARY KEY, times INTEGER NOT NULL, "
    "steps INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL)",
)
_JOURNAL = "-journal"
"""What SQLite puts beside a lock file while it is held. It stays when its process is killed."""
_LOG = logging.getLogger(__name__)


def clock() -> float:
    """Seconds, on while the machine sleeps; the same for all processes of a machine."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class CannotConnect(Exception):
    """A database cannot be used. The text is one line, without the URL's password."""


def connect_once(url: str) -> None:
    """Connect to a database and leave it as it is.

    Args:
        url: `sqlite:///file` or `postgresql://...`. The file need not exist, its folder must.

    Raises:
        CannotConnect: The database does not answer, or the URL is not one.
    """
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None and not file.exists():
        if not os.access(file.parent, os.W_OK):
            raise CannotConnect(f"there is no folder {file.parent} that can be written to")
        return
    try:
        engine = sqlalchemy.create_engine(
            driver_url(url),
            poolclass=NullPool,
            connect_args=connect_args(url) if file is None else {},
        )
        with engine.connect() as db:
            db.execute(text("SELECT 1" if file is None else "PRAGMA user_version"))
    except DBAPIError as error:
        raise CannotConnect(str(error.orig).strip().splitlines()[0]) from None
    except (SQLAlchemyError, ValueError):
        raise CannotConnect("its URL cannot be read") from None


class Lease:
    """The lease of this process, and what it may do about those of others.

    Its methods block for a third of the lease at most. Statements that take longer are broken off.

    Args:
        url: The engine's database, `sqlite:///file` or `postgresql://...`.
        process: The name of this process.
        seconds: The length of the lease.
    """

    def __init__(self, url: str, process: str, seconds: float = LEASE_SECONDS) -> None:
        self.process = process
        self._seconds = seconds
        self._file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
        self._now = "extract(epoch from clock_timestamp())" if self._file is None else ":now"
        self._schema = "dbos." if self._file is None else ""
        self._db = sqlalchemy.create_engine(
            driver_url(url),
            poolclass=NullPool,
            connect_args=connect_args(url) if self._file is None else {"timeout": seconds / 3},
        )
        self._until = 0.0
        self._lost = False
        self._over = threading.Event()

    @property
    def holds(self) -> bool:
        """Whether this process may begin an effect."""
        return not self._lost and clock() < self._until

    @contextmanager
    def held(self) -> Generator[None]:
        """Inside the block this process counts as alive."""
        lock = None if self._file is None else self._lock_file(self.process)
        thread = threading.Thread(target=self._keep, name="mrtr-lease", daemon=True)
        try:
            with closing(sqlite3.connect(lock or ":memory:", timeout=0, isolation_level=None)) as db:
                db.execute("BEGIN EXCLUSIVE")
                self._prepare()
                self._extend(again=True)
                thread.start()
                yield
                self._over.set()
                thread.join(self._seconds)
                with suppress(SQLAlchemyError, OSError):
                    self._run("DELETE FROM mrtr_processes WHERE name = :name", name=self.process)
        finally:
            self._over.set()
            if lock is not None:
                lock.unlink(missing_ok=True)

    def begin_again(self) -> bool:
        """Take a new lease after one was lost, once nothing of the old runs; whether it is there."""
        if not self.holds:
            with suppress(SQLAlchemyError, OSError):
                self._extend(again=True)
        return self.holds

    def _keep(self) -> None:
        while not self._over.wait(self._seconds / 6):
            if not self.holds:
                self._lost = True  # until `begin_again`
                continue
            try:
                self._extend()
            except (SQLAlchemyError, OSError) as error:
                _LOG.warning("the lease of this process was not extended: %s", error)

    def _extend(self, *, again: bool = False) -> None:
        began = clock()
        self._run(
            f"INSERT INTO mrtr_processes (name, until) VALUES (:name, {self._now} + :seconds) "
            f"ON CONFLICT (name) DO UPDATE SET until = excluded.until",
            name=self.process,
            seconds=self._seconds,
        )
        if again or self.holds:
            self._until, self._lost = began + self._seconds * (1 - MARGIN), False
        else:
            self._lost = True  # it ended before the statement did

    # --- others ---

    def take_over(self, process: str, workflows: Collection[str], queue: str) -> bool:
        """Hand the calls of a process to a queue if it is dead.

        Returns:
            Whether it is dead.
        """
        with self._locked(process) as dead, self._connected() as db:
            if not dead and self._one(db, f"SELECT 1 FROM mrtr_processes WHERE {self._alive}", process):
                return False
            died = bool(self._one(db, "SELECT 1 FROM mrtr_processes WHERE name = :process", process))
            # In one statement: a process that has a lease again keeps what it began under it.
            only = "" if dead else f"AND NOT EXISTS (SELECT 1 FROM mrtr_processes WHERE {self._alive})"
            taken = self._hand_over(db, process, workflows, queue, only)
            if died:
                self._count(db, taken)
            return True

    def run_again(self, calls: Iterable[str], queue: str, *, failed: bool) -> None:
        """Hand calls of this process that do not run to a queue.

        Args:
            calls: Which.
            queue: Where to.
            failed: Whether that counts as a hand-over.
        """
        with self._connected() as db:
            for call in calls:
                only = "AND workflow_uuid = :call"
                taken = self._hand_over(db, self.process, None, queue, only, call=call)
                if failed:
                    self._count(db, taken)

    def pending(self) -> list[tuple[str, str]]:
        """The calls and their workflows that the database says this process is at work at."""
        with self._connected() as db:
            rows = db.execute(
                text(
                    f"SELECT workflow_uuid, name FROM {self._schema}workflow_status "
                    "WHERE status = 'PENDING' AND executor_id = :process"
                ),
                {"process": self.process},
            )
            return [(row[0], row[1]) for row in rows]

    def ended(self, call: str) -> bool:
        """Whether a call was ended since it took too many processes along."""
        with self._connected() as db:
            times = self._one(db, "SELECT times FROM mrtr_hand_overs WHERE call = :process", call)
            return (times or 0) > HAND_OVERS

    @property
    def _alive(self) -> str:
        return f"name = :process AND until >= {self._now}"

    def _hand_over(
        self,
        db: Connection,
        process: str,
        workflows: Collection[str] | None,
        queue: str,
        only: str,
        **values: Any,
    ) -> list[str]:
        # What DBOS.resume_workflows sets, and on the condition that the call is still that process's.
        statement = text(
            f"UPDATE {self._schema}workflow_status SET status = 'ENQUEUED', queue_name = :queue, "
            "owner_xid = NULL, started_at_epoch_ms = NULL, recovery_attempts = 0, updated_at = :epoch "
            f"WHERE status = 'PENDING' AND executor_id = :process {only} "
            + ("" if workflows is None else "AND name IN :workflows ")
            + "RETURNING workflow_uuid"
        )
        values |= {"process": process, "queue": queue, "now": clock(), "epoch": int(time.time() * 1000)}
        if workflows is not None:
            statement = statement.bindparams(bindparam("workflows", expanding=True, type_=String))
            values["workflows"] = list(workflows)
        return [row[0] for row in db.execute(statement, values)]

    def _count(self, db: Connection, calls: Iterable[str]) -> None:
        """Count a hand-over of calls that were at work, and end those with too many of them."""
        outputs = f"FROM {self._schema}operation_outputs WHERE workflow_uuid = :process"
        for call in calls:
            last = f"SELECT function_name {outputs} ORDER BY function_id DESC LIMIT 1"
            if self._one(db, last, call) == WAITING:
                continue  # it waits for an answer, and did no harm
            steps = self._one(db, f"SELECT count(*) {outputs}", call)
            times = db.execute(
                text(
                    "INSERT INTO mrtr_hand_overs (call, times, steps, at) "
                    f"VALUES (:call, 1, :steps, {self._now}) ON CONFLICT (call) DO UPDATE SET "
                    "times = CASE WHEN excluded.steps > mrtr_hand_overs.steps THEN 1 "
                    "ELSE mrtr_hand_overs.times + 1 END, steps = excluded.steps, at = excluded.at "
                    "RETURNING times"
                ),
                {"call": call, "steps": steps, "now": clock()},
            ).scalar_one()
            _LOG.warning("call %s is handed over, for the %s. time at this step", call, times)
            if times > HAND_OVERS:
                db.execute(
                    text(
                        f"UPDATE {self._schema}workflow_status SET status = 'CANCELLED', "
                        "queue_name = NULL WHERE workflow_uuid = :call"
                    ),
                    {"call": call},
                )

    # --- statements ---

    def _prepare(self) -> None:
        self._remove_lock_files()
        for statement in _TABLES:
            with suppress(SQLAlchemyError):  # PostgreSQL refuses one of two that create it at once
                self._run(statement)
        for table, column in ("mrtr_processes", "until"), ("mrtr_hand_overs", "at"):
            self._run(f"DELETE FROM {table} WHERE {column} < {self._now} - {KEPT_SECONDS}")

    def _run(self, statement: str, **values: Any) -> None:
        with self._connected() as db:
            db.execute(text(statement), {"now": clock(), **values})

    def _one(self, db: Connection, statement: str, process: str) -> Any:
        return db.execute(text(statement), {"process": process, "now": clock()}).scalar()

    @contextmanager
    def _connected(self) -> Generator[Connection]:
        """A transaction on a connection of its own, which is broken off after a third of the lease."""
        with self._db.connect() as db:
            if self._file is not None:
                with db.begin():
                    yield db
                return
            driver: Any = db.connection.dbapi_connection
            with socket.socket(fileno=os.dup(driver.fileno())) as connection:
                timer = threading.Timer(self._seconds / 3, _break_off, [connection])
                timer.daemon = True
                timer.start()
                try:
                    with db.begin():
                        yield db
                finally:
                    timer.cancel()

    # --- lock files, beside SQLite ---

    def _lock_file(self, process: str) -> Path:
        assert self._file is not None
        return self._file.with_name(f"{self._file.name}.alive-{process}")

    def _remove_lock_files(self) -> None:
        """Remove those of processes that were killed. A process without one counts as dead."""
        if self._file is None:
            return
        prefix = self._lock_file("").name
        for path in self._file.parent.glob(f"{glob.escape(prefix)}*"):
            with suppress(FileNotFoundError):
                if not path.name.endswith(_JOURNAL) and not is_young(path):
                    with self._locked(path.name.removeprefix(prefix)):
                        pass  # removed if no process holds it

    @contextmanager
    def _locked(self, process: str) -> Generator[bool]:
        """Whether a process is known to be dead, since no process holds its file."""
        if self._file is None:
            yield False
            return
        path = self._lock_file(process)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                yield False
                return
            yield True
        path.unlink(missing_ok=True)
        path.with_name(path.name + _JOURNAL).unlink(missing_ok=True)


def _break_off(connection: socket.socket) -> None:
    """Shut a connection down under whoever waits for it: no time limit of the driver's covers that."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
