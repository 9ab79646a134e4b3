"""Mutant of K: whoever comes last settles a task, so a cancellation overwrites a result.

Seen in stores that write a status without looking at the one that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import ServerRequestContext
from sqlalchemy import text

from mrtr_options import option_k_task as option_k
from mrtr_options.sdk.durable import Engine
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.sdk.tasks.records import Records, RecordStatus
from mrtr_options.sdk.tasks.wire import TaskParams
from mrtr_options.tool.server import build_server, outcome_of

T = TypeVar("T")

_FINISH = text("UPDATE mrtr_tasks SET status = :status, outcome = :outcome WHERE id = :id")


class Overwritten(Records):
    """Records that may be settled again."""

    async def do(self, method: Callable[..., T], *args: Any) -> T:
        """Call a method, one of them another."""
        chosen: Any = Overwritten.finish if method is Records.finish else method
        return await super().do(chosen, *args)

    def finish(self, task: str, status: RecordStatus, outcome: str | None, now: int) -> bool:
        """Settle a task, whether or not it is settled."""
        return self._run(_FINISH, id=task, status=status, outcome=outcome) == 1


class LastOneWins(TaskStore):
    """A store that cancels whatever there is."""

    async def open_beside(self, engine: Engine, beside: AsyncExitStack) -> None:
        """Open the records, as ones that may be settled again."""
        await super().open_beside(engine, beside)
        self.records.__class__ = Overwritten

    async def _cancel(
        self, ctx: ServerRequestContext[Any, Any], params: TaskParams
    ) -> types.EmptyResult:
        await self.stop(params.task_id)
        return types.EmptyResult(result_type="complete")


store = LastOneWins(outcome_of=outcome_of)

BREAKS = "a-finished-task-stays-finished"

server = build_server(
    "weather-k",
    store.task(option_k.call_weather),
    sealed=True,
    resources=[store.serving],
    extensions=[store],
)
