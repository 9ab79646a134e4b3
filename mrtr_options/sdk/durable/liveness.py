"""Which processes of a fleet are alive: each holds a lock that the operating system ends with it.

A process locks a file beside a SQLite database, or takes an advisory lock on PostgreSQL, under its own
name. Any death releases the lock, SIGKILL included. A process that then gets that lock knows that its
holder is dead.

Knows the two databases; nothing of DBOS or MCP.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

import psycopg


class Liveness(Protocol):
    """Locks that end with their holder."""

    def held(self, process: str) -> AbstractContextManager[None]:
        """Inside the block this process counts as alive."""
        ...

    def lock_of(self, process: str) -> AbstractContextManager[bool]:
        """Whether another process is dead. Inside the block no third process is told so."""
        ...


def liveness_of(url: str) -> Liveness:
    """The locks that go with a database, `sqlite:///file` or `postgresql://...`."""
    scheme, _, rest = url.partition(":///")
    return LockFiles(Path(rest)) if scheme == "sqlite" else AdvisoryLocks(url)


class LockFiles:
    """One SQLite file for each process, locked by it. For processes on one machine."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def _path(self, process: str) -> Path:
        return self._database.with_name(f"{self._database.name}.alive-{process}")

    @contextmanager
    def held(self, process: str) -> Generator[None]:
        path = self._path(process)
        try:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
                db.execute("BEGIN EXCLUSIVE")
                yield
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def lock_of(self, process: str) -> Generator[bool]:
        path = self._path(process)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                yield False
                return
            yield True
        path.unlink(missing_ok=True)


class AdvisoryLocks:
    """One PostgreSQL advisory lock for each process, held by a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: psycopg.Connection[tuple[object, ...]] | None = None

    @staticmethod
    def _number(process: str) -> int:
        digest = hashlib.sha256(f"mrtr-options/{process}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    @contextmanager
    def held(self, process: str) -> Generator[None]:
        with closing(psycopg.connect(self._url, autocommit=True)) as self._db:
            self._db.execute("SELECT pg_advisory_lock(%s)", [self._number(process)])
            yield

    @contextmanager
    def lock_of(self, process: str) -> Generator[bool]:
        assert self._db is not None
        number = self._number(process)
        row = self._db.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
        got = row is not None and bool(row[0])
        try:
            yield got
        finally:
            if got:
                self._db.execute("SELECT pg_advisory_unlock(%s)", [number])
