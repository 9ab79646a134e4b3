"""Option K's stand-in, the client's side, against a server that says what it is told to.

The server is a script of `tasks/get` responses, so that no engine and no clock is in it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import Server, ServerRequestContext

from examples.tasks_client import TaskCancelled, TasksClient, cancel_task
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
from tests.sdk.fakes import result, who

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


def done(text: str = "done") -> Task:
    content = result(text).model_dump(by_alias=True, mode="json", exclude_none=True)
    return Task(**fields("completed"), result=content)


@dataclass
class Script:
    """A server with one task, which stands as the script says, and at its end as the last entry."""

    stands: list[Task]
    updates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cancels: int = 0
    looks: int = 0
    refusal: MCPError | None = None
    gone_after: int | None = None
    away: int = 0
    updating: anyio.Event = field(default_factory=anyio.Event)
    may_update: anyio.Event | None = None

    def server(self) -> Server[Any]:
        server = Server[Any]("script", on_list_tools=self._list)
        server.add_request_handler("tools/call", types.CallToolRequestParams, self._call)
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateTaskParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        return server

    async def _list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="tool", input_schema={"type": "object"})])

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> CreateTaskResult:
        return CreateTaskResult(**fields("working"))

    async def _get(self, ctx: Context, params: TaskParams) -> Task:
        assert params.task_id == "t"
        self.looks += 1
        if self.looks <= self.away:
            raise MCPError(types.REQUEST_TIMEOUT, "Send it again.", {"reason": "still_at_work"})
        if self.looks == self.gone_after:
            raise MCPError(types.INVALID_PARAMS, "There is no such task.")
        return self.stands.pop(0) if len(self.stands) > 1 else self.stands[0]

    async def _update(self, ctx: Context, params: UpdateTaskParams) -> types.EmptyResult:
        self.updates.append(params.input_responses)
        self.updating.set()
        if self.may_update is not None:
            await self.may_update.wait()
        if self.refusal is not None:
            raise self.refusal
        return types.EmptyResult(result_type="complete")

    async def _cancel(self, ctx: Context, params: TaskParams) -> types.EmptyResult:
        self.cancels += 1
        return types.EmptyResult(result_type="complete")


@dataclass
class User:
    """Somebody who is asked, and the time that passes for them."""

    asked: list[str] = field(default_factory=list[str])
    statuses: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    slept: list[float] = field(default_factory=list[float])
    hesitates: bool = False
    refuses: types.ErrorData | None = None

    async def __call__(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        self.asked.append(params.message)
        if self.hesitates:
            await anyio.sleep_forever()
        return self.refuses or types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        for _ in range(20):  # the others get on
            await anyio.lowlevel.checkpoint()

    def stood(self, task: TaskFields) -> None:
        self.statuses.append((task.status, task.status_message))

    @property
    def extension(self) -> TasksClient:
        return TasksClient(self.stood, sleep=self.sleep)


@asynccontextmanager
async def connected(
    script: Script, user: User, mode: Literal["legacy", "2026-07-28"] = "2026-07-28"
) -> AsyncGenerator[Client]:
    with anyio.fail_after(SECONDS):
        async with Client(
            script.server(), mode=mode, elicitation_callback=user, extensions=[user.extension]
        ) as client:
            yield client


async def call(script: Script, user: User) -> str:
    async with connected(script, user) as client:
        return said(await client.call_tool("tool", {}))


async def failure(script: Script, user: User, kind: type[Exception], match: str) -> Any:
    # Inside the client: what leaves it comes in a group of the SDK's.
    async with connected(script, user) as client:
        with pytest.raises(kind, match=match) as failed:
            await client.call_tool("tool", {})
    return failed.value


def said(response: types.CallToolResult) -> str:
    (block,) = response.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_call_waits_for_the_result_of_its_task() -> None:
    assert await call(Script([working(), working(), done("at last")]), User()) == "at last"


async def test_each_question_is_asked_once_however_often_it_is_seen() -> None:
    script, user = Script([asks("one")] * 4 + [asks("one", "two")] * 3 + [asks("two"), done()]), User()
    await call(script, user)
    assert user.asked == ["Who is one?", "Who is two?"]
    answer = {"action": "accept", "content": {"name": "Ann"}}
    assert script.updates == [{"one": answer}, {"two": answer}]


async def test_the_task_is_looked_at_while_an_answer_is_under_way() -> None:
    script, user = Script([asks("one")] * 5 + [working("on it"), done()]), User()
    script.may_update = anyio.Event()  # never: the task was settled meanwhile
    assert await call(script, user) == "done"
    assert (user.asked, len(script.updates)) == (["Who is one?"], 1)


async def test_a_user_who_still_thinks_does_not_keep_a_settled_task_waiting() -> None:
    assert await call(Script([asks("one"), working(), done()]), User(hesitates=True)) == "done"


async def test_progress_is_told_when_it_changes() -> None:
    user = User()
    stands = [working(), working("1 of 2"), working("1 of 2"), working("2 of 2"), asks("one"), done()]
    await call(Script(stands), user)
    assert user.statuses == [
        ("working", None),
        ("working", "1 of 2"),
        ("working", "2 of 2"),
        ("input_required", None),
        ("completed", None),
    ]


async def test_the_servers_interval_is_kept() -> None:
    user = User()
    await call(Script([working(poll=500), working(poll=None), done()]), user)
    assert user.slept == [0.25, 0.5, 1.0]


async def test_a_failed_task_raises_its_error() -> None:
    error = types.ErrorData(code=-32000, message="no way", data={"why": "closed"})
    failed = await failure(Script([Task(**fields("failed"), error=error)]), User(), MCPError, "no way")
    assert (failed.code, failed.data) == (-32000, {"why": "closed"})


async def test_a_cancelled_task_raises() -> None:
    script = Script([Task(**fields("cancelled"))])
    assert (await failure(script, User(), TaskCancelled, "t was cancelled")).task_id == "t"


@pytest.mark.parametrize("looks", [1, 3])
async def test_a_task_that_has_expired_raises_that_error_alone(looks: int) -> None:
    user = User(hesitates=True)
    failed = await failure(Script([asks("one")], gone_after=looks), user, MCPError, "no such task")
    assert failed.code == types.INVALID_PARAMS


async def test_a_task_whose_database_is_away_is_looked_at_again() -> None:
    assert await call(Script([done()], away=2), User()) == "done"


async def test_an_answer_that_is_refused_ends_the_call_with_that_error() -> None:
    script = Script([asks("one")], refusal=MCPError(types.INVALID_PARAMS, "does not fit 'one'"))
    await failure(script, User(), MCPError, "does not fit 'one'")
    assert len(script.updates) == 1


async def test_a_callback_that_refuses_to_ask_ends_the_call() -> None:
    user = User(refuses=types.ErrorData(code=types.INVALID_REQUEST, message="not here"))
    script = Script([asks("one")])
    await failure(script, user, MCPError, "not here")
    assert script.updates == []


async def test_a_task_is_finished_by_its_id_after_a_restart() -> None:
    script = Script([asks("one"), asks("one"), done("at last")])
    user = User()
    async with connected(script, user) as client:
        assert said(await user.extension.resume(client.session, "t")) == "at last"
    assert user.asked == ["Who is one?"]
    assert user.statuses == [("input_required", None), ("completed", None)]


async def test_a_task_that_is_settled_already_is_resumed_with_one_look() -> None:
    script, user = Script([done("at last")]), User()
    async with connected(script, user) as client:
        assert said(await user.extension.resume(client.session, "t")) == "at last"
    assert (script.looks, user.slept) == (1, [])


async def test_giving_up_waiting_leaves_the_task_and_cancelling_stops_it() -> None:
    script, user = Script([asks("one")]), User(hesitates=True)
    async with connected(script, user) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "tool")
            while not user.asked:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert script.cancels == 0
        await cancel_task(client.session, "t")
        assert script.cancels == 1


async def test_an_old_server_is_never_told_of_the_extension() -> None:
    seen: list[types.ClientCapabilities | None] = []

    async def plain(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        seen.append(ctx.session.client_capabilities)
        return result("done")

    script, user = Script([]), User()
    server = Server[Any]("old", on_call_tool=plain, on_list_tools=script._list)  # pyright: ignore[reportPrivateUsage]
    with anyio.fail_after(SECONDS):
        async with Client(server, mode="legacy", extensions=[user.extension]) as client:
            assert said(await client.call_tool("tool", {})) == "done"
    (capabilities,) = seen
    assert capabilities is not None
    assert not capabilities.extensions
