"""What a handler of option K gets: L's context, which can also say how far the work is.

Knows `durable`.
"""

from __future__ import annotations

from typing import Generic

import anyio
import anyio.lowlevel

from mrtr_options.sdk.durable.call import DeskT, DurableContext, Running
from mrtr_options.sdk.durable.messages import Handed


class TaskContext(DurableContext[DeskT], Generic[DeskT]):
    """A durable handler's context that can say how far the work is."""

    def __init__(
        self,
        lifespan_context: DeskT,
        running: Running,
        *,
        idle_seconds: float,
        scope: anyio.CancelScope,
    ) -> None:
        super().__init__(lifespan_context, running, idle_seconds=idle_seconds)
        self._scope = scope

    async def status(self, message: str) -> None:
        """Say how far the work is, as often as you like: `statusMessage` of the task.

        Nothing of it is recorded, so a handler that runs again says it again. Without a task it has no
        effect.
        """
        self._record.words = message
        await anyio.lowlevel.checkpoint()  # so that work that only reports can be cancelled

    async def become_task(self) -> None:
        """Go on as a task, if the client takes them; what was asked so far was asked in rounds.

        For tools that were registered with `asks_first`; the others are tasks from their first line.
        """
        record = self._record
        if record.task_at is not None or not record.caller.takes_tasks:
            return
        record.outputs.append(Handed(record.updated))
        if (ttl_ms := record.begun.ttl_ms) is not None:
            self._idle_seconds = ttl_ms / 1000
            left = record.updated + self._idle_seconds - self._running.now()
            self._scope.deadline = anyio.current_time() + left
        self._running.told()
