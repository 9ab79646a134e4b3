"""Mutant of K: whoever knows a task's id may look at it, answer it and stop it.

Seen where an id that cannot be guessed is taken for a permission; ids end up in logs.
"""

from __future__ import annotations

from typing import Any

from mcp.server import ServerRequestContext

from mrtr_options import option_k_task as option_k
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.sdk.tasks.records import Record, Records
from mrtr_options.tool.server import build_server, outcome_of


class Open(TaskStore):
    """A store that does not ask who is calling."""

    async def _found(self, ctx: ServerRequestContext[Any, Any], task: str) -> Record:
        record = await self.records.do(Records.get, task)
        return record or await super()._found(ctx, task)


store = Open(outcome_of=outcome_of)

BREAKS = "a-task-is-its-principals"

server = build_server(
    "weather-k",
    store.task(option_k.call_weather),
    sealed=True,
    resources=[store.serving],
    extensions=[store],
)
