"""The durable engine of this process: DBOS on one database, and the calls that run on it.

DBOS allows one engine in a process. Servers in one process, as under test, therefore share it: the
first one launches it and the last one ends it. Processes of a fleet share the database only.

Every process runs the calls it began. DBOS leaves it to others to find out which process died, so each
one holds a lock while it lives (`liveness`). A process that gets the lock of another hands that one's
calls back to the queue. A process that loses its lock while it lives (its connection broke) is fenced
off by DBOS: it can record nothing more, but an effect that it was running may happen a second time.

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
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
from dbos import DBOS, DBOSConfig, SetWorkflowID, WorkflowStatus

from mrtr_options.sdk.durable.liveness import Liveness, liveness_of
from mrtr_options.sdk.durable.messages import Call, Caller
from mrtr_options.sdk.durable.shared import Shared

QUEUE = "mrtr-taken-over"

LISTEN_SECONDS = 0.005
"""How often SQLite is polled for answers and questions. PostgreSQL notifies instead."""
TAKE_OVER_SECONDS = 0.1
"""How often each process polls the queue of calls that were handed back."""
CLEANUP_SECONDS = 5.0
"""How long a call that is stopped has for the author's `finally` blocks."""


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

    def __init__(self, url: str, liveness: Liveness, process: str) -> None:
        self.url = url
        self.process = process
        self._liveness = liveness
        self._taking_over = asyncio.Lock()
        self._runners: dict[str, list[Runner]] = {}
        self._workflows: dict[str, Callable[[Call, Caller], Coroutine[Any, Any, None]]] = {}
        self._begun: dict[str, Runner] = {}
        self._running: dict[str, tuple[Runner, asyncio.Task[None]]] = {}
        self._interrupted: dict[str, str] = {}

    @staticmethod
    @asynccontextmanager
    async def opened(url: str | None, version: str = "any") -> AsyncGenerator[Engine]:
        """The engine of this process: launched for the first block that needs it, ended with the last.

        To keep one engine for many servers, one after another, hold a block of your own round them all:
        `async with Engine.opened(url) as engine`, and give each server the database `engine.apart()`.

        Args:
            url: `sqlite:///file` or `postgresql://...`. None for the database that this process uses
                already, or else a temporary file that is deleted with the engine.
            version: The version of the code. Processes of other versions do not run its calls.

        Raises:
            WrongDatabase: The engine of this process runs on another database.
        """
        async with _engine.used(lambda: _launched(url, version)) as engine:
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
        with SetWorkflowID(handle):
            await DBOS.start_workflow_async(self._workflows[name], call, caller)

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        """Run a call, in the task of its workflow."""
        runner = self._begun.pop(handle, None) or next(iter(self._runners.get(name, ())), None)
        task = asyncio.current_task()
        assert task is not None
        try:
            if runner is None:
                raise asyncio.CancelledError  # left in the database for a process that has a runner
            self._running[handle] = runner, task
            await runner.run(name, call, handle, caller)
        except asyncio.CancelledError:
            self._interrupted[handle] = name
            raise
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
            with self._liveness.lock_of(process) as dead:
                if dead:
                    left = await DBOS.list_workflows_async(
                        status="PENDING", executor_id=process, name=list(names), load_input=False
                    )
                    await self._hand_back([call.workflow_id for call in left])
                return dead

    async def run_again(self, call: str) -> None:
        """Hand a call back to the queue that was interrupted in this process."""
        async with self._taking_over:
            if self._interrupted.pop(call, None) is not None:
                await self._hand_back([call])

    async def _hand_back(self, calls: list[str]) -> None:
        if calls:
            await DBOS.resume_workflows_async(calls, queue_name=QUEUE)

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
async def _launched(url: str | None, version: str) -> AsyncGenerator[Engine]:
    with ExitStack() as held:
        if url is None:
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="mrtr-durable-"))
            url = f"sqlite:///{folder}/calls.sqlite"
        if url.startswith("sqlite:///"):
            _prepare(Path(url.removeprefix("sqlite:///")))
        process, liveness = secrets.token_hex(8), liveness_of(url)
        held.enter_context(liveness.held(process))
        try:
            _launch(url, version, process)
            await DBOS.register_queue_async(QUEUE, polling_interval_sec=TAKE_OVER_SECONDS)
            yield Engine(url, liveness, process)
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
    # DBOS would log to standard error where no handler is set; that is the host's to decide.
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    DBOS(config=config)
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
