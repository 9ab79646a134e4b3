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
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from dbos import DBOS, DBOSConfig, SetWorkflowID, WorkflowStatus

from mrtr_options.sdk.durable.liveness import LEASE_SECONDS, Lease, clock
from mrtr_options.sdk.durable.messages import Call, Caller, Interrupted
from mrtr_options.sdk.durable.shared import Shared

T = TypeVar("T")

QUEUE = "mrtr-taken-over"

LISTEN_SECONDS = 0.005
"""How often SQLite is polled for answers and questions. PostgreSQL notifies instead."""
TAKE_OVER_SECONDS = 0.1
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

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        """Run a call to its end.

        Args:
            name: The name of its workflow.
            call, caller: As in `Engine.start`.
            handle: The call's name.
        """
        ...


class Engine:
    """The engine of this process. See `opened`.

    Attributes:
        url: Its database.
        process: The name under which this process runs calls.
    """

    def __init__(self, url: str, lease: Lease) -> None:
        self.url = url
        self.process = lease.process
        self._lease = lease
        # Of its own: a database that hangs holds up nothing but the looks at it.
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="mrtr-lease")
        self._taking_over = asyncio.Lock()
        self._runners: dict[str, list[Runner]] = {}
        self._workflows: dict[str, Callable[[Call, Caller], Coroutine[Any, Any, None]]] = {}
        self._begun: dict[str, Runner] = {}
        self._running: dict[str, tuple[Runner, asyncio.Task[None]]] = {}
        self._interrupted: dict[str, str] = {}

    @staticmethod
    @asynccontextmanager
    async def opened(
        url: str | None, version: str = "any", *, lease_seconds: float = LEASE_SECONDS
    ) -> AsyncGenerator[Engine]:
        """The engine of this process: launched for the first block that needs it, ended with the last.

        To keep one engine for many servers, one after another, hold a block of your own round them all:
        `async with Engine.opened(url) as engine`, and give each server the database `engine.apart()`.

        Args:
            url: `sqlite:///file` or `postgresql://...`. None for the database that this process uses
                already, or else a temporary file that is deleted with the engine.
            version: The version of the code. Processes of other versions do not run its calls.
            lease_seconds: How long this process counts as alive after its last sign of life.

        Raises:
            WrongDatabase: The engine of this process runs on another database.
        """
        async with _engine.used(lambda: _launched(url, version, lease_seconds)) as engine:
            if url not in (None, engine.url):
                raise WrongDatabase(f"the engine of this process runs on {engine.url}, not on {url}")
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

    async def start(self, runner: Runner, name: str, handle: str, call: Call, caller: Caller) -> None:
        """Begin a call.

        Args:
            runner: Runs it.
            name: Its workflow.
            handle: Its own name.
            call: The part that all its rounds share.
            caller: The client of its first round.
        """
        self._begun[handle] = runner
        try:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(self._workflows[name], call, caller)
        except BaseException:
            self._begun.pop(handle, None)
            raise

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        """Run a call, in the task of its workflow."""
        runner = self._begun.pop(handle, None) or next(iter(self._runners.get(name, ())), None)
        task = asyncio.current_task()
        assert task is not None
        try:
            if runner is None or not self.holds:
                raise asyncio.CancelledError  # left in the database for a process that may run it
            self._interrupted.pop(handle, None)
            self._running[handle] = runner, task
            await runner.run(name, call, handle, caller)
        except asyncio.CancelledError:
            self._interrupted[handle] = name
            raise
        except (Exception, Interrupted, BaseExceptionGroup) as error:
            # DBOS leaves a call that is cancelled at work in the database, where `watch` finds it.
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
        """Stop what runs here when the lease ends; have dead runs run again. Ends when cancelled."""
        missing: set[str] = set()
        look_at = clock() + DEAD_RUN_SECONDS
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.holds:
                if self._running:
                    _LOG.warning("the lease of this process has ended: %s stop", list(self._running))
                await self.interrupt(list(self._running))
                if not await self._do(self._lease.begin_again):
                    continue
                look_at = clock()
            if clock() >= look_at:
                look_at = clock() + DEAD_RUN_SECONDS
                try:
                    missing = await self._run_dead_again(missing)
                except Exception as error:  # the database may be back for the next look
                    _LOG.warning("the calls of this process were not compared: %s", error)

    async def _run_dead_again(self, missing_before: set[str]) -> set[str]:
        pending = await self._do(self._lease.pending)
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

    # --- handing calls over ---

    async def status_of(self, call: str) -> WorkflowStatus | None:
        """What the database says of a call."""
        return await DBOS.get_workflow_status_async(call)

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


def _running_as(name: str) -> Callable[[Call, Caller], Coroutine[Any, Any, None]]:
    # DBOS keeps workflows for as long as the process lives, so they must not hold an engine.
    async def run(call: Call, caller: Caller) -> None:
        handle = DBOS.workflow_id
        assert handle is not None
        await current().run(name, call, handle, caller)

    return run


@asynccontextmanager
async def _launched(url: str | None, version: str, lease_seconds: float) -> AsyncGenerator[Engine]:
    with ExitStack() as held:
        if url is None:
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="mrtr-durable-"))
            url = f"sqlite:///{folder}/calls.sqlite"
        if url.startswith("sqlite:///"):
            _prepare(Path(url.removeprefix("sqlite:///")))
        lease = Lease(url, secrets.token_hex(8), lease_seconds)
        held.enter_context(lease.held())
        try:
            _launch(url, version, lease.process)
            await DBOS.register_queue_async(QUEUE, polling_interval_sec=TAKE_OVER_SECONDS)
            engine = Engine(url, lease)
            watch = asyncio.create_task(engine.watch())
            try:
                yield engine
            finally:
                watch.cancel()
                await asyncio.wait([watch])
        finally:
            with anyio.CancelScope(shield=True):
                # In another thread: DBOS waits for its threads, and one may be waiting for this loop.
                await anyio.to_thread.run_sync(DBOS.destroy)
            # DBOS made its own pool the loop's default one, and leaves it there shut down.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


def _launch(url: str, version: str, process: str) -> None:
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version=version,
        executor_id=process,
        log_level="WARNING",
        notification_listener_polling_interval_sec=LISTEN_SECONDS,
    )
    DBOS(config=config)
    # Where its warnings go is the host's to decide.
    logger = logging.getLogger("dbos")
    logger.handlers = [each for each in logger.handlers if "dbos_console" not in (each.name or "")]
    logger.propagate = True
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
    with tempfile.TemporaryDirectory(prefix="mrtr-durable-") as folder:
        file = Path(folder, "empty.sqlite")
        DBOS.migrate(f"sqlite:///{file}")
        return file.read_bytes()
