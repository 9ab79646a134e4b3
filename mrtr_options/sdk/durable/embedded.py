"""Durable calls on one machine: DBOS in this process, on a SQLite file, as it comes.

DBOS records each step and each answer. The rest of a call lives in the process that runs it, where its
rounds find it. When a process died, DBOS runs its calls again as soon as a process with the same name
(`MRTR_INSTANCE`, or "local") starts on the same database: that is DBOS's promise and the only one here.
So a file is for one process at a time, and a second one is refused.

DBOS allows one engine in a process. Stores in one process, as under test, share it: the first one
launches it and the last one ends it.

Knows DBOS, `call`, `messages` and `rounds`; nothing of MCP's requests.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import logging
import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from contextvars import Context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from mrtr_options.sdk.durable.call import Record
from mrtr_options.sdk.durable.messages import (
    Answers,
    Begun,
    Output,
    Reply,
    Seal,
    Stepped,
    Stopped,
    Unreadable,
    gave_up,
    other_version,
    unknown_call,
)
from mrtr_options.sdk.durable.rounds import Work, WrongDatabase
from mrtr_options.sdk.durable.shared import Shared

WORKFLOW = "mrtr-call"
QUEUE = "mrtr-again"
QUEUE_SECONDS = 0.1
"""How often DBOS looks for calls that were stopped in this process and are to run again."""
AGAIN_SECONDS = 1
"""How long a call waits to run again that could not be recorded."""
SWEEP_SECONDS = 60
"""How often calls are deleted that need not be kept any longer."""
SWEEP_LIMIT = 500
"""How many of them at a time."""
LOOK_SECONDS = 0.05
"""How often a round looks whether DBOS has begun to run its call."""
CLEANUP_SECONDS = 5.0
"""How long a call that is stopped has for the author's `finally` blocks."""
ATTEMPTS = 4
"""How often a step may end its process before it is given up."""
THREADS = 32
"""How many statements DBOS runs at a time at most."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class _Left(BaseException):
    """Raised in a handler whose call cannot go on in this process: it stays with DBOS as it is."""


# --- one call -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Noted:
    """What is on record of a step, a question or its answers.

    Attributes:
        what: What it came to.
        at: When.
        runs: How often the call had been started by then.
    """

    what: Stepped | Answers | None
    at: float
    runs: int


class Live:
    """A call that runs in this process: what its handler is given, and those who wait for it.

    Args:
        handle, begun: The call, and what it began with.
        work, seal: What its store runs, and how that is kept.
        runs: How often the call has been started.
        recorded: How many steps of it are on record.
    """

    def __init__(
        self, handle: str, begun: Begun, work: Work, seal: Seal, runs: int, recorded: int
    ) -> None:
        self.handle = handle
        self.work = work
        self.record = Record(begun, begun.at)
        self.is_left = self.is_stopped = False
        self._given: dict[int, Answers] = {}
        self._scope = anyio.CancelScope()
        self._seal = seal
        self._runs = runs
        self._runs_noted = 1
        self._to_replay = recorded
        self._changed = asyncio.Event()

    def now(self) -> float:
        return self.work.clock()

    def told(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, is_so: Callable[[], bool]) -> bool:
        """Wait until something is so; False if the call does not run here any more."""
        while not is_so() and not self.is_left:
            await self._changed.wait()
        return is_so()

    async def until_left(self) -> None:
        """Wait until the call does not run here any more."""
        await self.until(lambda: self.is_left)

    async def look(self, number: int = -1) -> Record | None:
        """The call, once its handler has come to where it was, and to an output; None as in `visit`."""
        there = await self.until(lambda: self._to_replay <= 0 and self.record.has_said(number))
        return self.record if there else None

    async def visit(self, number: int, answers: Answers, *, until_taken: bool) -> Reply | None:
        """See `rounds.Engine`; None if the call does not run here any more."""
        if (record := await self.look(number)) is None:
            return None
        while given := record.new(number, answers):
            self._given.setdefault(number, given)
            self.told()
            if not await self.until(lambda: number in record.answers or record.has_said(number + 1)):
                return None
        if until_taken:
            return Reply(number, record.outputs[number])
        answering = record.answering(number)
        return record.reply(number) if await self.until(lambda: record.has_said(answering)) else None

    async def step(self, key: str, run: Callable[[], Awaitable[Stepped]]) -> Stepped:
        async def once() -> Stepped:
            is_fatal = self._runs - self._runs_noted >= ATTEMPTS
            return Stepped(gave_up=True) if is_fatal else await run()

        return await self._noted(key, f"step {key}", once)

    async def asks(self) -> None:
        async def nothing() -> None:
            """What counts is that it is on record, so that a second run is known to have come so far."""

        await self._noted("mrtr.asked", "asked", nothing)

    async def answered(self, seconds: float) -> bool:
        number = self.record.asking

        async def given() -> Answers | None:
            with anyio.move_on_after(seconds):
                await self.until(lambda: number in self._given)
            return self._given.get(number)

        answers = await self._noted("mrtr.answered", f"answer {number}", given)
        if answers is not None:
            self.record.take(number, answers)
            self.told()
        return answers is not None

    async def _noted(self, name: str, place: str, run: Callable[[], Awaitable[T]]) -> T:
        """What this comes to, or came to when the handler ran before."""
        place = f"{self.handle} {place}"

        text, writing = "", anyio.CancelScope()

        async def once() -> str:
            noted = _Noted(cast(Any, await run()), self.now(), self._runs)
            writing.shield = True  # what happened is put on record, though the call is stopped now
            return self._seal.write(noted, place)

        try:
            with writing:
                text = await DBOS.run_step_async({"name": name}, once)
        except Exception as error:
            raise _Left("the call's record cannot be written or read") from error
        finally:
            self._to_replay -= 1
            self.told()
        noted = self._seal.read(_Noted, text, place)
        self.record.updated, self._runs_noted = noted.at, noted.runs
        return cast(T, noted.what)

    async def run(self, name: str) -> str:
        """Run the handler to its end, or to where it is stopped; the call's record.

        Whoever waits for its end reads it there, so that nothing is told that is not on record.
        """
        output: Output | None = None
        try:
            with self._scope:
                output = await self.work.perform(name, self)
        except (Exception, BaseExceptionGroup):
            if not self.is_stopped:  # or else it is of its cleanup: no caller is left to get it
                raise
        if self.is_stopped:
            output = Stopped()
        elif output is None or self._scope.cancel_called:
            raise asyncio.CancelledError  # it goes on elsewhere, whatever its cleanup came to
        outputs = [*self.record.outputs, output]
        return self._seal.write(replace(self.record, outputs=outputs, updated=self.now()), self.handle)

    def stop(self) -> None:
        """End the call for good."""
        self.is_stopped = True
        self._scope.cancel()

    async def leave(self) -> None:
        """Stop the handler, once its cleanup has run; `CLEANUP_SECONDS` at most."""
        self._scope.cancel()
        with anyio.move_on_after(CLEANUP_SECONDS):
            await self.until_left()


# --- the engine of this process -----------------------------------------------------------------


class Process:
    """DBOS in this process, and the calls that run on it.

    Attributes:
        url: Its database.
        version: The version of the code, by which DBOS tells which calls are its own.
        live: The calls that run here.
        works: What open stores run, by the handler's name.
        fresh: The calls that begin and have no record.
        left: The calls that could not go on here and are to run again, with their handlers' names.
    """

    def __init__(self, url: str, version: str) -> None:
        self.url = url
        self.version = version
        self.live: dict[str, Live] = {}
        self.works: dict[str, list[tuple[Work, Seal]]] = {}
        self.fresh: set[str] = set()
        self.left: dict[str, str] = {}

    def apart(self) -> str:
        """The database under a new name: the calls of stores on it are apart from all others."""
        return f"{self.url}#{secrets.token_hex(4)}"

    async def run(self, name: str, handle: str, begun: str) -> str:
        """Run a call in its workflow's task; its record, which DBOS writes before that task ends."""
        live: Live | None = None

        def over(_: object) -> None:
            if live is not None and self.live.get(handle) is live:
                del self.live[handle]
                live.is_left = True
                live.told()

        cast("asyncio.Task[Any]", asyncio.current_task()).add_done_callback(over)
        try:
            # In a context of its own: in the workflow's this would be one of its steps.
            runs, recorded = await asyncio.create_task(self._progress(handle), context=Context())
            if not self.works.get(name):
                raise _Left("no open store has its handler")
            work, seal = self.works[name][-1]
            first = seal.read(Begun, begun, handle)
            live = self.live[handle] = Live(handle, first, work, seal, runs, recorded)
            return await live.run(name.partition("#")[0])
        except (asyncio.CancelledError, _Left, Unreadable, BaseExceptionGroup) as error:
            if not isinstance(error, Unreadable):  # that is for a process that has its keys
                self.left[handle] = name
            if not isinstance(error, asyncio.CancelledError):
                _LOG.warning("call %s cannot go on here: %r", handle, error.__cause__ or error)
            raise asyncio.CancelledError from error  # DBOS leaves the call as it is
        finally:
            self.fresh.discard(handle)

    async def _progress(self, handle: str) -> tuple[int, int]:
        """How often a call has been started, and how many steps of it are on record."""
        if handle in self.fresh:
            return 1, 0
        status = await DBOS.get_workflow_status_async(handle)
        steps = await DBOS.list_workflow_steps_async(handle, load_output=False)
        return (status and status.recovery_attempts) or 1, len(steps)

    @asynccontextmanager
    async def serving(self, work: Work, apart: str) -> AsyncGenerator[Engine]:
        """Run the calls of a store, for the length of a block."""
        seal = Seal(work.codec)
        names = [name + apart for name in work.names]
        for name in names:
            self.works.setdefault(name, []).append((work, seal))
        keeping = asyncio.ensure_future(self._keep(names, work.keep_seconds))
        try:
            yield Engine(self, seal, apart, names)
        finally:
            keeping.cancel()
            for name in names:
                self.works[name].remove((work, seal))
            with anyio.CancelScope(shield=True):
                stays = [live.leave() for live in self.live.values() if live.work is work]
                await asyncio.gather(*stays)

    async def _keep(self, names: list[str], keep_seconds: float) -> None:
        """Run again what was left, and delete what need not be kept any longer."""
        for second in itertools.count():
            try:
                await self.run_again(names)
                while second % SWEEP_SECONDS == 0 and await self.sweep(keep_seconds) == SWEEP_LIMIT:
                    pass
            except SQLAlchemyError as error:
                _LOG.warning("calls were not deleted: %s", str(error).splitlines()[0])
            await asyncio.sleep(AGAIN_SECONDS)

    async def run_again(self, names: list[str]) -> None:
        """Have DBOS run again what was left. Each call once: another store with these names may ask,
        too, and a call that runs again already would be run beside itself."""
        left = {call: name for call, name in self.left.items() if name in names}
        for call in left:
            del self.left[call]

        async def again() -> None:
            try:
                await DBOS.resume_workflows_async([*left], queue_name=QUEUE)
            except Exception as error:
                self.left.update(left)
                _LOG.warning("calls were not run again: %s", str(error).splitlines()[0])

        if left:  # to its end, though the store that asks is closed
            await asyncio.shield(asyncio.ensure_future(again()))

    async def sweep(self, seconds: float) -> int:
        """Delete calls that ended so long ago, and old ones that nothing here can run.

        Returns:
            How many; `SWEEP_LIMIT` at most.
        """
        at_work = {*self.live, *self.left}  # before the look and after it: they may run again meanwhile
        since = time.time() - seconds
        before = datetime.fromtimestamp(since, UTC).isoformat()
        options: dict[str, Any] = {"name": WORKFLOW, "limit": SWEEP_LIMIT, "load_input": False}
        found = await DBOS.list_workflows_async(**options, completed_before=before, load_output=False)
        found += await DBOS.list_workflows_async(
            **options,
            status=["PENDING", "ENQUEUED"],
            end_time=before,
            executor_id=DBOS.executor_id,
            load_output=False,
        )
        old = (each.workflow_id for each in found if (each.updated_at or 0) <= since * 1000)
        at_work |= {*self.live, *self.left}
        calls = [call for call in old if call not in at_work][:SWEEP_LIMIT]
        if calls:
            await DBOS.delete_workflows_async(calls)
        return len(calls)


class Engine:
    """The engine of one store: see `rounds.Engine`."""

    def __init__(self, process: Process, seal: Seal, apart: str, names: list[str]) -> None:
        self._names = names
        self._process = process
        self._seal = seal
        self._apart = apart

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = self._seal.write(begun, handle)
        while handle not in self._process.live:
            try:
                if await DBOS.get_workflow_status_async(handle) is None:
                    self._process.fresh.add(handle)
                with SetWorkflowID(handle):
                    # Who waits for it may stop waiting. It begins anyway.
                    start = DBOS.start_workflow_async(_call, name + self._apart, text)
                    await asyncio.shield(asyncio.ensure_future(start))
                break
            except SQLAlchemyError as error:
                _LOG.warning("call %s has not begun: %s", handle, str(error).splitlines()[0])
            await asyncio.sleep(AGAIN_SECONDS)
        return await self.visit(handle, -1, Answers({}, begun.caller))

    async def visit(
        self, handle: str, number: int, answers: Answers, *, until_taken: bool = False
    ) -> Reply | Record:
        return await self._asked(
            handle, lambda live: live.visit(number, answers, until_taken=until_taken)
        )

    async def look(self, handle: str) -> Record:
        return await self._asked(handle, lambda live: live.look())

    async def stop(self, handle: str) -> None:
        async def stop(live: Live) -> None:
            live.stop()
            await live.until_left()

        await self._asked(handle, stop)

    async def _asked(self, handle: str, ask: Callable[[Live], Awaitable[T | None]]) -> T | Record:
        """What a call answers; what is on record of it once it is over.

        Args:
            handle: The call.
            ask: Asks it where it runs; None if it runs there no more.
        """
        while isinstance(found := await self._found(handle), Live):
            if (said := await ask(found)) is not None:
                return said
        return found

    async def _found(self, handle: str) -> Live | Record:
        """A call, as soon as it runs here or has ended.

        Raises:
            MCPError: There is no such call, or nothing here can run it.
        """
        while True:
            if live := self._process.live.get(handle):
                return live
            try:
                status = await DBOS.get_workflow_status_async(handle)
            except SQLAlchemyError as error:
                _LOG.warning("call %s was not looked up: %s", handle, str(error).splitlines()[0])
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            if status is None or status.name != WORKFLOW or not status.input:
                raise unknown_call()
            name, begun = status.input["args"]
            if not name.endswith(self._apart):
                raise unknown_call()
            try:
                if status.status == "SUCCESS":
                    return self._seal.read(Record, str(status.output), handle)
                first = self._seal.read(Begun, begun, handle)
            except Unreadable as error:
                _LOG.warning("%s", error)
                raise unknown_call() from error
            if status.status == "CANCELLED":
                return Record.stopped(first, (status.updated_at or 0) / 1000)
            if status.status not in ("PENDING", "ENQUEUED"):
                raise gave_up()
            # Its own are not of another version while it is closed.
            is_known = name in self._names or self._process.works.get(name)
            if status.app_version != self._process.version or not is_known:
                raise other_version()
            await asyncio.sleep(LOOK_SECONDS)


# --- DBOS, launched and ended -------------------------------------------------------------------

_process: Shared[Process] = Shared()


@DBOS.workflow(name=WORKFLOW)
async def _call(name: str, begun: str) -> str:  # pyright: ignore[reportUnusedFunction]
    handle = DBOS.workflow_id
    if _process.value is None or handle is None:
        raise asyncio.CancelledError  # the engine is being ended
    return await _process.value.run(name, handle, begun)


@asynccontextmanager
async def process(url: str | None, version: str = "any") -> AsyncGenerator[Process]:
    """The engine of this process: launched for the first block that needs it, ended with the last.

    To keep one engine for many servers, one after another, hold a block of your own round them all, and
    give each server the database `process.apart()`.

    Args:
        url: `sqlite:///FILE`, or what DBOS takes. None for the database that this process uses already,
            or else a temporary file that is deleted with the engine.
        version: The version of the code. Processes of other versions do not run its calls.

    Raises:
        WrongDatabase: The engine of this process runs on another database, or another process does on
            this one.
    """
    async with _process.used(lambda: _launched(url, version)) as here:
        if url not in (None, here.url):
            this, that = _without_password(here.url), _without_password(url)
            raise WrongDatabase(f"the engine of this process runs on {this}, not on {that}")
        yield here


@asynccontextmanager
async def embedded(url: str | None, work: Work) -> AsyncGenerator[Engine]:
    """The engine of a store on DBOS, for the length of a block; see `rounds.opened`."""
    base, mark, apart = (url or "").partition("#")
    async with process(base or None, work.version) as here, here.serving(work, mark + apart) as engine:
        yield engine


@asynccontextmanager
async def _launched(url: str | None, version: str) -> AsyncGenerator[Process]:
    with tempfile.TemporaryDirectory(prefix="mrtr-durable-") as folder, alone(url):
        url = url or f"sqlite:///{folder}/calls.sqlite"
        here = Process(url, version)
        _launch(url, version)
        await DBOS.register_queue_async(QUEUE, polling_interval_sec=QUEUE_SECONDS)
        try:
            yield here
        finally:
            with anyio.CancelScope(shield=True):
                # In another thread: DBOS waits for its threads, and one may be waiting for this loop.
                await anyio.to_thread.run_sync(DBOS.destroy)
            # DBOS made its own pool the loop's default one, and leaves it there shut down.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


@contextmanager
def alone(url: str | None) -> Generator[None]:
    """Have a SQLite file to this process alone: another one would run the calls of this one, too.

    Raises:
        WrongDatabase: Another process has it.
    """
    if url is None or not url.startswith("sqlite:///"):
        yield
        return
    with open(url.removeprefix("sqlite:///"), "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WrongDatabase(
                f"another process has {url}: a file is for one process; give a fleet temporal://HOST:PORT"
            ) from None
        yield


def _without_password(url: str) -> str:
    try:
        return make_url(url).set(query={}).render_as_string()  # libpq takes a password there, too
    except (ArgumentError, ValueError):
        return "a URL that cannot be read"


def _is_of_note(record: logging.LogRecord) -> bool:
    # A process that ends says so of every call that waits in it, twice.
    return not record.getMessage().startswith("Asyncio task cancelled")


def _launch(url: str, version: str) -> None:
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            # Kept in the file: readers then do not hold up writers, at a third of the time per round.
            db.execute("PRAGMA journal_mode=WAL")
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version=version,
        executor_id=os.environ.get("MRTR_INSTANCE") or "local",
        log_level="WARNING",
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=THREADS,
    )
    DBOS(config=config)
    # Where its warnings go is the host's to decide.
    logger = logging.getLogger("dbos")
    logger.handlers = [each for each in logger.handlers if "dbos_console" not in (each.name or "")]
    logger.propagate = True
    logger.addFilter(_is_of_note)
    # In the loop's own thread: DBOS runs calls on the loop that it finds here.
    DBOS.launch()
