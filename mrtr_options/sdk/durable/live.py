"""A call that runs in this process, on DBOS: its log, its handler, and those who wait for it.

Knows DBOS's steps, `context` and `events`; nothing of stores that open and close.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast

import anyio
from dbos import DBOS
from sqlalchemy.exc import (
    DisconnectionError,
    InterfaceError,
    InternalError,
    OperationalError,
    TimeoutError,
)

from mrtr_options.sdk.durable.context import ATTEMPTS, Running
from mrtr_options.sdk.durable.engine import Work
from mrtr_options.sdk.durable.events import Answers, Begun, Output, Run, Stepped
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import Seal

AGAIN_SECONDS = 0.1
"""The delay before a failed database write is retried, and before an interrupted call goes on."""
CLEANUP_SECONDS = 5.0
"""The time that the author's `finally` blocks get in a call that is stopped."""
REPEAT_SECONDS = 1.0
"""The time in which a handler that runs again has to repeat what is on record."""

T = TypeVar("T")

_TASK = "task"
_LOG = logging.getLogger(__name__)
_PASSING = DisconnectionError, InterfaceError, InternalError, OperationalError, TimeoutError
"""The errors of a database that may take the same statement later."""


class Host(Protocol):
    """The part of its store's engine that a live call uses."""

    work: Work
    seal: Seal

    async def may_run(self) -> None:
        """Wait until this process may do effects; see `claim`."""
        ...


async def surely(do: Callable[[], Awaitable[T]]) -> T:
    """Run a database operation until it succeeds or fails for good."""
    while True:
        try:
            return await do()
        except _PASSING as error:
            _LOG.warning("the database is tried again: %s", str(error).splitlines()[0])
        await asyncio.sleep(AGAIN_SECONDS)


class Bell:
    """A bell that wakes those who wait for a condition."""

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
    """An entry of a call's log: its subject, its time, and its outcome."""

    of: str
    at: float
    what: Stepped | Answers | None = None


class Left(Exception):
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
        is_stopped: Whether it is to end without a result.
        is_over: Whether it does not run here any more.
    """

    def __init__(
        self, store: Host, name: str, handle: str, begun: str, log: list[str], is_again: bool
    ) -> None:
        self.store = store
        self.handle = handle
        first = store.seal.read(Begun, begun, handle)
        self.record = Record(first, first.at)
        entries = [store.seal.read(_Entry, text, handle) for text in log]
        self.ahead = {each.of: each for each in entries if not each.of.startswith("again ")}
        self.is_stopped = False
        self.is_over = False
        self._attempts = Counter(each.of for each in entries)
        self._name = name
        self._log = log
        self._is_again = is_again
        self._begun_before: set[str] = set()
        self._given: dict[int, Answers] = {}
        if store.work.begins_as_task(self._name, first):  # it needs no entry in the log
            self.ahead[_TASK] = _Entry(_TASK, first.at)
        self._bell = Bell()
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[object] | None = None

    def notify(self) -> None:
        self._bell.ring()

    def now(self) -> float:
        return self.store.work.clock()

    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        await self._bell.until(lambda: is_so() or self.is_over, seconds)
        if self.is_over:
            raise Left
        return is_so()

    async def step(self, key: str, run: Run, *, is_wait: bool = False) -> Stepped:
        of = f"step {key}"
        again = f"again {key}"
        entry = self._take_recorded(of)
        if entry is not None:
            return cast(Stepped, entry.what)
        if not await self._goes_on():  # no effect of a handler that does something else
            return Stepped(gave_up=True)
        if self._is_again and not is_wait:  # it may have ended its process
            if self._attempts[again] >= ATTEMPTS - 1:
                return Stepped(gave_up=True)
            await self._append("mrtr.again", again)
            self._begun_before.add(key)
        await self.store.may_run()
        stepped = await run()
        await self._append(key, of, stepped)
        return stepped

    async def record_asking(self) -> bool:
        # A round that comes after a restart waits until the handler is back at its question.
        number = len(self.record.outputs)
        of = f"question {number}"
        # It is taken first: `_goes_on` waits until nothing is ahead.
        is_new = self._take_recorded(of) is None
        goes_on = f"answer {number}" in self.ahead or await self._goes_on()
        if goes_on and is_new:
            await self._append("mrtr.asked", of)
        return goes_on

    async def record_handover(self) -> None:
        # While this is still ahead, a request about the task waits: see `Engine._found`.
        if self._take_recorded(_TASK) is None:
            await self._append("mrtr.task", _TASK)

    async def wait_for_answers(self, number: int, seconds: float) -> bool:
        of = f"answer {number}"
        entry = self._take_recorded(of)
        if entry is not None:
            answers = cast(Answers, entry.what)
        elif await self.until(lambda: number in self._given, seconds):
            answers = self._given[number]
            await self._append("mrtr.answered", of, answers)
        else:
            return False
        self.record.take(number, answers)
        self.notify()
        return True

    async def take_answers(self, number: int, answers: Answers) -> None:
        self._given.setdefault(number, answers)
        self.notify()
        record = self.record
        await self.until(lambda: number in record.answers or number + 1 < len(record.outputs))

    async def _goes_on(self) -> bool:
        """Return whether the handler has repeated all that it did when it ran before."""
        return await self.until(lambda: not self.ahead, REPEAT_SECONDS)

    def _take_recorded(self, of: str) -> _Entry | None:
        """Remove and return an entry that was made when the handler ran before; None if none was.

        What waits for the handler to have repeated everything is notified.
        """
        entry = self.ahead.pop(of, None)
        if entry is not None:
            self.record.updated = entry.at
            self.notify()
        return entry

    async def _append(self, name: str, of: str, what: Stepped | Answers | None = None) -> None:
        entry = _Entry(of, self.now(), what)
        text = self.store.seal.write(entry, self.handle)

        async def step() -> str:
            return text

        # What happened is put on record, though the call is stopped.
        with anyio.CancelScope(shield=True):
            await surely(lambda: DBOS.run_step_async({"name": name}, step))
        self._log.append(text)
        self._is_again = False
        self.record.updated = entry.at

    def may_have_begun(self, key: str) -> bool:
        return key in self._begun_before

    def is_stopping(self) -> bool:
        """Return whether the process ends, or its store closes.

        All else that stops the handler is the author's doing.
        """
        ends = self._task is not None and self._task.cancelling() > 0
        return ends or self._scope.cancel_called

    async def run(self) -> str | None:
        """Run the handler; the call's record, or None where it was stopped in the middle."""
        self._task = asyncio.current_task()
        # In a task of its own: a handler that cancels its task does not end the workflow.
        performing = asyncio.ensure_future(self._performed())
        try:
            await asyncio.wait([performing])
        except asyncio.CancelledError:  # the process ends
            performing.cancel()
            await asyncio.wait([performing])
            if not performing.cancelled():
                performing.exception()  # it counts as seen
            raise
        output = performing.result()
        if self.is_stopped:
            output = self.record.ended(None)
        elif output is None or self._scope.cancel_called:
            return None
        record = replace(self.record, outputs=[*self.record.outputs, output], updated=self.now())
        return self.store.seal.write(record, self.handle)

    async def _performed(self) -> Output | None:
        if self.is_stopped:
            return None
        try:
            with self._scope:
                return await self.store.work.perform(self._name, self)
        except (asyncio.CancelledError, BaseExceptionGroup):
            if self._task is not None and self._task.cancelling():
                raise
        return None

    async def leave(self, *, for_good: bool = False) -> None:
        """Stop the handler, once its cleanup has run."""
        self.is_stopped |= for_good
        self._scope.cancel()
        await self._bell.until(lambda: self.is_over, CLEANUP_SECONDS)
