"""What a handler of option K gets: L's context, which can also say how far the work is.

Knows `durable` and the records of tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import anyio.lowlevel

from mrtr_options.sdk.durable.context import DeskT, DurableContext, recorded
from mrtr_options.sdk.durable.exchange import TO_CALL
from mrtr_options.sdk.durable.messages import Caller, Output, Seal
from mrtr_options.sdk.tasks.records import Records

SAY_SECONDS = 0.1
"""How often a task's words are written down at most; those in between are lost."""


TASK_TOPIC = f"{TO_CALL}task"
"""Where answers to a task are sent to."""


@dataclass(frozen=True)
class Handed(Output):
    """From here on the call is a task."""


@dataclass(frozen=True)
class Taken(Output):
    """The answers were taken, and the work goes on."""


@dataclass(frozen=True)
class Words:
    """The author's words on how far the work is."""

    text: str


class Settled(BaseException):
    """Raised where a call finds that its task is settled already."""


class TaskContext(DurableContext[DeskT], Generic[DeskT]):
    """A durable handler's context that can say how far the work is."""

    def __init__(
        self,
        lifespan_context: DeskT,
        call: str,
        caller: Caller,
        seal: Seal,
        records: Records,
        live: set[str],
        *,
        idle_seconds: float,
        ttl_ms: int | None,
        now: Callable[[], int],
    ) -> None:
        super().__init__(lifespan_context, call, caller, seal, idle_seconds=idle_seconds)
        self._records = records
        self._live = live
        self._ttl_ms = ttl_ms
        self._now = now
        self._message: str | None = None
        self._writer: asyncio.Task[None] | None = None
        self.is_task = False

    async def status(self, message: str) -> None:
        """Say how far the work is, as often as you like: `statusMessage` of the task.

        The engine records nothing of it, so a handler that runs again says it again. Without a task
        it has no effect.
        """
        self._message = message
        if self.is_task and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write())
        await anyio.lowlevel.checkpoint()  # so that work that only reports can be cancelled

    async def _write(self) -> None:
        written = None
        while self._message is not None and self._message != written:
            written = self._message
            words = self._seal.write(Words(written), f"{self._call} words")
            await self._records.do(Records.say, self._call, words, self._now())
            await asyncio.sleep(SAY_SECONDS)

    async def become_task(self) -> None:
        """Go on as a task, if the client takes them; what was asked so far was asked in rounds.

        For tools that were registered with `asks_first`; the others are tasks from their first line.
        """
        if self.is_task or not self._caller.takes_tasks:
            return
        record = await recorded(
            self._records.do(
                Records.create, self._call, self._caller.principal, self._ttl_ms, self._now()
            )
        )
        if record is None or record.status != "working":
            raise Settled
        if record.ttl is not None:
            self._idle_seconds = record.ttl / 1000
        self.is_task = True
        self._live.add(self._call)
        await super().publish(Handed(self.after))
        self.number += 1
        if self._message is not None:
            await self.status(self._message)

    def topic(self) -> str:
        # One for all questions: an answer sent while another was taken must not be lost.
        return TASK_TOPIC if self.is_task else super().topic()

    async def answered(self) -> None:
        if self.is_task:
            await self.publish(Taken(self.after))

    async def publish(self, output: Output) -> None:
        await super().publish(output)
        if self.is_task:
            await recorded(self._records.do(Records.touch, self._call, self._now()))

    def close(self) -> None:
        """Stop reporting; the task can no longer be cancelled here."""
        self._live.discard(self._call)
        if self._writer is not None:
            self._writer.cancel()
