"""Durable calls on one machine: DBOS in this process, on a SQLite file, as it comes.

DBOS keeps the log of a call: what each step came to, each question and each answer. The rest lives
in the process that runs it, where its rounds find it. When a process died, DBOS runs its calls
again as soon as a process with the same name (`MRTR_INSTANCE`, or "local") starts on the same
database: that is DBOS's promise and the only one here. So a file is for one process at a time, and
a second one is refused.

DBOS allows one engine in a process. Stores in one process, as under test, share it. When a store
closes, its calls wait for the next one that has their handler, and begin again from their log.

Knows DBOS, `context`, `events`, `engine` and `store`; nothing of MCP's requests.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from contextvars import Context
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import anyio
import anyio.to_thread
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer, SetWorkflowID, StepInfo
from mcp.server.request_state import RequestStateCodec
from sqlalchemy.exc import SQLAlchemyError

from mrtr_options.sdk.durable.claim import name_here, taken, try_url
from mrtr_options.sdk.durable.engine import Work, WrongDatabase
from mrtr_options.sdk.durable.events import Answers, Begun, Reply
from mrtr_options.sdk.durable.live import AGAIN_SECONDS, Bell, Left, Live, surely
from mrtr_options.sdk.durable.position import handle_after
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import Seal, Unreadable
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason

__all__ = ["Engine", "Process", "open_engine", "process", "try_url"]

WORKFLOW = "mrtr-call"
SWEEP_SECONDS = 60
"""The pause between two deletions of expired calls."""
SWEEP_LIMIT = 500
"""The most calls that are deleted in one transaction, for which others wait."""
SWEEP_MOST = 20_000
"""The number of deleted calls after which the rest is for the next time."""
DRIFT_SECONDS = 300.0
"""The most that the clock may move between two sweeps, beside the time that has passed."""
LOOK_SECONDS = 1.0
"""The pause between two looks of a round at a call that does not run in this process."""
RESTARTS = 1000
"""The most times that a call begins again after its process died, whatever it was doing."""
_BOUNDED = {"options": "-c statement_timeout=30s -c lock_timeout=10s"}
"""Options by which PostgreSQL ends a statement that waits; DBOS sends it again."""
_OPEN = ("PENDING", "ENQUEUED")
"""DBOS's words for a call that has not ended. Another process may be running it."""
THREADS = 32
"""The most statements that DBOS runs at a time."""

_LOG = logging.getLogger(__name__)

# The host decides where DBOS's warnings go; without a handler DBOS would write to the terminal.
logging.getLogger("dbos").addHandler(logging.NullHandler())
# A process that ends logs this twice for every call that waits in it.
logging.getLogger("dbos").addFilter(
    lambda said: not said.getMessage().startswith("Asyncio task cancelled")
)


class Process:
    """DBOS in this process, the stores that are open, and the calls that run here.

    Args:
        url: `sqlite:///FILE`, or another URL that DBOS takes. None for a temporary file.

    Raises:
        WrongDatabase: See `taken`.
    """

    def __init__(self, url: str | None) -> None:
        self.users = 0
        self.live: dict[str, Live] = {}
        self.stores: list[Engine] = []
        self.beginning: dict[str, Engine] = {}
        self.starts: dict[str, asyncio.Task[None]] = {}
        self.stops: dict[str, asyncio.Task[None]] = {}
        self.bell = Bell()
        self._clock = math.inf  # its time where the monotonic clock was 0, as last seen
        self._tasks: set[asyncio.Task[Any]] = set()
        with ExitStack() as held:
            if url is None:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="mrtr-durable-"))
                url = f"sqlite:///{folder}/calls.sqlite"
            self.url = url
            self.claim = held.enter_context(taken(url))
            _launch(url)
            self._held = held.pop_all()
        loop = asyncio.get_running_loop()
        self.claim.changed = lambda: _call_in(loop, self._claim_changed)
        self._tasks.add(loop.create_task(self._sweep_each_minute()))

    def _claim_changed(self) -> None:
        self.bell.ring()
        if self.claim.is_lost:  # another process runs these calls now
            for task in self._tasks:
                task.cancel()

    async def may_run(self) -> None:
        """Wait until this process has its name in the database.

        Raises:
            MCPError: Another process has it, and runs its calls.
        """
        claim = self.claim
        claim.look()
        await self.bell.until(lambda: claim.is_held or claim.is_lost)
        if claim.is_lost:
            raise refusal(claim.lost_as)

    def apart(self) -> str:
        """Return the database under a new name, whose calls no other store sees."""
        return f"{self.url}#{secrets.token_hex(4)}"

    def store_of(self, name: str, handle: str) -> Engine | None:
        """Return the store that began the call, else the last one with its handler, else None."""
        candidates = [each for each in self.stores if name in each.names]
        first = self.beginning.get(handle)
        if first in candidates:
            return first
        if candidates:
            return candidates[-1]
        return None

    async def run(self, name: str, handle: str, begun: str) -> str:
        """Run a call in its workflow's task, and return its record for DBOS to write.

        DBOS writes the record before that task ends.
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
                live = Live(store, store.handler_of(name), handle, begun, log, is_again)
                self.live[handle] = live
                live.is_stopped = handle in self.stops and not is_again  # it has done nothing
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
        """Wake the requests that wait for a call which is now elsewhere, or over."""
        if live := self.live.pop(handle, None):
            live.is_over = True
            live.notify()

    async def _log_of(self, handle: str) -> tuple[list[str], bool]:
        """Return the log of a call, and whether the call began before."""

        async def look() -> tuple[bool, list[StepInfo]]:
            status = await DBOS.get_workflow_status_async(handle)
            is_again = status is not None and (status.recovery_attempts or 0) > 1
            return is_again, await DBOS.list_workflow_steps_async(handle)

        # In a context of its own: in the workflow's context this would be one of its steps.
        is_again, steps = await asyncio.create_task(surely(look), context=Context())
        for _ in range(max((each["function_id"] for each in steps), default=0)):
            DBOS.reserve_step()  # the next entry comes after these
        # A step whose entry the database did not take has no output.
        return [each["output"] for each in steps if each["output"] is not None], is_again

    async def _sweep_each_minute(self) -> None:
        """Delete old calls once a minute.

        All stores share it: the second of two sweeps at once would trust a clock that has moved.
        """
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            longest = max((each.work.keep_seconds for each in self.stores), default=math.inf)
            await surely(partial(self.sweep, longest))

    async def sweep(self, seconds: float) -> int:
        """Delete calls that ended `seconds` ago, and this process's calls as old that do not run.

        Deletes none at the first sweep, or if the clock was moved since the last one.

        Returns:
            The number of deleted calls.
        """
        now = time.time()
        before, self._clock = self._clock, now - time.monotonic()
        if abs(self._clock - before) > DRIFT_SECONDS:
            return 0
        since = max(0.0, now - seconds)
        old = await DBOS.list_workflows_async(
            name=WORKFLOW,
            end_time=datetime.fromtimestamp(since, UTC).isoformat(),
            sort_desc=True,
            load_input=False,
            load_output=False,
        )
        unused = [
            each.workflow_id
            for each in old
            if (each.updated_at or 0) <= since * 1000
            and each.workflow_id not in self.live
            and (each.status not in _OPEN or each.executor_id == name_here())
        ]
        deleted = 0
        for start in range(0, len(unused), SWEEP_LIMIT):
            calls = await self._unfollowed(unused[start : start + SWEEP_LIMIT])
            if calls:
                await DBOS.delete_workflows_async(calls)
                deleted += len(calls)
            if deleted >= SWEEP_MOST:
                break
        return deleted

    async def _unfollowed(self, calls: Iterable[str]) -> list[str]:
        """Return the calls, newest first, whose name is not used by a later call that stays."""
        after = {call: handle for call in calls if (handle := handle_after(call))}
        stay: set[str] = set()
        if after:
            found = await DBOS.list_workflows_async(
                workflow_ids=[*after.values()], load_input=False, load_output=False
            )
            stay = {each.workflow_id for each in found}
        unfollowed: list[str] = []
        for call in calls:
            if after.get(call) not in stay:
                unfollowed.append(call)
                stay.discard(call)
        return unfollowed

    async def end(self) -> None:
        """Let go of the calls that wait for a store, and end DBOS."""
        with self._held:
            tasks = [*self._tasks, *self.stops.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # In another thread: DBOS waits for its threads, and one may be waiting for this loop.
            await anyio.to_thread.run_sync(DBOS.destroy)
            # DBOS made its own pool the loop's default one, and leaves it there shut down.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


class Engine:
    """The engine of one store: see `engine.Engine`.

    Args:
        process: DBOS.
        work: The store.
        codec: Seals what is kept; None to leave it readable.
        apart: Marks its calls; see `Process.apart`.
    """

    def __init__(
        self, process: Process, work: Work, codec: RequestStateCodec | None, apart: str
    ) -> None:
        self.work = work
        self.seal = Seal(codec)
        self.names = {name + apart for name in work.handlers}
        self._process = process
        self._apart = apart

    def handler_of(self, name: str) -> str:
        """Return the name of a call's handler in the store, without the mark of its calls."""
        return name.removesuffix(self._apart)

    async def may_run(self) -> None:
        """See `Process.may_run`."""
        await self._process.may_run()

    async def begin(self, name: str, handle: str, begun: Begun) -> Reply | Record:
        text = self.seal.write(begun, handle)

        async def start() -> None:
            with SetWorkflowID(handle):
                await DBOS.start_workflow_async(_call, name + self._apart, text)

        await self.may_run()
        self._process.beginning[handle] = self
        try:
            await _once(self._process.starts, handle, partial(surely, start))
            return await self.visit(handle, -1, Answers({}, begun.caller))
        finally:
            self._process.beginning.pop(handle, None)

    async def visit(self, handle: str, number: int, answers: Answers) -> Reply | Record:
        while True:
            live = await self._find_call(handle)
            if not isinstance(live, Live):
                return live
            with suppress(Left):
                return await live.visit(number, answers)

    async def look(self, handle: str) -> Record:
        live = await self._find_call(handle)
        return live.record if isinstance(live, Live) else live

    async def stop(self, handle: str) -> None:
        await _once(self._process.stops, handle, partial(self._stop, handle))

    async def _stop(self, handle: str) -> None:
        if starting := self._process.starts.get(handle):
            await asyncio.wait([starting])  # `run` ends it before its handler begins
        live = await self._find_call(handle)
        if isinstance(live, Live):
            await live.leave(for_good=True)

    async def _find_call(self, handle: str) -> Live | Record:
        """Return a call once its handler has caught up with its log here, or has ended.

        Raises:
            MCPError: There is no such call, or nothing here can run it.
        """
        here = self._process
        while True:
            here.claim.look()
            if here.claim.is_lost:
                raise refusal(here.claim.lost_as)
            if live := here.live.get(handle):
                with suppress(Left):
                    await live.until(lambda live=live: not live.ahead)
                    return live
            status = await surely(lambda: DBOS.get_workflow_status_async(handle))
            if status is None or status.name != WORKFLOW or not status.input:
                raise refusal(Reason.UNKNOWN_CALL)
            name, begun = status.input["args"]
            try:
                if status.status == "SUCCESS":
                    return self.seal.read(Record, str(status.output), handle)
                self.seal.read(Begun, begun, handle)
            except Unreadable as error:
                _LOG.warning("%s", error)
                raise refusal(Reason.UNKNOWN_CALL) from error
            if status.status not in _OPEN:
                raise refusal(Reason.GAVE_UP)
            if here.store_of(name, handle) is None:
                raise refusal(Reason.OTHER_VERSION)
            await here.bell.until(lambda: handle in here.live, LOOK_SECONDS)


async def _once(
    under_way: dict[str, asyncio.Task[None]], handle: str, do: Callable[[], Awaitable[None]]
) -> None:
    """Do something to a call, unless it is under way.

    The one who waits for it may stop waiting. It is done anyway.
    """
    task = under_way.get(handle)
    if task is None:
        task = under_way[handle] = asyncio.ensure_future(do())
        task.add_done_callback(lambda _: under_way.pop(handle))
    await asyncio.shield(task)


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
    """Return the engine of this process.

    The first block that needs it launches it, and the last one ends it. To keep one engine for
    many servers, one after another, hold a block of your own around them all, and give each server
    the database `process.apart()`.

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
async def open_engine(
    url: str | None, work: Work, codec: RequestStateCodec | None
) -> AsyncGenerator[Engine]:
    """Open the engine of a store on DBOS for the length of a block; see `DurableStore.serving`."""
    base, mark, apart = (url or "").partition("#")
    async with process(base or None) as here:
        engine = Engine(here, work, codec, mark + apart)
        here.stores.append(engine)
        here.bell.ring()

        try:
            yield engine
        finally:
            here.stores.remove(engine)
            with anyio.CancelScope(shield=True):
                mine = [live for live in here.live.values() if live.store is engine]
                await asyncio.gather(*(live.leave() for live in mine))


class _Connection(sqlite3.Connection):
    """A connection with `unixepoch`, which DBOS uses from Python 3.12 and SQLite has from 3.42."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.create_function("unixepoch", 1, self.now)

    @staticmethod
    def now(_: str) -> int:
        """Return the time in seconds."""
        return int(time.time())


def _call_in(loop: asyncio.AbstractEventLoop, do: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(do)


def _launch(url: str) -> None:
    """Start DBOS.

    Raises:
        WrongDatabase: It cannot keep calls in this database.
    """
    config = DBOSConfig(
        name="mrtr-options",
        system_database_url=url,
        application_version="any",  # the name of a handler has its version
        executor_id=name_here(),
        log_level="WARNING",
        serializer=DBOSPortableJSONSerializer(),
        max_executor_threads=THREADS,
        db_engine_kwargs={
            "connect_args": {"factory": _Connection} if url.startswith("sqlite:") else _BOUNDED
        },
    )
    DBOS(config=config)
    # In the loop's own thread: DBOS runs calls on the loop that it finds here.
    try:
        DBOS.launch()
    except SQLAlchemyError as error:
        with suppress(Exception):
            DBOS.destroy()
        raise WrongDatabase(f"{error}".splitlines()[0]) from error
