"""The claim of one process: a SQLite file, or a name in a PostgreSQL database.

DBOS runs the calls of a name again wherever that name starts. So no second process may start under
it while the first one runs.

The name is an advisory lock, which PostgreSQL lets go when its connection ends. A thread waits at
that connection, and takes the name again as soon as it is lost. A process that starts has to find
the name free at two looks, `GRACE_SECONDS` apart: a process that runs takes it back in between.

Knows files, psycopg and `engine`; nothing of DBOS or of calls.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress

import psycopg
from sqlalchemy import make_url

from mrtr_options.files import replaced
from mrtr_options.sdk.durable.engine import WrongDatabase
from mrtr_options.sdk.reasons import Reason

GRACE_SECONDS = 1.0
"""The time that a name has to be free before another process takes it."""
LOOK_SECONDS = 0.2
"""The pause between two looks of the thread whether the name is to be released."""
AGAIN_SECONDS = 0.05
"""The delay before a lost name is taken again."""

_UNTIL_GONE = (
    "-c lock_timeout=2s -c tcp_keepalives_idle=10"
    " -c tcp_keepalives_interval=5 -c tcp_keepalives_count=6"
)
"""Options by which PostgreSQL soon notices that the holder of a name is gone: in 30 s at the least.

It waits for a holder that has just died.
"""
_END_OWN = """
    SELECT pg_terminate_backend(pid) FROM pg_locks
     WHERE pid = %s AND locktype = 'advisory'
       AND classid::bigint << 32 | objid::bigint = hashtextextended(%s, 0)
"""
"""Ends the connection that this process has lost, which holds the name while it seems alive."""
_LOCK = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_TRY_LOCK = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_RIGHTS = """
    SELECT has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
       AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'dbos' AND c.relkind = 'r'
"""
"""The query for the rights of this role to DBOS's tables, a row for each table."""

_LOG = logging.getLogger(__name__)


class Claim:
    """A hold on a database that no other process has.

    Attributes:
        is_held: Whether this process has it now.
        is_lost: Whether another process has taken it, for good.
        lost_as: The reason for which rounds are refused then.
    """

    lost_as = Reason.NAME_LOST

    def __init__(self) -> None:
        self.is_held = True
        self.is_lost = False
        self.changed: Callable[[], None] = lambda: None

    def set(self, *, is_held: bool, is_lost: bool = False) -> None:
        """Say how it stands, and tell who wants to know."""
        self.is_held = is_held
        self.is_lost = is_lost
        self.changed()

    def look(self) -> None:
        """Look whether it is lost, where nobody tells."""


class _FileClaim(Claim):
    """A hold on a SQLite file, which another process does not see if the file is deleted."""

    lost_as = Reason.UNKNOWN_CALL

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._opened = os.stat(path)

    def look(self) -> None:
        if not self.is_lost and (why := replaced(self._path, self._opened)):
            _LOG.error("%s: no call runs here", why)
            self.set(is_held=False, is_lost=True)


def try_url(url: str) -> None:
    """Take a database, look whether it can be written, and let it go; see `taken`."""
    url, _, _ = url.partition("#")  # the mark of a store's calls, which `open_engine` reads
    with taken(url):
        if not url.startswith("sqlite:"):
            _check_rights(url)


def name_here() -> str:
    """Return this process's name for DBOS, which runs the calls of its name again."""
    return os.environ.get("MRTR_INSTANCE") or "local"


@contextmanager
def taken(url: str) -> Generator[Claim]:
    """Have a SQLite file, or a name in a PostgreSQL database, for this process alone.

    Another one would run the calls of this one, too.

    Raises:
        WrongDatabase: It cannot be used, or another process has it.
        ValueError: The URL cannot be read.
    """
    with _file(url) if url.startswith("sqlite:///") else _name(url) as claim:
        yield claim


@contextmanager
def _file(url: str) -> Generator[Claim]:
    path = make_url(url).database or ""  # as DBOS reads it
    try:
        file = open(path, "ab")  # noqa: SIM115
    except OSError as error:
        raise WrongDatabase(_line(error)) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with closing(sqlite3.connect(path)) as db:
                # Kept in the file: readers do not hold up writers, at a third of the time per
                # round.
                db.execute("PRAGMA journal_mode=WAL")
        except BlockingIOError:
            says = f"another process has {url}: a file is for one process;"
            raise WrongDatabase(f"{says} give a fleet temporal://HOST:PORT") from None
        except (OSError, sqlite3.Error) as error:
            raise WrongDatabase(_line(error)) from error
        yield _FileClaim(path)


@contextmanager
def _name(url: str) -> Generator[Claim]:
    try:
        _connection(url, _LOCK).close()
        time.sleep(GRACE_SECONDS)  # a process that runs takes its name back
        db = _connection(url, _LOCK)
    except psycopg.errors.LockNotAvailable:
        says = f"another process has the name {name_here()!r} in it:"
        raise WrongDatabase(f"{says} give each its own MRTR_INSTANCE") from None
    except psycopg.ProgrammingError as error:
        raise ValueError("this URL cannot be read") from error
    except (OSError, psycopg.Error) as error:
        raise WrongDatabase(_line(error)) from error
    claim = Claim()
    ends = threading.Event()
    holding = threading.Thread(target=_hold, args=(url, db, claim, ends), name="mrtr-name")
    holding.daemon = True
    holding.start()
    try:
        yield claim
    finally:
        ends.set()
        holding.join()


def _connection(url: str, take: str, lost: int = 0) -> psycopg.Connection:
    """Return a connection that holds the lock on this process's name, in place of a lost one."""
    db = psycopg.connect(
        url,
        autocommit=True,
        options=_UNTIL_GONE,
        connect_timeout=5,
        # It notices that it is cut in 25 s at the most: before PostgreSQL does.
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )
    name = f"mrtr-call {name_here()}"
    try:
        with suppress(psycopg.Error):  # servers before 14 have no such limit
            db.execute("SET idle_session_timeout = 0")
        db.execute(_END_OWN.encode(), [lost, name])
        row = db.execute(take.encode(), [name]).fetchone()
        if row is not None and row[0] is False:
            raise psycopg.errors.LockNotAvailable("another process has the name")
    except BaseException:
        db.close()
        raise
    return db


def _hold(url: str, db: psycopg.Connection, claim: Claim, ends: threading.Event) -> None:
    """Keep the name until it is to be let go, and take it again whenever it is lost."""
    pid = db.info.backend_pid
    while not ends.is_set():
        try:
            for _ in db.notifies(timeout=LOOK_SECONDS):
                pass  # nobody sends one: this waits at the connection, and fails when that ends
        except (OSError, psycopg.Error) as error:
            _LOG.warning("the name %r is taken again: %s", name_here(), _line(error))
            claim.set(is_held=False)
            db.close()
            again = _taken_again(url, pid, claim, ends)
            if again is None:
                return
            db = again
            pid = db.info.backend_pid
            claim.set(is_held=True)
    db.close()


def _taken_again(
    url: str, lost: int, claim: Claim, ends: threading.Event
) -> psycopg.Connection | None:
    """Return a connection that has the name again; None where another process has it by now."""
    refusals_end = None
    while not ends.wait(AGAIN_SECONDS):
        try:
            return _connection(url, _TRY_LOCK, lost)
        except psycopg.errors.LockNotAvailable:
            # One that starts has it for a moment, and lets go of it before it takes it for good.
            refusals_end = refusals_end or time.monotonic() + GRACE_SECONDS
            if time.monotonic() > refusals_end:
                _LOG.error("another process has the name %r: no call runs here", name_here())
                claim.set(is_held=False, is_lost=True)
                return None
        except (OSError, psycopg.Error):
            refusals_end = None
    return None


def _check_rights(url: str) -> None:
    """Refuse a PostgreSQL database in which this role cannot keep calls.

    Raises:
        WrongDatabase: It is read-only, or the role has no right to write in it.
    """
    try:
        with psycopg.connect(url, connect_timeout=5) as db:
            read_only = db.execute("SHOW transaction_read_only").fetchone()
            if read_only == ("on",):
                raise WrongDatabase("it is read-only")
            rights = db.execute(_RIGHTS.encode()).fetchall()
            if not rights:
                db.execute("CREATE SCHEMA IF NOT EXISTS dbos")
                db.execute("CREATE TABLE dbos.mrtr_trial (number int)")
            db.rollback()
    except psycopg.Error as error:
        raise WrongDatabase(_line(error)) from error
    if (False,) in rights:
        raise WrongDatabase("this role may not write the tables of the schema 'dbos' in it")


def _line(error: Exception) -> str:
    said = getattr(error, "strerror", "") or f"{error}"
    return (said.splitlines() or [type(error).__name__])[0]
