"""The Tasks extension on the wire: what server and client send each other (SEP-2663, final).

Types and nothing else. Times are ISO 8601 with their offset, durations whole milliseconds.
"""

from __future__ import annotations

from typing import Literal

import mcp_types as types
from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from mrtr_options.sdk.handler import JsonObject

IDENTIFIER = "io.modelcontextprotocol/tasks"

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskFields(types.Result):
    """The fields of every description of a task.

    Attributes:
        task_id: Its name, opaque to the client.
        status: How far it is.
        status_message: The author's own words on that.
        created_at, last_updated_at: When, by the server's clock.
        ttl_ms: How long after its creation it is kept at least; None for ever.
        poll_interval_ms: How long a client should wait between two looks.
    """

    task_id: str
    status: Status
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None

    @model_serializer(mode="wrap")
    def _with_ttl(
        self, serialize: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> JsonObject:
        # The SDK leaves out what is None on the wire, and here None says something.
        return {**serialize(self), "ttlMs" if info.by_alias else "ttl_ms": self.ttl_ms}


class CreateTaskResult(TaskFields):
    """The answer to a `tools/call` whose work goes on as a task."""

    result_type: Literal["task"] = "task"


class Task(TaskFields):
    """The answer to `tasks/get`.

    Attributes:
        input_requests: Every question that is open (`input_required`).
        result: What the tool returned, an error of its own included (`completed`).
        error: The JSON-RPC error that the call ended in (`failed`).
    """

    result_type: Literal["complete"] = "complete"
    input_requests: types.InputRequests | None = None
    result: JsonObject | None = None
    error: types.ErrorData | None = None


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """The parameters of `tasks/update`.

    Attributes:
        input_responses: Answers by question. Those to no open question are not looked at, so what
            they are is not known here.
    """

    input_responses: JsonObject = Field(default_factory=JsonObject)
