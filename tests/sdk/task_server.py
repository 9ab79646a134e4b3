"""A server of one task, handlers for it, and a client that sends its requests one by one."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, advertise
from mcp.server import Server, ServerRequestContext
from pydantic import RootModel

from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.server import add_extension
from mrtr_options.sdk.tasks import CallParams, TaskContext, TaskHandler, TaskStore
from mrtr_options.sdk.tasks.wire import IDENTIFIER
from tests.bounds import SECONDS
from tests.sdk.fakes import asking, never, result, who

TERMINAL = ("completed", "failed", "cancelled")
POLL_SECONDS = 0.01
"""The pause between two polls; without it, a client would keep the server busy."""
Ctx = TaskContext[Any]
Task = JsonObject
FIELDS = {"resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"}
"""The fields of the response that creates a task."""
UNDECLARED = types.MISSING_REQUIRED_CLIENT_CAPABILITY
NEEDED: JsonObject = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}


@dataclass
class World:
    effects: list[str] = field(default_factory=list[str])
    began: anyio.Event = field(default_factory=anyio.Event)
    may_end: anyio.Event = field(default_factory=anyio.Event)

    async def do(self, effect: str) -> None:
        self.effects.append(effect)


COUPLE: TaskHandler[Any] = asking("one", "two")


async def asks_first(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    world: World = ctx.lifespan_context
    one = await ctx.elicit(who("one"))
    await ctx.become_task()
    await ctx.step("last", lambda key: world.do("last"))
    two = await ctx.elicit(who("two"))
    return result(f"{one.name} and {two.name}")


async def slow(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    world: World = ctx.lifespan_context
    world.began.set()
    try:
        await world.may_end.wait()
    finally:
        world.effects.append("ended")
    return result("done")


@dataclass
class Taker:
    client: Client

    async def send(self, method: str, **params: Any) -> JsonObject:
        request = types.Request[JsonObject, str](method=method, params=params)
        return (await self.client.session.send_request(request, RootModel[JsonObject])).root

    async def call(self, **params: Any) -> JsonObject:
        return await self.send("tools/call", name="tool", arguments={"x": 1}, **params)

    async def get(self, task: Task) -> Task:
        return await self.send("tasks/get", taskId=task["taskId"])

    async def update(self, task: Task, responses: JsonObject) -> JsonObject:
        return await self.send("tasks/update", taskId=task["taskId"], inputResponses=responses)

    async def cancel(self, task: Task) -> JsonObject:
        return await self.send("tasks/cancel", taskId=task["taskId"])

    async def until(self, task: Task, *statuses: str, asked: str | None = None) -> Task:
        """Poll until a task has one of these statuses, and asks this question."""
        while True:
            task = await self.get(task)
            if task["status"] in statuses and (asked is None or asked in task["inputRequests"]):
                return task
            assert task["status"] not in TERMINAL, task
            await anyio.sleep(POLL_SECONDS)

    async def answer(self, task: Task, key: str, name: str) -> None:
        """Answer a question as soon as it is asked."""
        await self.update(await self.until(task, "input_required", asked=key), {key: named(name)})

    async def is_refused(self, code: int, method: str, **params: Any) -> Any:
        """Send a request that is refused with this code, and return the error's data."""
        with pytest.raises(MCPError) as refused:
            await self.send(method, **params)
        assert refused.value.code == code
        return refused.value.data


@dataclass
class Served:
    store: TaskStore
    server: Server[Any]

    @asynccontextmanager
    async def taker(
        self,
        *,
        takes: bool = True,
        forms: bool = True,
        sampling: bool = False,
        mode: str = "2026-07-28",
    ) -> AsyncGenerator[Taker]:
        extensions: list[ClientExtension] = [advertise(IDENTIFIER)] if takes else []
        client = Client(
            self.server,
            mode=mode,
            elicitation_callback=never if forms else None,
            sampling_callback=never if sampling else None,
            extensions=extensions,
        )
        async with client:
            yield Taker(client)


@asynccontextmanager
async def served(
    url: str | None,
    world: object = None,
    handler: TaskHandler[Any] = COUPLE,
    *,
    how: Mapping[str, Any] = {},
    **options: Any,
) -> AsyncGenerator[Served]:
    """Serve one tool for a bounded time; `how` has options of `store.task`."""
    serving = {each: options.pop(each) for each in ("clock", "principal") if each in options}
    usual: dict[str, Any] = {"version": "1", "wait_seconds": SECONDS}
    store = TaskStore(**usual | options)
    call = store.task(handler, **how)
    store.task(handler, asks_first=not how.get("asks_first"))  # this must change nothing

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name="tool", input_schema={"type": "object"})]
        )

    server = Server[Any]("tasks", on_call_tool=call, on_list_tools=list_tools)
    add_extension(server, store)
    with anyio.fail_after(SECONDS):
        async with store.serving(world, database=url, **serving):
            yield Served(store, server)


@asynccontextmanager
async def taking(*what: Any, **options: Any) -> AsyncGenerator[Taker]:
    """Serve one tool, as `served` does, to one client that takes tasks."""
    async with served(*what, **options) as here, here.taker() as client:
        yield client


def named(name: str) -> JsonObject:
    return {"action": "accept", "content": {"name": name}}


def with_ann(asked: JsonObject) -> JsonObject:
    """Return the parameters of a round that answers the first question."""
    return {"requestState": asked["requestState"], "inputResponses": {"one": named("Ann")}}


def said(task: Task) -> str:
    assert task["status"] == "completed", task
    return task["result"]["content"][0]["text"]
