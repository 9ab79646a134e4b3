"""Durable calls on one machine: DBOS in this process, on a SQLite file, as it comes.

DBOS keeps the log of a call: what each step came to, each question and each answer. The rest lives
in the process that runs it, where its rounds find it. When a process died, DBOS runs its calls
again as soon as a process with the same name (`MRTR_INSTANCE`, or "local") starts on the same
database: that is DBOS's promise and the only one here. So a file is for one process at a time, and
a second one is refused.

DBOS allows one engine in a process. Stores in one process, as under test, share it. When a store
closes, its calls wait for the next one that has their handler, and begin again from their log.

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
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import psycopg
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, StepInfo
from mcp.server.request_state import RequestStateCodec
from sqlalchemy.exc import SQLAlchemyError

from mrtr_options.sdk.durable.call import ATTEMPTS, Record, Running
from mrtr_options.sdk.durable.messages import (
    Answers,
    Begun,
    Ended,
    Output,
    Reply,
    Seal,
    Stepped,
    Unreadable,
    refused,
)
from mrtr_options.sdk.durable.rounds import DurableStore, WrongDatabase

WORKFLOW = "mrtr-call"
AGAIN_SECONDS = 0.1
"""How long is waited before a database is tried again that did not take something, and before a
call that was stopped in the middle begins again.
"""
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
REPEAT_SECONDS = 1.0
"""How long a handler that runs again has to repeat what is on record, before it does or awaits
more.
"""
THREADS = 32
"""How many statements DBOS runs at a time at most."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

# Where its warnings go is the host's to decide; without a handler DBOS would write to the terminal.
logging.getLogger("dbos").addHandler(logging.NullHandler())
# A process that ends says so of every call that waits in it, twice.
logging.getLogger("dbos").addFilter(
    lambda said: not said.getMessage().startswith("Asyncio task cancelled")
)


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
    """The call does not run here any more."""


class Live(Running):
    """A call that runs in this process, on one store.

    Args:
        store: The engine of that store.
        name: Of its handler.
        handle: Its name.
        begun: What it began with, as it is kept.
        log: Its log, as it is kept: what it came to before, and from now on.
        is_again: Whether it stopped in the middle before.

    Attributes:
        ahead: What is still to come of what it came to before.
        is_over: Whether it does not run here any more.
    """

    def __init__(
        self, store: Engine, name: str, handle: str, begun: str, log: list[str], is_again: bool
    ) -> None:
        self.store, self.handle = store, handle
        first = store.seal.read(Begun, begun, handle)
        self.record = Record(first, first.at)
        entries = [store.seal.read(_Entry, text, handle) for text in log]
        self.ahead = {each.of: each for each in entries if not each.of.startswith("again ")}
        self.is_over = False
        self._attempts = Counter(each.of for each in entries)
        self._name, self._log, self._is_again = name.partition("#")[0], log, is_again
        self._given: dict[int, Answers] = {}
        self._bell = _Bell()
        self._scope = anyio.CancelScope()
        self._is_stopped = False

    def told(self) -> None:
        self._bell.ring()

    def now(self) -> float:
        return self.store.work.clock()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        await self._bell.until(lambda: is_so() or self.is_over, seconds)
        if self.is_over:
            raise _Left
        return is_so()

    async def step(self, key: str, run: Callable[[], Coroutine[Any, Any, Stepped]]) -> Stepped:
        of, again = f"step {key}", f"again {key}"
        if (entry := self._known(of)) is not None:
            return cast(Stepped, entry.what)
        if self._is_again:  # it may have ended its process
            if self._attempts[again] >= ATTEMPTS - 1:
                return Stepped(gave_up=True)
            await self._append("mrtr.again", again)
        stepped = await run()
        if not await self._goes_on():
            return Stepped(gave_up=True)
        await self._append(key, of, stepped)
        return stepped

    async def asks(self) -> bool:
        # A round that comes after a restart waits until the handler is back at its question.
        number = len(self.record.outputs)
        is_new = self._known(of := f"question {number}") is None
        goes_on = f"answer {number}" in self.ahead or await self._goes_on()
        if goes_on and is_new:
            await self._append("mrtr.asked", of)
        return goes_on

    async def answered(self, number: int, seconds: float) -> bool:
        of = f"answer {number}"
        if (entry := self._known(of)) is not None:
            answers = cast(Answers, entry.what)
        elif await self.until(lambda: number in self._given, seconds):
            answers = self._given[number]
            await self._append("mrtr.answered", of, answers)
        else:
            return False
        self.record.take(number, answers)
        self.told()
        return True

    async def takes(self, number: int, answers: Answers) -> None:
        self._given.setdefault(number, answers)
        self.told()
        record = self.record
        await self.until(lambda: number in record.answers or number + 1 < len(record.outputs))

    async def _goes_on(self) -> bool:
        """Whether the handler has done all that it did when it ran before."""
        return await self.until(lambda: not self.ahead, REPEAT_SECONDS)

    def _known(self, of: str) -> _Entry | None:
        """An entry that was made when the handler ran before."""
        if (entry := self.ahead.pop(of, None)) is not None:
            self.record.updated = entry.at
            self.told()
        return entry

    async def _append(self, name: str, of: str, what: Stepped | Answers | None = None) -> None:
        entry = _Entry(of, self.now(), what)
        text = self.store.seal.write(entry, self.handle)

        async def step() -> str:
            return text

        # What happened is put on record, though the call is stopped.
        with anyio.CancelScope(shield=True):
            await _surely(lambda: DBOS.run_step_async({"name": name}, step))
        self._log.append(text)
        self._is_again = False
        self.record.updated = entry.at

    async def run(self) -> str | None:
        """Run the handler; the call's record, or None where it was stopped in the middle."""
        output: Output | None = None
        try:
            with self._scope:
                output = await self.store.work.perform(self._name, self)
        except (asyncio.CancelledError, BaseExceptionGroup):
            if cast("asyncio.Task[Any]", asyncio.current_task()).cancelling():
                raise  # the process ends
        if self._is_stopped:
            output = Ended(None)
        elif output is None or self._scope.cancel_called:
            return None
        record = replace(self.record, outputs=[*self.record.outputs, output], updated=self.now())
        return self.store.seal.write(record, self.handle)

    async def leave(self, *, for_good: bool = False) -> None:
        """Stop the handler, once its cleanup has run."""
        self._is_stopped |= for_good
        self._scope.cancel()
        await self._bell.until(lambda: self.is_over, CLEANUP_SECONDS)


class Process:
    """DBOS in this process, the stores that are open, and the calls that run here.

    Args:
        url: `sqlite:///FILE`, or what DBOS takes. None for a file that goes with it.

    Raises:
        WrongDatabase: See `taken`.
    """

    def __init__(self, url: str | None) -> None:
        self.users = 0
        self.live: dict[str, Live] = {}
        self.stores: list[Engine] = []
        self.beginning: dict[str, Engine] = {}
        self.bell = _Bell()
        self._tasks: set[asyncio.Task[Any]] = set()
        with ExitStack() as held:
            if url is None:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="mrtr-durable-"))
                url = f"sqlite:///{folder}/calls.sqlite"
            self.url = url
            held.enter_context(taken(url))
            _launch(url)
            self._held = held.pop_all()

    def apart(self) -> str:
        """The database under a new name: the calls of stores on it are apart from all others."""
        return f"{self.url}#{secrets.token_hex(4)}"

    def store_of(self, name: str, handle: str) -> Engine | None:
        """A store that has this handler: the one on which the call begins, or else the last one."""
        found = [each for each in self.stores if name in each.names]
        first = self.beginning.get(handle)
        return first if first in found else found[-1] if found else None

    async def run(self, name: str, handle: str, begun: str) -> str:
        """Run a call in its workflow's task; its record, which DBOS writes before that task
        ends.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.remove)
        task.add_done_callback(lambda _: self._over(handle))
        try:
            log, is_again = await self._log_of(handle)
            while True:
                while (store := self.store_of(name, handle)) is None:
                    await self.bell.until(lambda: self.store_of(name, handle) is not None)
                live = self.live[handle] = Live(store, name, handle, begun, log, is_again)
                self.bell.ring()
                if (text := await live.run()) is not None:
                    return text
                self._over(handle)
                is_again = True
                await asyncio.sleep(AGAIN_SECONDS)
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # its log cannot be read
            _LOG.warning("call %s cannot go on here: %r", handle, error)
        raise asyncio.CancelledError  # DBOS leaves the call as it is

    def _over(self, handle: str) -> None:
        """Have those who wait for a call look for it elsewhere, or in the database."""
        if live := self.live.pop(handle, None):
            live.is_over = True
            live.told()

    async def _log_of(self, handle: str) -> tuple[list[str], bool]:
        """What is on record of a call, and whether it began before."""

        async def look() -> tuple[bool, list[StepInfo]]:
            status = await DBOS.get_workflow_status_async(handle)
            is_again = status is not None and (status.recovery_attempts or 0) > 1
            return is_again, await DBOS.list_workflow_steps_async(handle)

        # In a context of its own: in the workflow's this would be one of its steps.
        is_again, steps = await asyncio.create_task(_surely(look), context=Context())
        for _ in range(max((each["function_id"] for each in steps), default=0)):
            DBOS.reserve_step()  # the next entry comes after these
        # Where the database did not take an entry, there is a step without one.
        return [each["output"] for each in steps if each["output"] is not None], is_again

    async def sweep(self, seconds: float) -> int:
        """Delete calls that ended so long ago, and those as old that nothing here can run; how
        many.
        """
        since = max(0.0, time.time() - seconds)
        old = await DBOS.list_workflows_async(
            name=WORKFLOW,
            end_time=datetime.fromtimestamp(since, UTC).isoformat(),
            load_input=False,
            load_output=False,
        )
        unused = [each.workflow_id for each in old if (each.updated_at or 0) <= since * 1000]
        calls = [call for call in unused if call not in self.live][:SWEEP_LIMIT]
        if calls:
            await DBOS.delete_workflows_async(calls)
        return len(calls)

    async def end(self) -> None:
        """Let go of the calls that wait for a store, and end DBOS."""
        with self._held:
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
        work: The store.
        codec: Seals what is kept; None to leave it readable.
        apart: Marks its calls; see `Process.apart`.
    """

    def __init__(
        self, process: Process, work: DurableStore, codec: RequestStateCodec | None, apart: str
    ) -> None:
        self.work, self.seal = work, Seal(codec)
        self.names = {name + apart for name in work.handlers}
        self._process, self._apart = process, apart

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = self.seal.write(begun, handle)

        async def start() -> None:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(_call, name + self._apart, text)

        self._process.beginning[handle] = self
        try:
            # Who waits for it may stop waiting. It begins anyway.
            await asyncio.shield(asyncio.ensure_future(_surely(start)))
            return await self.visit(handle, -1, Answers({}, begun.caller))
        finally:
            self._process.beginning.pop(handle, None)

    async def visit(self, handle: str, number: int, answers: Answers) -> Reply | Record:
        while isinstance(live := await self._found(handle), Live):
            with suppress(_Left):
                return await live.visit(number, answers)
        return live

    async def look(self, handle: str) -> Record:
        live = await self._found(handle)
        return live.record if isinstance(live, Live) else live

    async def stop(self, handle: str) -> None:
        if isinstance(live := await self._found(handle), Live):
            await live.leave(for_good=True)

    async def _found(self, handle: str) -> Live | Record:
        """A call, as soon as its handler has come here to where it was, or has ended.

        Raises:
            MCPError: There is no such call, or nothing here can run it.
        """
        here = self._process
        while True:
            if live := here.live.get(handle):
                with suppress(_Left):
                    await live.until(lambda live=live: not live.ahead)
                    return live
            status = await _surely(lambda: DBOS.get_workflow_status_async(handle))
            if status is None or status.name != WORKFLOW or not status.input:
                raise refused("unknown_call")
            name, begun = status.input["args"]
            try:
                if status.status == "SUCCESS":
                    return self.seal.read(Record, str(status.output), handle)
                self.seal.read(Begun, begun, handle)
            except Unreadable as error:
                _LOG.warning("%s", error)
                raise refused("unknown_call") from error
            if status.status not in ("PENDING", "ENQUEUED"):
                raise refused("gave_up")
            if here.store_of(name, handle) is None:
                raise refused("other_version")
            await here.bell.until(lambda: handle in here.live, LOOK_SECONDS)


# --- opened and closed --------------------------------------------------------------------------

_process: Process | None = None
_loop: asyncio.AbstractEventLoop | None = None
_changing = anyio.Lock()


@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=RESTARTS)
async def _call(name: str, begun: str) -> str:
    if _process is None or DBOS.workflow_id is None:
        raise asyncio.CancelledError  # the engine is being ended
    return await _process.run(name, DBOS.workflow_id, begun)


@asynccontextmanager
async def process(url: str | None) -> AsyncGenerator[Process]:
    """The engine of this process: launched for the first block that needs it, ended with the last.

    To keep one engine for many servers, one after another, hold a block of your own round them all,
    and give each server the database `process.apart()`.

    Args:
        url: See `Process`. None for the database that this process uses already, if it does.

    Raises:
        WrongDatabase: The engine of this process runs on another database or in another event loop,
            or another process runs on this database.
    """
    global _process, _loop
    loop = asyncio.get_running_loop()
    if _loop not in (None, loop):
        raise WrongDatabase("the engine of this process runs in another event loop")
    async with _changing:
        _loop = loop
        try:
            here = _process = _process or Process(url)
        finally:
            _loop = loop if _process else None
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
                    await here.end()
                    _loop = None


@asynccontextmanager
async def opened(
    url: str | None, work: DurableStore, codec: RequestStateCodec | None
) -> AsyncGenerator[Engine]:
    """The engine of a store on DBOS, for the length of a block; see `DurableStore.serving`."""
    base, mark, apart = (url or "").partition("#")
    async with process(base or None) as here:
        engine = Engine(here, work, codec, mark + apart)
        here.stores.append(engine)
        here.bell.ring()

        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                await _surely(
                    lambda: here.sweep(max(each.work.keep_seconds for each in here.stores))
                )

        sweeping = asyncio.ensure_future(sweep())
        try:
            yield engine
        finally:
            sweeping.cancel()
            here.stores.remove(engine)
            with anyio.CancelScope(shield=True):
                mine = [live for live in here.live.values() if live.store is engine]
                await asyncio.gather(*(live.leave() for live in mine))


def try_url(url: str) -> None:
    """Take a database, and let it go; see `taken`."""
    with taken(url):
        pass


_UNTIL_GONE = "-c lock_timeout=2s -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5"
"""How PostgreSQL soon finds a process gone that held a name; one that has just died is waited
for.
"""


def _name() -> str:
    """Of this process, for DBOS: it runs the calls of its name again."""
    return os.environ.get("MRTR_INSTANCE") or "local"


@contextmanager
def taken(url: str) -> Generator[None]:
    """Have a SQLite file, or a name in a PostgreSQL database, for this process alone: another one
    would run the calls of this one, too.

    Raises:
        WrongDatabase: It cannot be used, or another process has it.
        ValueError: The URL cannot be read.
    """
    path, said = url.removeprefix("sqlite:///"), ""
    with ExitStack() as held:
        try:
            if path == url:
                db = held.enter_context(psycopg.connect(url, autocommit=True, options=_UNTIL_GONE))
                name = f"mrtr-call {_name()}"
                db.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [name])
            else:
                fcntl.flock(held.enter_context(open(path, "ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
                with closing(sqlite3.connect(path)) as file:
                    # Kept in the file: readers do not hold up writers, at a third of the time per
                    # round.
                    file.execute("PRAGMA journal_mode=WAL")
        except psycopg.errors.LockNotAvailable:
            said = (
                f"another process has the name {_name()!r} in it: give each its own MRTR_INSTANCE"
            )
        except BlockingIOError:
            said = f"another process has {url}: a file is for one process; give a fleet temporal://HOST:PORT"
        except psycopg.ProgrammingError as error:
            raise ValueError("this URL cannot be read") from error
        except (OSError, psycopg.Error, sqlite3.Error) as error:
            said = getattr(error, "strerror", "") or f"{error}".splitlines()[0]
        if said:
            raise WrongDatabase(said)
        yield


class _Connection(sqlite3.Connection):
    """Knows the time that DBOS asks for on Python 3.12 and later; SQLite knows it from 3.42 on."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.create_function("unixepoch", 1, self.now)

    @staticmethod
    def now(_: str) -> int:
        """In seconds."""
        return int(time.time())


def _launch(url: str) -> None:
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version="any",  # the name of a handler has its version
        executor_id=_name(),
        log_level="WARNING",
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=THREADS,
        db_engine_kwargs={"connect_args": {"factory": _Connection}}
        if url.startswith("sqlite:")
        else {},
    )
    DBOS(config=config)
    # In the loop's own thread: DBOS runs calls on the loop that it finds here.
    DBOS.launch()
