"""The client's side of the Tasks extension (SEP-2663), as far as option K's demo needs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

from mrtr_options.demo.call import Call, converse
from mrtr_options.sdk.tasks.wire import (
    IDENTIFIER,
    CreateTaskResult,
    Status,
    Task,
    TaskParams,
    UpdateTaskParams,
)

ENDED: tuple[Status, ...] = ("completed", "failed", "cancelled")
POLL_SECONDS = 0.05
"""The time between two looks in memory, in seconds. A remote client keeps to `poll_interval_ms`."""


MAX_LOOKS = 100_000
"""The most looks at one task: its user may think for more than an hour."""


class _OfTask(types.Request[Any, str]):
    name_param = "taskId"


class _TaskClient(ClientExtension):
    identifier = IDENTIFIER

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreateTaskResult, resolve=_not_resolved),)


async def _not_resolved(created: CreateTaskResult, ctx: ClaimContext) -> NoReturn:
    raise NotImplementedError("the demo calls `session.call_tool(..., allow_claimed=True)`")


@dataclass
class TaskCall(Call):
    """One call of a client that takes tasks."""

    extensions: Sequence[ClientExtension] = (_TaskClient(),)

    async def receive(self, response: types.Result) -> None:
        """Follow a task to its end; show any other response."""
        if not isinstance(response, CreateTaskResult):
            await super().receive(response)
            return
        self.outcome.takes_tasks = True
        self.tell("response", f"task {response.status}", label="a task")
        await self._follow(response)

    async def _follow(self, created: CreateTaskResult) -> None:
        """Look at a task until it ends, and answer its questions."""
        answered: set[str] = set()
        shown = ""

        async def send(answers: types.InputResponses | None) -> Task:
            if answers:
                await self._update(created.task_id, answers)
            if answers is not None:
                await anyio.sleep(POLL_SECONDS)
            return await self._look(created.task_id)

        async def following(_: object, task: Task) -> types.InputResponses | None:
            nonlocal shown
            await self.tell_effects()
            if task.status in ENDED:
                self._end_with_task(task)
                return None
            message = task.status_message
            words = task.status if message is None else f"{task.status}: {message}"
            if words != shown:
                self.tell("task", words, label=words)
                shown = words
            requests = task.input_requests or {}
            new = {key: request for key, request in requests.items() if key not in answered}
            answered.update(new)
            return await self.answers_to(new)

        _, last = await converse(None, send, following, MAX_LOOKS)
        if last.status not in ENDED:
            raise RuntimeError(f"the task has not ended after {MAX_LOOKS} looks")

    def _end_with_task(self, task: Task) -> None:
        if task.result is not None:
            self.end_with(types.CallToolResult.model_validate(task.result))
        elif task.error is not None:
            self.end(task.error.message, code=task.error.code)
        else:
            self.end(f"task {task.status}")

    async def _look(self, task_id: str) -> Task:
        request = _OfTask(method="tasks/get", params=TaskParams(task_id=task_id))
        return await self.client.session.send_request(request, Task)

    async def _update(self, task_id: str, answers: types.InputResponses) -> None:
        content = {
            key: answer.model_dump(by_alias=True, exclude_none=True)
            for key, answer in answers.items()
        }
        params = UpdateTaskParams(task_id=task_id, input_responses=content)
        request = _OfTask(method="tasks/update", params=params)
        await self.client.session.send_request(request, types.EmptyResult)
