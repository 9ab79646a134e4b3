"""The durable engine of this process (DBOS), and who of a fleet is alive.

DBOS allows one engine in a process. Servers in one process, as under test, therefore share it: the
first one to open it launches it, the last one to close it ends it. Processes of a fleet share the
database and nothing else.

Every process runs the calls it began. Which of them died is not the engine's to know (DBOS leaves it
to a control plane), so each process holds a lock under its own name for as long as it lives: a file
beside a SQLite database, an advisory lock on PostgreSQL. The operating system lets go of it on any
death, SIGKILL included. Whoever gets another process's lock hands its calls back to the engine's
queue. A process that loses its lock without dying (its connection broke) is fenced off by the engine:
it can write nothing more, though an effect it was at may happen a second time.

Knows DBOS and its two databases; neither MCP nor the tool.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import psycopg
from dbos import DBOS, DBOSConfig, WorkflowStatus

NAME = "mrtr-options"
QUEUE = "mrtr-taken-over"

LISTEN_SECONDS = 0.005
"""How often SQLite is looked at for answers and questions. PostgreSQL is listened to instead."""
TAKE_OVER_SECONDS = 0.1
"""How often each process looks for calls that were handed back."""
CLEANUP_SECONDS = 5.0
"""How long a closing engine waits for the author's `finally` blocks."""


class WrongDatabase(RuntimeError):
    """The engine of this process runs on another database. The text is one line that says which."""


# --- who is alive -------------------------------------------------------------------------------


class _Liveness(Protocol):
    """Locks that die with their holder."""

    def hold(self, process: str) -> None:
        """Say that this process lives, until `release`."""
        ...

    def release(self) -> None: ...

    def lock_of(self, process: str) -> AbstractContextManager[bool]:
        """Inside the block: whether another process is dead, and nobody else is told that it is."""
        ...


@cache
def _empty() -> bytes:
    """A SQLite database with the engine's tables. To make one takes the engine longer than a call."""
    with tempfile.TemporaryDirectory(prefix="mrtr-durable-") as folder:
        file = Path(folder, "empty.sqlite")
        DBOS.migrate(f"sqlite:///{file}")
        return file.read_bytes()


def _make(database: Path) -> None:
    """Make a SQLite database, unless another process was faster."""
    with tempfile.NamedTemporaryFile(dir=database.parent) as ready:
        ready.write(_empty())
        ready.flush()
        with suppress(FileExistsError):
            os.link(ready.name, database)


class _LockFiles:
    """One SQLite file for each process, locked by it. For processes on one machine."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._own: sqlite3.Connection | None = None
        self._own_path = database

    def _path(self, process: str) -> Path:
        return self._database.with_name(f"{self._database.name}.alive-{process}")

    def hold(self, process: str) -> None:
        if not self._database.exists():
            _make(self._database)
        with closing(sqlite3.connect(self._database)) as db:
            # Kept in the file: readers then do not hold up writers, at a third of the time per round.
            db.execute("PRAGMA journal_mode=WAL")
        self._own_path = self._path(process)
        self._own = sqlite3.connect(self._own_path, timeout=0, isolation_level=None)
        self._own.execute("BEGIN EXCLUSIVE")

    def release(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own_path.unlink(missing_ok=True)

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


class _AdvisoryLocks:
    """One PostgreSQL advisory lock for each process, held by a connection of its own."""

    def __init__(self, url: str) -> None:
        self._db = psycopg.connect(url, autocommit=True)

    @staticmethod
    def _number(process: str) -> int:
        digest = hashlib.sha256(f"{NAME}/{process}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)

    def hold(self, process: str) -> None:
        self._db.execute("SELECT pg_advisory_lock(%s)", [self._number(process)])

    def release(self) -> None:
        self._db.close()

    @contextmanager
    def lock_of(self, process: str) -> Generator[bool]:
        number = self._number(process)
        row = self._db.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
        got = row is not None and bool(row[0])
        try:
            yield got
        finally:
            if got:
                self._db.execute("SELECT pg_advisory_unlock(%s)", [number])


# --- the engine ---------------------------------------------------------------------------------


class Engine:
    """The one engine of this process. See `opened`.

    Attributes:
        process: The name under which this process runs calls.
        running: The task of each call that runs here.
        interrupted: Calls that ran here and were stopped half-way.
    """

    def __init__(self, url: str | None, version: str) -> None:
        self._folder = None
        if url is None:
            self._folder = tempfile.TemporaryDirectory(prefix="mrtr-durable-")
            url = f"sqlite:///{self._folder.name}/calls.sqlite"
        self.url = url
        self._version = version
        self._liveness = _liveness(self.url)
        self._taking_over = asyncio.Lock()
        self.process = secrets.token_hex(8)
        self.running: dict[str, asyncio.Task[None]] = {}
        self.interrupted: set[str] = set()
        self.users = 0

    async def launch(self, names: list[str]) -> None:
        """Start, and take over what dead processes of this version left behind."""
        self._liveness.hold(self.process)
        config = DBOSConfig(
            name=NAME,
            system_database_url=self.url,
            application_version=self._version,
            executor_id=self.process,
            log_level="WARNING",
            notification_listener_polling_interval_sec=LISTEN_SECONDS,
        )
        # It would log to standard error where nobody else listens; that is the host's to decide.
        logger = logging.getLogger("dbos")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        DBOS(config=config)
        # In the loop's own thread: the engine runs calls on the loop that it finds here.
        DBOS.launch()
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=TAKE_OVER_SECONDS)
        left = await DBOS.list_workflows_async(
            status="PENDING", name=names, load_input=False, load_output=False
        )
        for process in {call.executor_id for call in left if call.executor_id} - {self.process}:
            await self.take_over(process, names)

    async def destroy(self) -> None:
        """Stop. Calls that are not finished wait in the database."""
        # In another thread: the engine waits for its own, and one may be waiting for this loop.
        await anyio.to_thread.run_sync(DBOS.destroy)
        # DBOS made its own pool the loop's default one, and leaves it there shut down.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        self._liveness.release()
        if self._folder is not None:
            self._folder.cleanup()

    async def take_over(self, process: str, names: list[str]) -> bool:
        """Hand the calls of a process back to the queue if it is dead.

        Args:
            process: Another process of the fleet.
            names: Which workflows this process can run.

        Returns:
            Whether it is dead.
        """
        async with self._taking_over:
            with self._liveness.lock_of(process) as dead:
                if dead:
                    left = await DBOS.list_workflows_async(
                        status="PENDING", executor_id=process, name=names, load_input=False
                    )
                    await self._hand_back([call.workflow_id for call in left])
                return dead

    async def run_again(self, call: str) -> None:
        """Hand a call back to the queue that was interrupted in this very process."""
        async with self._taking_over:
            if call in self.interrupted:
                self.interrupted.discard(call)
                await self._hand_back([call])

    async def _hand_back(self, calls: list[str]) -> None:
        if calls:
            await DBOS.resume_workflows_async(calls, queue_name=QUEUE)

    async def interrupt(self, calls: list[str]) -> None:
        """Stop calls that run here and wait, for a bounded time, until the author's cleanup has run."""
        tasks = [self.running[call] for call in calls if call in self.running]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEANUP_SECONDS)


def _liveness(url: str) -> _Liveness:
    scheme, _, rest = url.partition(":///")
    if scheme == "sqlite":
        return _LockFiles(Path(rest))
    return _AdvisoryLocks(url)


_engine: Engine | None = None
_changing = anyio.Lock()


@asynccontextmanager
async def opened(url: str | None, version: str, names: list[str]) -> AsyncGenerator[Engine]:
    """The engine of this process: launched for the first block, ended with the last.

    Args:
        url: `sqlite:///file` or `postgresql://...`; None for whatever runs here already, or else for
            a temporary file that goes with the engine.
        version: The version of the code, if the engine is not launched yet.
        names: The workflows that the caller can run.

    Raises:
        WrongDatabase: It runs on another database.
    """
    engine = await _open(url, version, names)
    try:
        yield engine
    finally:
        with anyio.CancelScope(shield=True):
            await _close(engine)


async def _open(url: str | None, version: str, names: list[str]) -> Engine:
    global _engine
    async with _changing:
        if _engine is None:
            engine = _engine = Engine(url, version)
            try:
                await engine.launch(names)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await engine.destroy()
                _engine = None
                raise
        elif url is not None and url != _engine.url:
            raise WrongDatabase(f"the engine of this process runs on {_engine.url}, not on {url}")
        _engine.users += 1
        return _engine


async def _close(engine: Engine) -> None:
    global _engine
    async with _changing:
        engine.users -= 1
        if engine.users == 0:
            await engine.destroy()
            _engine = None


def current() -> Engine:
    """The engine that runs in this process."""
    assert _engine is not None
    return _engine


async def status_of(call: str) -> WorkflowStatus | None:
    """What the engine knows of a call."""
    return await DBOS.get_workflow_status_async(call)
