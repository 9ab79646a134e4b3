"""The engine's database, for the tables that are ours: connections and threads of their own.

Whatever the database does (it is away, it stalls, its disk is full), the event loop goes on. A statement
fails by itself or takes its thread along, and who waits for it can stop waiting.

Knows the two databases through SQLAlchemy; nothing of MCP.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import psycopg
from sqlalchemy import Connection, create_engine, event, make_url
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError

T = TypeVar("T")
P = ParamSpec("P")

THREADS = 8
"""How many statements run at a time."""
AGAIN_SECONDS = 0.25
"""How long to wait before a database that does not answer is tried again."""
CONNECT: dict[str, Any] = {
    "connect_timeout": 2,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
"""How a connection to PostgreSQL notices that its server has vanished: within five seconds."""
PAUSED = "-c idle_in_transaction_session_timeout=5000"
"""How a PostgreSQL server notices that a process is paused in the middle of a transaction, whose locks
others wait for: within five seconds."""

AWAY = (OperationalError, InterfaceError, InternalError, OSError, sqlite3.OperationalError)
"""What is raised where a database cannot be used at the moment."""

_LOG = logging.getLogger(__name__)


class Database:
    """See `opened`.

    Attributes:
        url: `sqlite:///file` or `postgresql://...`.
        is_sqlite: Whether it is a file.
        now: The database's clock in SQL, in seconds; SQLite has none, and `:now` is to be given.
        schema: The prefix of the engine's own tables.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_sqlite = url.startswith("sqlite")
        self.now = ":now" if self.is_sqlite else "extract(epoch from clock_timestamp())"
        self.schema = "" if self.is_sqlite else "dbos."
        self._engine = create_engine(
            driver_url(url),
            pool_size=THREADS,
            connect_args={"timeout": 30} if self.is_sqlite else connect_args(url),
        )
        if self.is_sqlite:
            event.listen(self._engine, "connect", _prepare_connection)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mrtr-database")

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncGenerator[Database]:
        """The database at this URL, for the length of a block."""
        database = cls(url)
        try:
            yield database
        finally:
            # A task that is cancelled leaves its statement to its thread, and a connection in use is not
            # closed with its pool: so wait for both.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(database._close)

    def _close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._engine.dispose()

    async def do(
        self, statements: Callable[Concatenate[Connection, P], T], *args: P.args, **values: P.kwargs
    ) -> T:
        """Run statements in one transaction, in a thread.

        Raises:
            Exception: What they raised; one of `AWAY` where the database cannot be used.
        """

        def run() -> T:
            with self._engine.begin() as db:
                return statements(db, *args, **values)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    async def patiently(
        self, statements: Callable[Concatenate[Connection, P], T], *args: P.args, **values: P.kwargs
    ) -> T:
        """Run statements once the database can be used, however long that takes.

        They run again where it is not known whether they were committed.
        """
        said = False
        while True:
            try:
                return await self.do(statements, *args, **values)
            except AWAY as error:
                if not said:
                    _LOG.warning("the database is away: %s", str(error).splitlines()[0])
                said = True
            await anyio.sleep(AGAIN_SECONDS)


def connect_args(url: str) -> dict[str, Any]:
    """How to connect to PostgreSQL: `CONNECT` and `PAUSED`, and what the URL says, which comes first.

    Raises:
        sqlalchemy.exc.ArgumentError: The URL cannot be read.
    """
    its_own = make_url(driver_url(url)).query.get("options", "")
    return CONNECT | {
        "options": " ".join((PAUSED, *([its_own] if isinstance(its_own, str) else its_own)))
    }


def driver_url(url: str) -> str:
    """The URL as SQLAlchemy takes it."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _prepare_connection(connection: sqlite3.Connection, record: object) -> None:
    # A transaction that begins by reading and then writes fails where another one wrote in between.
    connection.isolation_level = "IMMEDIATE"
    connection.execute("PRAGMA foreign_keys=ON")


def connector(url: str, over: threading.Event) -> Callable[[], psycopg.Connection[Any]]:
    """How the engine connects to PostgreSQL: again and again until that works.

    DBOS would wait longer each time, a minute in the end.

    Args:
        url: The database.
        over: Set where no request waits for it any longer.
    """

    def connect() -> psycopg.Connection[Any]:
        while True:
            try:
                return psycopg.connect(url, **connect_args(url))
            except psycopg.OperationalError:
                if over.wait(AGAIN_SECONDS):
                    raise

    return connect
