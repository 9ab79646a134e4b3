"""Mutant of K: a question keeps its place when it was answered, so a later answer is taken for the next.

Seen in clients and servers that match answers to questions by their order and not by their keys.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext

from mrtr_options import option_k_task as option_k
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.sdk.tasks.wire import TaskParams, UpdateTaskParams
from mrtr_options.tool.server import build_server, outcome_of


class ByOrder(TaskStore):
    """A store that gives the first answer to the first open question."""

    async def _update(
        self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams
    ) -> types.EmptyResult:
        task = await self._get(ctx, TaskParams.model_validate(params.model_dump(by_alias=True)))
        said = list(params.input_responses.values())
        answers = dict(zip(task.input_requests or {}, said, strict=False))
        return await super()._update(ctx, params.model_copy(update={"input_responses": answers}))


store = ByOrder(outcome_of=outcome_of)

BREAKS = "only-open-keys-count"

server = build_server(
    "weather-k",
    store.task(option_k.call_weather),
    sealed=True,
    resources=[store.serving],
    extensions=[store],
)
