"""Durable calls on one machine: DBOS in this process, on a SQLite file, as it comes.

DBOS keeps the log of a call: what each step came to, and each answer. The rest lives in the process that
runs it, where its rounds find it. When a process died, DBOS runs its calls again as soon as a process
with the same name (`MRTR_INSTANCE`, or "local") starts on the same database: that is DBOS's promise and
the only one here. So a file is for one process at a time, and a second one is refused.

DBOS allows one engine in a process. Stores in one process, as under test, share it. When a store closes,
its calls wait for the next one that has their handler, and begin again from their log.

Knows DBOS, `call`, `messages` and `rounds`; nothing of MCP's requests.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import psycopg
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, StepInfo
from sqlalchemy.exc import SQLAlchemyError

from mrtr_options.sdk.durable import messages
from mrtr_options.sdk.durable.call import ATTEMPTS, Record, Running
from mrtr_options.sdk.durable.messages import (
    Answers,
    Begun,
    Output,
    Reply,
    Seal,
    Stepped,
    Stopped,
    Unreadable,
)
from mrtr_options.sdk.durable.rounds import Work, WrongDatabase

WORKFLOW = "mrtr-call"
AGAIN_SECONDS = 0.1
"""How long is waited before a database is tried again that did not take something, and before a call
that was stopped in the middle begins again."""
SWEEP_SECONDS = 60
"""How often calls are deleted that need not be kept any longer."""
SWEEP_LIMIT = 500
"""How many of them at a time."""
LOOK_SECONDS = 1.0
"""How often a round looks how its call stands that does not run here."""
CLEANUP_SECONDS = 5.0
"""How long a call that is stopped has for the author's `finally` blocks."""
RESTARTS = 1000
"""How often a call begins again after its process died, whatever it was doing."""
THREADS = 32
"""How many statements DBOS runs at a time at most."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


async def _surely(do: Callable[[], Awaitable[T]]) -> T:
    """What the database says, as soon as it does."""
    while True:
        try:
            return await do()
        except SQLAlchemyError as error:
            _LOG.warning("the database is tried again: %s", str(error).splitlines()[0])
        await asyncio.sleep(AGAIN_SECONDS)


class _Bell:
    """Wakes those who wait until something is so."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()
        self._rung = asyncio.Event()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        with anyio.move_on_after(seconds):
            while not is_so():
                await self._rung.wait()
        return is_so()


@dataclass(frozen=True)
class _Entry:
    """Of a call's log: of what, when, and what it came to."""

    of: str
    at: float
    what: Stepped | Answers | None = None


class _Left(Exception):
    """The store that ran a call does not run it any more."""


class Live(Running):
    """A call that runs in this process, or waits here for a store that has its handler.

    Attributes:
        name: Of its handler.
        store: The store that runs it; None while it waits.
        is_over: Whether it does not run here any more.
        is_stopped: Whether it was ended for good.
    """

    def __init__(self, name: str, handle: str, begun: str) -> None:
        self.name = name
        self.handle = handle
        self.store: Engine | None = None
        self.is_over = self.is_stopped = False
        self._begun = begun
        self._is_again = False
        self._log: list[str] = []
        self._ahead: dict[str, _Entry] = {}
        self._scope = anyio.CancelScope()
        self._given: dict[int, Answers] = {}
        self._bell = _Bell()

    def told(self) -> None:
        self._bell.ring()

    def now(self) -> float:
        assert self.store is not None
        return self.store.work.clock()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        store = self.store
        await self._bell.until(lambda: is_so() or self.store is not store, seconds)
        if self.store is not store:
            raise _Left
        return is_so()

    async def ready(self) -> None:
        """Wait until its handler has come to where it was, or it does not run here any more."""
        await self._bell.until(lambda: self.is_over or (self.store is not None and not self._ahead))
        if self.is_over:
            raise _Left

    # --- its log ---

    async def step(self, key: str, run: Callable[[], Coroutine[Any, Any, Stepped]]) -> Stepped:
        of, again = f"step {key}", f"again {key}"
        if (entry := self._known(of)) is not None:
            return cast(Stepped, entry.what)
        if self._is_again:  # it may have ended its process
            if sum(self._read(text).of == again for text in self._log) >= ATTEMPTS - 1:
                return Stepped(gave_up=True)
            await self._append("mrtr.again", again)
        stepped = await run()
        await self._append(key, of, stepped)
        return stepped

    async def asks(self) -> None:
        of = f"question {len(self.record.outputs)}"
        if self._known(of) is None:
            await self._append("mrtr.asked", of)

    async def answered(self, seconds: float) -> bool:
        number = self.record.asking
        if (entry := self._known(f"answer {number}")) is not None:
            answers = cast(Answers, entry.what)
        elif await self.until(lambda: number in self._given, seconds):
            answers = self._given[number]
            await self._append("mrtr.answered", f"answer {number}", answers)
        else:
            return False
        self.record.take(number, answers)
        self.told()
        return True

    async def takes(self, number: int, answers: Answers) -> None:
        self._given.setdefault(number, answers)
        self.told()
        record = self.record
        await self.until(lambda: number in record.answers or record.has_said(number + 1))

    def _known(self, of: str) -> _Entry | None:
        """An entry that was made when the handler ran before."""
        if (entry := self._ahead.pop(of, None)) is not None:
            self.record.updated = entry.at
            self.told()
        return entry

    async def _append(self, name: str, of: str, what: Stepped | Answers | None = None) -> None:
        assert self.store is not None
        entry = _Entry(of, self.now(), what)
        text = self.store.seal.write(entry, self.handle)

        async def step() -> str:
            return text

        with anyio.CancelScope(
            shield=True
        ):  # what happened is put on record, though the call is stopped
            await _surely(lambda: DBOS.run_step_async({"name": name}, step))
        self._log.append(text)
        self._is_again = False
        self.record.updated = entry.at

    def _read(self, text: str) -> _Entry:
        assert self.store is not None
        return self.store.seal.read(_Entry, text, self.handle)

    async def load(self) -> None:
        """Read the log, where another process began the call."""

        async def look() -> tuple[bool, list[StepInfo]]:
            status = await DBOS.get_workflow_status_async(self.handle)
            is_again = status is not None and (status.recovery_attempts or 0) > 1
            return is_again, await DBOS.list_workflow_steps_async(self.handle)

        # In a context of its own: in the workflow's this would be one of its steps.
        self._is_again, steps = await asyncio.create_task(_surely(look), context=Context())
        # Where the database did not take an entry, there is a step without one.
        self._log = [each["output"] for each in steps if each["output"] is not None]
        for _ in range(max((each["function_id"] for each in steps), default=0)):
            DBOS.reserve_step()  # the next entry comes after these

    # --- its run ---

    async def run(self, store: Engine) -> str:
        """Run the handler on a store; the call's record, or nothing where the handler was stopped."""
        first = store.seal.read(Begun, self._begun, self.handle)
        self.store, self.record, self._scope = store, Record(first, first.at), anyio.CancelScope()
        output: Output | None = None
        try:
            entries = [self._read(text) for text in self._log]
            self._ahead = {each.of: each for each in entries if not each.of.startswith("again ")}
            with self._scope:
                output = await store.work.perform(self.name.partition("#")[0], self)
        except (asyncio.CancelledError, BaseExceptionGroup):
            if cast("asyncio.Task[Any]", asyncio.current_task()).cancelling():
                raise  # the process ends
        finally:
            at, self.store, self._is_again = self.now(), None, True
            self.told()
        if self.is_stopped:
            output = Stopped()
        elif output is None or self._scope.cancel_called:
            return ""
        record = replace(self.record, outputs=[*self.record.outputs, output], updated=at)
        return store.seal.write(record, self.handle)

    async def leave(self, *, for_good: bool = False) -> None:
        """Stop the handler, once its cleanup has run."""
        self.is_stopped |= for_good
        self._scope.cancel()
        await self._bell.until(lambda: self.is_over or not (for_good or self.store), CLEANUP_SECONDS)


class Process:
    """DBOS in this process, the stores that are open, and the calls that run here."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.users = 0
        self.live: dict[str, Live] = {}
        self.stores: list[Engine] = []
        self.bell = _Bell()
        self._tasks: set[asyncio.Task[Any]] = set()

    def apart(self) -> str:
        """The database under a new name: the calls of stores on it are apart from all others."""
        return f"{self.url}#{secrets.token_hex(4)}"

    def store_of(self, name: str) -> Engine | None:
        """A store that has this handler."""
        return next((each for each in reversed(self.stores) if name in each.names), None)

    async def run(self, name: str, handle: str, begun: str) -> str:
        """Run a call in its workflow's task; its record, which DBOS writes before that task ends."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        live = self.live[handle] = Live(name, handle, begun)
        self._tasks.add(task)
        self.bell.ring()

        def over(_: object) -> None:
            self._tasks.remove(task)
            del self.live[handle]
            live.is_over = True
            live.told()

        task.add_done_callback(over)
        try:
            await live.load()
            while True:
                await self.bell.until(lambda: self.store_of(name) is not None)
                if (store := self.store_of(name)) is not None and (text := await live.run(store)):
                    return text
                await asyncio.sleep(AGAIN_SECONDS)
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # its log cannot be read
            _LOG.warning("call %s cannot go on here: %r", handle, error)
        raise asyncio.CancelledError  # DBOS leaves the call as it is

    async def sweep(self, seconds: float) -> int:
        """Delete calls that ended so long ago, and those as old that nothing here can run; how many."""
        since = time.time() - seconds
        old = await DBOS.list_workflows_async(
            name=WORKFLOW,
            end_time=datetime.fromtimestamp(since, UTC).isoformat(),
            load_input=False,
            load_output=False,
        )
        at_work = {live.handle for live in self.live.values() if live.store is not None}
        unused = (each.workflow_id for each in old if (each.updated_at or 0) <= since * 1000)
        calls = [call for call in unused if call not in at_work][:SWEEP_LIMIT]
        if calls:
            await DBOS.delete_workflows_async(calls)
        return len(calls)

    async def end(self) -> None:
        """Let go of the calls that wait for a store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # In another thread: DBOS waits for its threads, and one may be waiting for this loop.
        await anyio.to_thread.run_sync(DBOS.destroy)
        # DBOS made its own pool the loop's default one, and leaves it there shut down.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


class Engine:
    """The engine of one store: see `rounds.Engine`.

    Args:
        process: DBOS.
        work: What the store runs.
        apart: Marks its calls; see `Process.apart`.
    """

    def __init__(self, process: Process, work: Work, apart: str) -> None:
        self.work = work
        self.seal = Seal(work.codec)
        self.names = {name + apart for name in work.names}
        self._process = process
        self._apart = apart

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = self.seal.write(begun, handle)

        async def start() -> None:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(_call, name + self._apart, text)

        # Who waits for it may stop waiting. It begins anyway.
        await asyncio.shield(asyncio.ensure_future(_surely(start)))
        return await self.visit(handle, -1, Answers({}, begun.caller))

    async def visit(self, handle: str, number: int, answers: Answers) -> Reply | Record:
        return await self._asked(handle, lambda live: live.visit(number, answers))

    async def look(self, handle: str) -> Record:
        async def look(live: Live) -> Record:
            return live.record

        return await self._asked(handle, look)

    async def stop(self, handle: str) -> None:
        if isinstance(live := await self._found(handle), Live):
            await live.leave(for_good=True)

    async def _asked(self, handle: str, ask: Callable[[Live], Awaitable[T]]) -> T | Record:
        """What a call says; what is on record of it once it is over."""
        while isinstance(live := await self._found(handle), Live):
            with suppress(_Left):
                await live.ready()
                return await ask(live)
        return live

    async def _found(self, handle: str) -> Live | Record:
        """A call, as soon as it is here or has ended.

        Raises:
            MCPError: There is no such call, or nothing here can run it.
        """
        here = self._process
        while (live := here.live.get(handle)) is None:
            status = await _surely(lambda: DBOS.get_workflow_status_async(handle))
            if status is None or status.name != WORKFLOW or not status.input:
                raise messages.unknown_call()
            try:
                if status.status == "SUCCESS":
                    return self.seal.read(Record, str(status.output), handle)
                self.seal.read(Begun, status.input["args"][1], handle)
            except Unreadable as error:
                _LOG.warning("%s", error)
                raise messages.unknown_call() from error
            if status.status not in ("PENDING", "ENQUEUED"):
                raise messages.gave_up()
            await here.bell.until(lambda: handle in here.live, LOOK_SECONDS)
        if here.store_of(live.name) is None:
            raise messages.other_version()
        return live


# --- opened and closed --------------------------------------------------------------------------

_process: Process | None = None
_held = AsyncExitStack()
_changing = anyio.Lock()


@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=RESTARTS)
async def _call(name: str, begun: str) -> str:
    if _process is None or DBOS.workflow_id is None:
        raise asyncio.CancelledError  # the engine is being ended
    return await _process.run(name, DBOS.workflow_id, begun)


@asynccontextmanager
async def process(url: str | None) -> AsyncGenerator[Process]:
    """The engine of this process: launched for the first block that needs it, ended with the last.

    To keep one engine for many servers, one after another, hold a block of your own round them all, and
    give each server the database `process.apart()`.

    Args:
        url: `sqlite:///FILE`, or what DBOS takes. None for the database that this process uses already,
            or else a temporary file that is deleted with the engine.

    Raises:
        WrongDatabase: The engine of this process runs on another database, or another process does on
            this one.
    """
    global _process
    async with _changing:
        if _process is None:
            _process = await _held.enter_async_context(_launched(url))
        here = _process
        if url not in (None, here.url):
            raise WrongDatabase("the engine of this process runs on another database")
        here.users += 1
    try:
        yield here
    finally:
        with anyio.CancelScope(shield=True):
            async with _changing:
                here.users -= 1
                if not here.users:
                    _process = None
                    await _held.aclose()


@asynccontextmanager
async def embedded(url: str | None, work: Work) -> AsyncGenerator[Engine]:
    """The engine of a store on DBOS, for the length of a block; see `rounds.opened`."""
    base, mark, apart = (url or "").partition("#")
    async with process(base or None) as here:
        engine = Engine(here, work, mark + apart)
        here.stores.append(engine)
        here.bell.ring()

        async def sweep() -> None:
            while True:
                await _surely(lambda: here.sweep(work.keep_seconds))
                await asyncio.sleep(SWEEP_SECONDS)

        sweeping = asyncio.ensure_future(sweep())
        try:
            yield engine
        finally:
            sweeping.cancel()
            here.stores.remove(engine)
            with anyio.CancelScope(shield=True):
                mine = [live for live in here.live.values() if live.store is engine]
                await asyncio.gather(*(live.leave() for live in mine))


@asynccontextmanager
async def _launched(url: str | None) -> AsyncGenerator[Process]:
    with ExitStack() as held:
        if url is None:
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="mrtr-durable-"))
            url = f"sqlite:///{folder}/calls.sqlite"
        held.enter_context(taken(url))
        here = Process(url)
        _launch(url)
        try:
            yield here
        finally:
            with anyio.CancelScope(shield=True):
                await here.end()


_UNTIL_GONE = "-c lock_timeout=2s -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
"""How PostgreSQL soon finds a process gone that held a name; one that has just died is waited for."""


def _name() -> str:
    """Of this process, for DBOS: it runs the calls of its name again."""
    return os.environ.get("MRTR_INSTANCE") or "local"


@contextmanager
def taken(url: str) -> Generator[None]:
    """Have a SQLite file, or a name in a PostgreSQL database, for this process alone: another one would
    run the calls of this one, too.

    Raises:
        WrongDatabase: It cannot be used, or another process has it.
        ValueError: The URL cannot be read.
    """
    with ExitStack() as held:
        try:
            if (path := url.removeprefix("sqlite:///")) == url:
                db = psycopg.connect(url, autocommit=True, options=_UNTIL_GONE)
                name = f"mrtr-call {_name()}"
                held.enter_context(db).execute(
                    "SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name]
                )
            else:
                fcntl.flock(held.enter_context(open(path, "ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                with closing(sqlite3.connect(path)) as file:
                    # Kept in the file: readers do not hold up writers, at a third of the time per round.
                    file.execute("PRAGMA journal_mode=WAL")
        except psycopg.errors.LockNotAvailable:
            raise WrongDatabase(
                f"another process has the name {_name()!r} in it: give each its own MRTR_INSTANCE"
            ) from None
        except BlockingIOError:
            raise WrongDatabase(
                f"another process has {url}: a file is for one process; give a fleet temporal://HOST:PORT"
            ) from None
        except psycopg.ProgrammingError as error:
            raise ValueError("this URL cannot be read") from error
        except (OSError, psycopg.Error, sqlite3.Error) as error:
            raise WrongDatabase(getattr(error, "strerror", "") or f"{error}".splitlines()[0]) from error
        yield


def _launch(url: str) -> None:
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version="any",  # the name of a handler has its version
        executor_id=_name(),
        log_level="WARNING",
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=THREADS,
    )
    DBOS(config=config)
    # Where its warnings go is the host's to decide.
    logger = logging.getLogger("dbos")
    logger.handlers = [each for each in logger.handlers if "dbos_console" not in (each.name or "")]
    logger.propagate = True
    # A process that ends says so of every call that waits in it, twice.
    logger.addFilter(lambda record: not record.getMessage().startswith("Asyncio task cancelled"))
    # In the loop's own thread: DBOS runs calls on the loop that it finds here.
    DBOS.launch()
