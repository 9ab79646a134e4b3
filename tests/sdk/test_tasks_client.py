"""Tests of option K's stand-in on the client, against a scripted server.

The script has the `tasks/get` responses, so the tests need no engine and no clock.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import AsyncMock

import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import Server, ServerRequestContext

from examples.tasks_client import TaskCancelled, TasksClient, cancel_task
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.questions import request_for
from mrtr_options.sdk.tasks.wire import (
    CreateTaskResult,
    Status,
    Task,
    TaskFields,
    TaskParams,
    UpdateTaskParams,
)
from tests.bounds import SECONDS
from tests.sdk.fakes import result, until, who
from tests.sending import text_of

pytestmark = pytest.mark.anyio

Context = ServerRequestContext[Any, Any]


def fields(status: Status, message: str | None = None, poll: int | None = 250) -> dict[str, Any]:
    return {
        "task_id": "t",
        "status": status,
        "status_message": message,
        "created_at": "2026-07-28T00:00:00+00:00",
        "last_updated_at": "2026-07-28T00:00:00+00:00",
        "ttl_ms": None,
        "poll_interval_ms": poll,
    }


def working(message: str | None = None, poll: int | None = 250) -> Task:
    return Task(**fields("working", message, poll))


def asks(*keys: str) -> Task:
    requests: types.InputRequests = {key: request_for(who(key)) for key in keys}
    return Task(**fields("input_required"), input_requests=requests)


def done() -> Task:
    content = result("done").model_dump(by_alias=True, mode="json", exclude_none=True)
    return Task(**fields("completed"), result=content)


@dataclass
class World:
    """A server with one task, and the user of its client.

    Attributes:
        stands: The task at every poll; the last entry is repeated.
        away: The number of polls that find no database.
        gone_after: The poll that finds the task gone.
        refusal: The error that refuses an answer.
        takes_updates: Whether the server responds to an answer.
        hesitates: Whether the user does not answer.
        refuses: The error with which the user's client refuses a question.
    """

    stands: list[Task]
    away: int = 0
    gone_after: int | None = None
    refusal: MCPError | None = None
    takes_updates: bool = True
    hesitates: bool = False
    refuses: types.ErrorData | None = None
    looks: int = 0
    cancels: int = 0
    updates: list[JsonObject] = field(default_factory=list[JsonObject])
    asked: list[str] = field(default_factory=list[str])
    statuses: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    slept: list[float] = field(default_factory=list[float])
    declared: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.extension = TasksClient(self._stood, sleep=self._sleep)

    @asynccontextmanager
    async def connected(
        self, mode: Literal["legacy", "2026-07-28"] = "2026-07-28"
    ) -> AsyncGenerator[Client]:
        tools = [types.Tool(name="tool", input_schema={"type": "object"})]
        listed = AsyncMock(return_value=types.ListToolsResult(tools=tools))
        server = Server[Any]("script", on_list_tools=listed)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        with anyio.fail_after(SECONDS):
            async with Client(
                server, mode=mode, elicitation_callback=self._user, extensions=[self.extension]
            ) as client:
                yield client

    async def call(self) -> str:
        """Play a call and return its text, or its error as a text."""
        async with self.connected() as client:
            try:
                return text_of(await client.call_tool("tool", {}))
            except MCPError as error:
                return f"{error.code} {error.message} {error.data}"
            except TaskCancelled as error:
                return str(error)

    async def _call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> CreateTaskResult | types.CallToolResult:
        declared = ctx.session.client_capabilities
        self.declared.append(declared and declared.extensions)
        return CreateTaskResult(**fields("working")) if self.stands else result("done")

    async def _get(self, ctx: Context, params: TaskParams) -> Task:
        assert params.task_id == "t"
        self.looks += 1
        if self.looks <= self.away:
            raise MCPError(types.REQUEST_TIMEOUT, "Send it again.", {"reason": "still_at_work"})
        if self.looks == self.gone_after:
            raise MCPError(types.INVALID_PARAMS, "no such task")
        return self.stands.pop(0) if len(self.stands) > 1 else self.stands[0]

    async def _update(self, ctx: Context, params: UpdateTaskParams) -> types.EmptyResult:
        self.updates.append(params.input_responses)
        if not self.takes_updates:
            await anyio.sleep_forever()
        if self.refusal is not None:
            raise self.refusal
        return types.EmptyResult(result_type="complete")

    async def _cancel(self, ctx: Context, params: TaskParams) -> types.EmptyResult:
        self.cancels += 1
        return types.EmptyResult(result_type="complete")

    async def _user(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params.message)
        if self.hesitates:
            await anyio.sleep_forever()
        return self.refuses or types.ElicitResult(action="accept", content={"name": "Ann"})

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        for _ in range(20):  # let other tasks run
            await anyio.lowlevel.checkpoint()

    def _stood(self, task: TaskFields) -> None:
        self.statuses.append((task.status, task.status_message))


FAILED = Task(**fields("failed"), error=types.ErrorData(code=-7, message="no way", data="why"))
NO_REASON = "-32603 the task failed, and its server does not say why None"
NOT_HERE = types.ErrorData(code=-7, message="not here")
BAD = MCPError(types.INVALID_PARAMS, "does not fit 'one'")
CASES: dict[str, tuple[list[Task], dict[str, Any], str, int]] = {
    "it takes a while": ([working(), working(), done()], {}, "done", 0),
    "its database is away": ([done()], {"away": 2}, "done", 0),
    "an answer travels": (
        [asks("one")] * 5 + [working(), done()],
        {"takes_updates": False},
        "done",
        1,
    ),
    "the user still thinks": ([asks("one"), working(), done()], {"hesitates": True}, "done", 0),
    "it fails": ([FAILED], {}, "-7 no way why", 0),
    "it does not say why": ([Task(**fields("failed"))], {}, NO_REASON, 0),
    "it is cancelled": ([Task(**fields("cancelled"))], {}, "the task t was cancelled", 0),
    "it has expired": ([asks("one")], {"gone_after": 1}, "-32602 no such task None", 0),
    "it expires": (
        [asks("one")],
        {"gone_after": 3, "hesitates": True},
        "-32602 no such task None",
        0,
    ),
    "an answer is refused": ([asks("one")], {"refusal": BAD}, "-32602 does not fit 'one' None", 1),
    "the client cannot ask": ([asks("one")], {"refuses": NOT_HERE}, "-7 not here None", 0),
}
"""The task at every poll, the other fields of its `World`, the end of its call, and the number of
answers that the server got.
"""


@pytest.mark.parametrize("name", CASES)
async def test_a_call_ends_as_its_task_does(name: str) -> None:
    stands, beside, ends, sent = CASES[name]
    world = World([*stands], **beside)
    assert await world.call() == ends
    assert len(world.updates) == sent


async def test_each_question_is_asked_once_however_often_it_is_seen() -> None:
    world = World([asks("one")] * 4 + [asks("one", "two")] * 3 + [asks("two"), done()])
    await world.call()
    assert world.asked == ["Who is one?", "Who is two?"]
    answer = {"action": "accept", "content": {"name": "Ann"}}
    assert world.updates == [{"one": answer}, {"two": answer}]


async def test_progress_is_told_when_it_changes_and_the_servers_interval_is_kept() -> None:
    slow = working("1 of 2", poll=500)
    world = World([working(), slow, slow, working("2 of 2", poll=0), asks("one"), done()])
    await world.call()
    assert world.statuses == [
        ("working", None),
        ("working", "1 of 2"),
        ("working", "2 of 2"),
        ("input_required", None),
        ("completed", None),
    ]
    assert world.slept == [0.25, 0.25, 0.5, 0.5, 1.0, 0.25]


@pytest.mark.parametrize("looks", [3, 1])
async def test_a_task_is_finished_by_its_id_after_a_restart(looks: int) -> None:
    world = World([asks("one"), asks("one"), done()][-looks:])
    async with world.connected() as client:
        assert text_of(await world.extension.resume(client.session, "t")) == "done"
    completed = ("completed", None)
    if looks > 1:
        assert world.asked == ["Who is one?"]
        assert world.statuses == [("input_required", None), completed]
    else:
        assert world.asked == []
        assert world.statuses == [completed]
    assert world.looks == looks
    assert len(world.slept) == looks - 1


async def test_giving_up_waiting_leaves_the_task_and_cancelling_stops_it() -> None:
    world = World([asks("one")], hesitates=True)
    async with world.connected() as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "tool")
            await until(lambda: bool(world.asked))
            group.cancel_scope.cancel()
        assert world.cancels == 0
        await cancel_task(client.session, "t")
        assert world.cancels == 1


async def test_an_old_server_is_never_told_of_the_extension() -> None:
    world = World([])
    async with world.connected("legacy") as old, world.connected() as client:
        _ = await old.call_tool("tool", {}), await client.call_tool("tool", {})
    assert [bool(told) for told in world.declared] == [False, True]
