"""The client's side of tasks (SEP-2663): `client.call_tool` finishes a call that became a task.

Give `Client(server, extensions=[TasksClient()])` to the SDK and call tools as before. The task is
polled as often as its server asks for. Each of its questions goes once to the callbacks that the
client has anyway, while the polling goes on. If the client of a task went away, `resume` finishes
the task, with nothing but its id.

A client that gives up waiting leaves its task running; `cancel` stops a task.

Knows the SDK's client extensions and the wire types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import ClientSession, MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext

from mrtr_options.sdk.tasks.wire import (
    IDENTIFIER,
    CreateTaskResult,
    Status,
    Task,
    TaskFields,
    TaskParams,
    UpdateTaskParams,
)

ResultT = TypeVar("ResultT", bound=types.Result)

TERMINAL: frozenset[Status] = frozenset({"completed", "failed", "cancelled"})
"""Statuses that never change again."""

POLL_SECONDS = 1.0
"""The interval at which a task is polled, if its server names none."""

AGAIN_SECONDS = 0.1
"""The delay before a request is sent again because the server had no database."""


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    """A request for the status of a task."""

    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(types.Request[UpdateTaskParams, Literal["tasks/update"]]):
    """A request that carries answers to a task's questions."""

    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateTaskParams
    name_param = "taskId"


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    """A request to stop a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class TaskCancelled(Exception):
    """The error of a cancelled task, which `task_id` names."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"the task {task_id} was cancelled")
        self.task_id = task_id


class TasksClient(ClientExtension):
    """The Tasks extension of a client.

    Args:
        on_status: Gets a task when it is created, and whenever its status or its message has
            changed. Store its `task_id` to be able to resume it.
        sleep: Waits for so many seconds.
    """

    identifier = IDENTIFIER

    def __init__(
        self,
        on_status: Callable[[TaskFields], None] = lambda task: None,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._on_status = on_status
        self._sleep = sleep

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreateTaskResult, resolve=self._resolve),)

    async def _resolve(self, created: CreateTaskResult, ctx: ClaimContext) -> types.CallToolResult:
        self._on_status(created)
        return await _Following(ctx.session, created, self._on_status, self._sleep).result()

    async def resume(self, session: ClientSession, task_id: str) -> types.CallToolResult:
        """Finish a task that was created before, perhaps by another process.

        Raises:
            MCPError: The error that the task ended in, or -32602 for an unknown task.
            TaskCancelled: The task was cancelled.
        """
        task = await get_task(session, task_id)
        self._on_status(task)
        return await _Following(session, task, self._on_status, self._sleep).result()


async def get_task(session: ClientSession, task_id: str) -> Task:
    """Return the current status of a task."""
    return await _sent(session, GetTask(params=TaskParams(task_id=task_id)), Task)


async def update_task(
    session: ClientSession, task_id: str, responses: types.InputResponses
) -> types.EmptyResult:
    """Send answers to a task's questions."""
    said = {
        key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, response in responses.items()
    }
    params = UpdateTaskParams(task_id=task_id, input_responses=said)
    return await _sent(session, UpdateTask(params=params), types.EmptyResult)


async def cancel_task(session: ClientSession, task_id: str) -> types.EmptyResult:
    """Stop a task. A finished task stays as it is."""
    return await _sent(session, CancelTask(params=TaskParams(task_id=task_id)), types.EmptyResult)


async def _sent(
    session: ClientSession, request: GetTask | UpdateTask | CancelTask, kind: type[ResultT]
) -> ResultT:
    """Return the response to a request; send it again while the server's database is away."""
    while True:
        try:
            return await session.send_request(request, kind)
        except MCPError as error:
            match error.data:
                case {"reason": "still_at_work"}:
                    pass
                case _:
                    raise
        await anyio.sleep(AGAIN_SECONDS)  # a server may refuse at once; do not flood it


class _Following:
    """A task on its way to its result."""

    def __init__(
        self,
        session: ClientSession,
        task: TaskFields,
        on_status: Callable[[TaskFields], None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._session = session
        self._id = task.task_id
        self._seen = task
        self._on_status = on_status
        self._sleep = sleep
        self._asked: set[str] = set()
        self._failure: Exception | None = None

    async def result(self) -> types.CallToolResult:
        task: Task | None = None
        async with anyio.create_task_group() as users:
            try:
                task = await self._ended(users)
            except Exception as error:
                self._failure = self._failure or error
            users.cancel_scope.cancel()  # the task has ended, so open questions are moot
        if self._failure is not None:
            raise self._failure  # as it is, not in a group
        assert task is not None
        return _outcome(task)

    async def _ended(self, users: TaskGroup) -> Task:
        """Poll until the task has ended, and ask the user its questions."""
        task = self._seen
        while not (isinstance(task, Task) and task.status in TERMINAL):
            if isinstance(task, Task):
                for key, request in (task.input_requests or {}).items():
                    if key not in self._asked:
                        self._asked.add(key)
                        users.start_soon(self._ask, users.cancel_scope, key, request)
            interval = (task.poll_interval_ms or 0) / 1000
            await self._sleep(interval if interval > 0 else POLL_SECONDS)
            task = await self._look()
        return task

    async def _look(self) -> Task:
        task = await get_task(self._session, self._id)
        if (task.status, task.status_message) != (self._seen.status, self._seen.status_message):
            self._on_status(task)
        self._seen = task
        return task

    async def _ask(self, scope: anyio.CancelScope, key: str, request: types.InputRequest) -> None:
        """Ask the user a question, and send the answer to the task."""
        context = ClientRequestContext(session=self._session, request_id=self._id)
        try:
            response = await self._session.dispatch_input_request(context, request)
            if isinstance(response, types.ErrorData):
                raise MCPError.from_error_data(response)
            await update_task(self._session, self._id, {key: response})
        except Exception as error:
            self._failure = error
            scope.cancel()


def _outcome(task: Task) -> types.CallToolResult:
    match task:
        case Task(status="completed"):
            return types.CallToolResult.model_validate(task.result, by_name=False)
        case Task(status="failed", error=types.ErrorData() as error):
            raise MCPError.from_error_data(error)
        case Task(status="failed"):
            raise MCPError(types.INTERNAL_ERROR, "the task failed, and its server does not say why")
        case Task(status="cancelled"):
            raise TaskCancelled(task.task_id)
        case _:
            raise AssertionError(f"not the end of a task: {task}")
