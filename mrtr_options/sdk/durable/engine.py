"""The durable engine of this process: DBOS on one database, and the calls that run on it.

DBOS allows one engine in a process. Servers in one process, as under test, therefore share it: the
first one launches it and the last one ends it. Processes of a fleet share the database only.

Every process runs the calls it began. DBOS leaves it to others to find out which process died, so each
one holds a lease while it lives (`liveness`). A process that finds the lease of another ended hands that
one's calls back to the queue. A process whose own lease ends stops its calls first, and runs them again
under the next lease unless another process has them by then. So does one that finds a call of its own
which the database says is at work and which does not run here: a database error ended it.

Knows DBOS and `liveness`; nothing of MCP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import anyio
import anyio.to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
from dbos._serialization import DefaultSerializer
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import ArgumentError

from mrtr_options.sdk.durable.database import AWAY, Database, connector
from mrtr_options.sdk.durable.exchange import Exchange
from mrtr_options.sdk.durable.folder import own_folder
from mrtr_options.sdk.durable.liveness import LEASE_SECONDS, Lease, clock
from mrtr_options.sdk.durable.messages import Interrupted
from mrtr_options.sdk.durable.shared import Shared

T = TypeVar("T")

QUEUE = "mrtr-taken-over"

ENGINE_THREADS = 32
"""How many statements DBOS runs at a time at most."""
ENGINE_CONNECTIONS = 8
"""How many connections DBOS has to PostgreSQL at most, besides the one that it listens on."""
LISTEN_SECONDS = 0.05
"""How often DBOS looks for its own messages on SQLite. This package sends none."""
KEEP_SECONDS = 24 * 3600.0
"""How long a call that has ended is kept, for clients that ask for its last round again."""
SWEEP_SECONDS = 60.0
"""How often each process deletes calls that need not be kept any longer."""
SWEEP_LIMIT = 500
"""How many calls it deletes at a time."""
TAKE_OVER_SECONDS = 0.3
"""How often each process polls the queue of calls that were handed back."""
CLEANUP_SECONDS = 5.0
"""How long a call that is stopped has for the author's `finally` blocks."""
WATCH_SECONDS = 0.1
"""How often a process looks whether its lease holds."""
DEAD_RUN_SECONDS = 2.0
"""How often it compares the calls that run here with the database. A call that is missing twice runs
again."""

_LOG = logging.getLogger(__name__)


class WrongDatabase(RuntimeError):
    """The engine of this process runs on another database. The text is one line that says which."""


class Runner(Protocol):
    """Runs calls: an open store."""

    async def run(self, name: str, handle: str, begun: str) -> None:
        """Run a call to its end.

        Args:
            name: The name of its workflow.
            handle, begun: As in `Engine.start`.
        """
        ...


class Status(NamedTuple):
    """What the database says of a call.

    Attributes:
        status: One of DBOS's words.
        process: Which process runs it, or ran it last.
        name: Its workflow.
    """

    status: str
    process: str | None
    name: str


class Engine:
    """The engine of this process. See `opened`.

    Attributes:
        url: Its database.
        process: The name under which this process runs calls.
        database, exchange: What its calls and their rounds share.
    """

    def __init__(self, url: str, lease: Lease, database: Database, exchange: Exchange) -> None:
        self.url = url
        self.database = database
        self.exchange = exchange
        self.process = lease.process
        self._lease = lease
        # Of its own: a database that hangs holds up nothing but the looks at it.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="mrtr-lease")
        self._taking_over = asyncio.Lock()
        self._has_lease_again = asyncio.Event()
        self._runners: dict[str, list[Runner]] = {}
        self._workflows: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {}
        self._begun: dict[str, Runner] = {}
        self._running: dict[str, tuple[Runner, asyncio.Task[None]]] = {}
        self._interrupted: dict[str, str] = {}

    @staticmethod
    @asynccontextmanager
    async def opened(
        url: str | None,
        version: str = "any",
        *,
        lease_seconds: float = LEASE_SECONDS,
        keep_seconds: float = KEEP_SECONDS,
    ) -> AsyncGenerator[Engine]:
        """The engine of this process: launched for the first block that needs it, ended with the last.

        To keep one engine for many servers, one after another, hold a block of your own round them all:
        `async with Engine.opened(url) as engine`, and give each server the database `engine.apart()`.

        Args:
            url: `sqlite:///file` or `postgresql://...`. None for the database that this process uses
                already, or else a temporary file that is deleted with the engine.
            version: The version of the code. Processes of other versions do not run its calls.
            lease_seconds: How long this process counts as alive after its last sign of life.
            keep_seconds: How long a call is kept after its end, and one that no process runs after its
                last change.

        Raises:
            WrongDatabase: The engine of this process runs on another database.
        """
        async with _engine.used(lambda: _launched(url, version, lease_seconds, keep_seconds)) as engine:
            if url not in (None, engine.url):
                here, there = _without_password(engine.url), _without_password(url)
                raise WrongDatabase(f"the engine of this process runs on {here}, not on {there}")
            yield engine

    @property
    def running(self) -> Collection[str]:
        """The calls that run here."""
        return self._running.keys()

    def apart(self) -> str:
        """The engine's database under a new name: calls of servers on it are apart from all others."""
        return f"{self.url}#{secrets.token_hex(4)}"

    # --- who runs what ---

    def add(self, runner: Runner, names: Collection[str]) -> None:
        """Have a runner run the calls of these workflows."""
        for name in names:
            if name not in self._workflows:
                self._workflows[name] = DBOS.workflow(name=name)(_running_as(name))
            self._runners.setdefault(name, []).append(runner)

    async def take_up(self, names: Collection[str]) -> None:
        """Hand back to the queue what dead processes and removed runners left of these workflows."""
        for call, name in list(self._interrupted.items()):
            if name in names:
                await self.run_again(call)
        left = await DBOS.list_workflows_async(
            status="PENDING", name=list(names), load_input=False, load_output=False
        )
        for process in {call.executor_id for call in left if call.executor_id} - {self.process}:
            await self.take_over(process, names)

    async def remove(self, runner: Runner) -> None:
        """Stop what a runner runs. Its calls wait in the database."""
        for runners in self._runners.values():
            if runner in runners:
                runners.remove(runner)
        await self.interrupt([call for call, (by, _) in self._running.items() if by is runner])

    async def start(self, runner: Runner, name: str, handle: str, begun: str) -> None:
        """Begin a call, unless it has begun.

        Args:
            runner: Runs it.
            name: Its workflow.
            handle: Its own name.
            begun: What it begins with, as text.
        """
        if handle in self._running:  # another request with its key was first
            return
        self._begun[handle] = runner
        try:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(self._workflows[name], begun)
        except BaseException:
            self._begun.pop(handle, None)
            raise

    async def run(self, name: str, handle: str, begun: str) -> None:
        """Run a call, in the task of its workflow."""
        runner = self._begun.pop(handle, None) or next(iter(self._runners.get(name, ())), None)
        task = asyncio.current_task()
        assert task is not None
        try:
            if runner is None or not self.holds:
                raise asyncio.CancelledError  # left in the database for a process that may run it
            self._interrupted.pop(handle, None)
            self._running[handle] = runner, task
            await runner.run(name, handle, begun)
        except asyncio.CancelledError:
            self._interrupted[handle] = name
            raise
        except (Exception, Interrupted, BaseExceptionGroup) as error:
            # DBOS leaves a call that is cancelled at work in the database, where `revive` finds it.
            _LOG.warning("call %s cannot go on here: %r", handle, error.__cause__ or error)
            raise asyncio.CancelledError from error
        finally:
            self._running.pop(handle, None)

    async def stop(self, calls: Collection[str]) -> None:
        """End calls for good: they record nothing from here on."""
        await DBOS.cancel_workflows_async(list(calls))
        await self.interrupt(calls)
        for call in calls:
            self._interrupted.pop(call, None)

    async def interrupt(self, calls: Iterable[str]) -> None:
        """Stop calls that run here; wait until their cleanup has run, `CLEANUP_SECONDS` at most."""
        tasks = [self._running[call][1] for call in calls if call in self._running]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLEANUP_SECONDS)

    # --- the lease ---

    @property
    def holds(self) -> bool:
        """Whether this process may begin an effect."""
        return self._lease.holds

    async def watch(self) -> None:
        """Stop what runs here when the lease ends. Ends when cancelled."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.holds:
                if self._running:
                    _LOG.warning("the lease of this process has ended: %s stop", list(self._running))
                await self.interrupt(list(self._running))
                if await self._do(self._lease.begin_again):
                    self._has_lease_again.set()

    async def revive(self) -> None:
        """Have dead runs run again. Ends when cancelled.

        Beside `watch`, which must not wait for a database that does not answer.
        """
        missing: set[str] = set()
        while True:
            with anyio.move_on_after(DEAD_RUN_SECONDS):
                await self._has_lease_again.wait()
            self._has_lease_again.clear()
            if self.holds:
                try:
                    missing = await self._run_dead_again(missing)
                except Exception as error:  # the database may be back for the next look
                    _LOG.warning("the calls of this process were not compared: %s", error)

    async def _run_dead_again(self, missing_before: set[str]) -> set[str]:
        pending = await self._do(self._lease.pending)
        for call in self._interrupted.keys() - {call for call, _ in pending}:
            del self._interrupted[call]
        dead = {call for call, name in pending if self._runners.get(name)} - self._running.keys()
        dead -= self._begun.keys()
        known = {call for call in dead if call in self._interrupted}
        async with self._taking_over:
            if known:
                await self._hand_back(known, failed=False)
            if unknown := (dead & missing_before) - known:
                _LOG.warning("these calls ended here without an outcome and run again: %s", unknown)
                await self._hand_back(unknown, failed=True)
        return dead - known

    # --- retention ---

    async def keep_for(self, seconds: float) -> None:
        """Delete calls that need not be kept any longer, once in a while. Ends when cancelled."""
        while True:
            try:
                while await self.sweep(seconds) == SWEEP_LIMIT:
                    pass
            except AWAY as error:
                _LOG.warning("ended calls were not deleted: %s", str(error).splitlines()[0])
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self, seconds: float) -> int:
        """Delete calls that ended so long ago, or were left by dead processes, with all of theirs.

        Args:
            seconds: How long ago.

        Returns:
            How many; `SWEEP_LIMIT` at most.
        """
        calls = await self.database.do(self._outlived, seconds)
        if calls:
            await DBOS.delete_workflows_async(calls)
        await self.database.do(self._forget_counts)
        return len(calls)

    def _outlived(self, db: Connection, seconds: float) -> list[str]:
        now = self.database.now
        rows = db.execute(
            text(
                f"SELECT workflow_uuid FROM {self.database.schema}workflow_status "
                f"WHERE updated_at < ({'cast(:epoch AS REAL)' if self.database.is_sqlite else now} "
                "- :seconds) * 1000 AND (status NOT IN ('PENDING', 'ENQUEUED') OR executor_id IS NULL "
                f"OR executor_id NOT IN (SELECT name FROM mrtr_processes WHERE until >= {now})) "
                "ORDER BY updated_at LIMIT :limit"
            ),
            {"now": clock(), "epoch": time.time(), "seconds": seconds, "limit": SWEEP_LIMIT},
        )
        return [row[0] for row in rows]

    def _forget_counts(self, db: Connection) -> None:
        calls = f"SELECT 1 FROM {self.database.schema}workflow_status WHERE workflow_uuid = call"
        db.execute(text(f"DELETE FROM mrtr_hand_overs WHERE NOT EXISTS ({calls})"))

    # --- handing calls over ---

    async def status_of(self, call: str) -> Status | None:
        """What the database says of a call."""
        statement = text(
            f"SELECT status, executor_id, name FROM {self.database.schema}workflow_status "
            "WHERE workflow_uuid = :call"
        )

        def read(db: Connection) -> Status | None:
            row = db.execute(statement, {"call": call}).one_or_none()
            return None if row is None else Status(*row)

        found = await self.database.patiently(read)
        if found is None or found.process != self.process:
            self._interrupted.pop(call, None)  # it has been taken over
        return found

    async def begun_with(self, call: str) -> str | None:
        """What a call began with, as text, however long that takes; None if it has not begun."""
        while True:
            try:
                found = await DBOS.get_workflow_status_async(call)
            except AWAY as error:
                _LOG.warning("call %s was not looked up: %s", call, str(error).splitlines()[0])
            else:
                return None if found is None or found.input is None else found.input["args"][0]
            await asyncio.sleep(DEAD_RUN_SECONDS)

    async def take_over(self, process: str, names: Collection[str]) -> bool:
        """Hand the calls of a process back to the queue if it is dead.

        Args:
            process: Another process of the fleet.
            names: The workflows that this process can run.

        Returns:
            Whether it is dead.
        """
        async with self._taking_over:
            return await self._do(self._lease.take_over, process, names, QUEUE)

    async def run_again(self, call: str) -> None:
        """Hand a call back to the queue that was interrupted in this process."""
        async with self._taking_over:
            if call in self._interrupted and self._lease.holds:
                await self._hand_back([call], failed=False)

    async def _hand_back(self, calls: Collection[str], *, failed: bool) -> None:
        await self._do(partial(self._lease.run_again, calls, QUEUE, failed=failed))
        for call in calls:
            self._interrupted.pop(call, None)

    async def was_ended(self, call: str) -> bool:
        """Whether a call was ended since it took too many processes along."""
        return await self._do(self._lease.ended, call)

    async def _do(self, function: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *arguments)

    def was_interrupted(self, call: str) -> bool:
        """Whether a call ran in this process and was stopped before its end."""
        return call in self._interrupted


_engine: Shared[Engine] = Shared()
"""The engine of this process; one, as DBOS allows one."""


def current() -> Engine:
    """The engine that runs in this process."""
    assert _engine.value is not None
    return _engine.value


def _running_as(name: str) -> Callable[[str], Coroutine[Any, Any, None]]:
    # DBOS keeps workflows for as long as the process lives, so they must not hold an engine.
    async def run(begun: str) -> None:
        handle = DBOS.workflow_id
        assert handle is not None
        if _engine.value is None:
            raise asyncio.CancelledError  # dequeued before this engine is open: found by `revive`
        await current().run(name, handle, begun)

    return run


def _without_password(url: str) -> str:
    try:
        return make_url(url).set(query={}).render_as_string()  # libpq takes a password there, too
    except (ArgumentError, ValueError):
        return "a URL that cannot be read"


@asynccontextmanager
async def _launched(
    url: str | None, version: str, lease_seconds: float, keep_seconds: float
) -> AsyncGenerator[Engine]:
    async with AsyncExitStack() as held:
        if url is None:
            folder = held.enter_context(own_folder())
            url = f"sqlite:///{folder}/calls.sqlite"
        if url.startswith("sqlite:///"):
            _prepare(Path(url.removeprefix("sqlite:///")))
        lease = Lease(url, secrets.token_hex(8), lease_seconds)
        held.enter_context(lease.held())
        held.enter_context(_no_pickles())
        over = threading.Event()
        held.push_async_callback(_destroy, over)
        _launch(url, version, lease.process, over)
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=TAKE_OVER_SECONDS)
        database = await held.enter_async_context(Database.opened(url))
        exchange = await held.enter_async_context(Exchange.opened(database))
        engine = Engine(url, lease, database, exchange)
        work = engine.watch(), engine.revive(), engine.keep_for(keep_seconds)
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield engine
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def _destroy(over: threading.Event) -> None:
    over.set()
    with anyio.CancelScope(shield=True):
        # In another thread: DBOS waits for its threads, and one may be waiting for this loop.
        await anyio.to_thread.run_sync(DBOS.destroy)
    # DBOS made its own pool the loop's default one, and leaves it there shut down.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


@contextmanager
def _no_pickles() -> Generator[None]:
    """Refuse the pickles that DBOS reads wherever a row says that it is one."""
    deserialize = DefaultSerializer.deserialize
    DefaultSerializer.deserialize = _refuse  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        DefaultSerializer.deserialize = deserialize


def _refuse(serializer: DefaultSerializer, serialized_data: str) -> Any:
    raise ValueError("a row of the database is a pickle: it is not read, since that could run code")


def _is_of_note(record: logging.LogRecord) -> bool:
    # A process that ends says so of every call that waits in it, twice.
    return not record.getMessage().startswith("Asyncio task cancelled")


def _launch(url: str, version: str, process: str, over: threading.Event) -> None:
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version=version,
        executor_id=process,
        log_level="WARNING",
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=ENGINE_THREADS,
        notification_listener_polling_interval_sec=LISTEN_SECONDS,
    )
    if not url.startswith("sqlite"):
        config["db_engine_kwargs"] = {
            "creator": connector(url, over),
            "pool_size": ENGINE_CONNECTIONS,
        }
        config["sys_db_idle_transaction_timeout_sec"] = 0  # leaves what the connector sets
    DBOS(config=config)
    # Where its warnings go is the host's to decide.
    logger = logging.getLogger("dbos")
    logger.handlers = [each for each in logger.handlers if "dbos_console" not in (each.name or "")]
    logger.propagate = True
    logger.addFilter(_is_of_note)
    # In the loop's own thread: DBOS runs calls on the loop that it finds here.
    DBOS.launch()


def _prepare(database: Path) -> None:
    """Make a SQLite database, unless another process was faster."""
    if not database.exists():
        with tempfile.NamedTemporaryFile(dir=database.parent) as ready:
            ready.write(_empty())
            ready.flush()
            with suppress(FileExistsError):
                os.link(ready.name, database)
    with closing(sqlite3.connect(database)) as db:
        # Kept in the file: readers then do not hold up writers, at a third of the time per round.
        db.execute("PRAGMA journal_mode=WAL")


@cache
def _empty() -> bytes:
    """A SQLite database with DBOS's tables. Making one takes DBOS longer than a call."""
    with own_folder() as folder:
        file = folder / "empty.sqlite"
        DBOS.migrate(f"sqlite:///{file}")
        return file.read_bytes()
