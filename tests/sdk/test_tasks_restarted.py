"""Tests of option K after a restart: another process goes on with the tasks of the first."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.tasks import CallParams, TaskContext
from tests.sdk.fakes import ON_ASYNCIO, result, who
from tests.sdk.task_server import (
    Ctx,
    Taker,
    Task,
    named,
    said,
    served,
)

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


async def test_an_answer_waits_until_a_restarted_task_is_back_at_its_question(sqlite: str) -> None:
    back = anyio.Event()
    may_ask = anyio.Event()
    may_ask.set()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.step("first", lambda key: None)
        back.set()
        await may_ask.wait()
        return result((await ctx.elicit(who("one"))).name)

    async with served(sqlite, None, handler) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
    back = anyio.Event()
    may_ask = anyio.Event()
    async with served(sqlite, None, handler) as here, here.taker() as client:
        async with anyio.create_task_group() as group:
            await back.wait()
            group.start_soon(client.update, task, {"one": named("Ann")})
            for _ in range(100):  # let the answer reach the server
                await anyio.lowlevel.checkpoint()
            may_ask.set()
        assert said(await client.until(task, "completed")) == "Ann"


REQUESTS: dict[str, Callable[[Taker, Task], Any]] = {
    "tasks/get": Taker.get,
    "tasks/update": lambda client, task: client.update(task, {}),
    "tasks/cancel": Taker.cancel,
}


@pytest.mark.parametrize("asks_first", [False, True])
@pytest.mark.parametrize("method", REQUESTS)
async def test_a_restarted_task_is_known_before_its_handler_becomes_a_task_again(
    method: str, asks_first: bool, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = anyio.Event()
    may_go_on = anyio.Event()
    may_go_on.set()
    become_task = TaskContext[Any].become_task

    async def slowly(ctx: Ctx) -> None:
        back.set()
        await may_go_on.wait()
        await become_task(ctx)

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.become_task()
        await anyio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(TaskContext, "become_task", slowly)
    serving = partial(served, sqlite, None, handler, how={"asks_first": asks_first})
    async with serving() as here, here.taker() as client:
        task = await client.call()
    back = anyio.Event()
    may_go_on = anyio.Event()
    async with serving() as here, here.taker() as client:
        async with anyio.create_task_group() as group:
            await back.wait()
            group.start_soon(REQUESTS[method], client, task)
            for _ in range(100):  # it is on its way
                await anyio.lowlevel.checkpoint()
            may_go_on.set()
        again = await client.get(task)
    assert again["status"] == ("cancelled" if method == "tasks/cancel" else "working")
    assert again["createdAt"] == task["createdAt"]


async def test_a_task_of_another_version_is_refused_until_that_version_is_back(engine: str) -> None:
    async with served(engine) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
    async with served(engine, version="2") as here, here.taker() as client:
        with pytest.raises(MCPError, match="another version"):
            await client.get(task)
    async with served(engine) as here, here.taker() as client:
        assert (await client.get(task))["status"] == "input_required"
