"""Tests of option K after a restart: another process goes on with the tasks of the first."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest

from mrtr_options.sdk.tasks import CallParams, TaskContext
from tests.sdk.fakes import ON_ASYNCIO, result, who
from tests.sdk.task_server import (
    Ctx,
    Taker,
    Task,
    named,
    said,
    taking,
)

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


ANSWERS = {"one": named("Ann")}
REQUESTS: dict[str, tuple[Callable[[Taker, Task], Any], str]] = {
    "a look": (Taker.get, "input_required"),
    "no answer": (lambda client, task: client.update(task, {}), "input_required"),
    "an answer": (lambda client, task: client.update(task, ANSWERS), "completed"),
    "a cancellation": (Taker.cancel, "cancelled"),
}
"""Requests, and what the task comes to."""


@pytest.mark.parametrize("request_of", REQUESTS)
@pytest.mark.parametrize(
    ("place", "asks_first"), [("become_task", True), ("become_task", False), ("elicit", False)]
)
async def test_a_request_waits_until_a_restarted_task_is_back_where_it_was(
    place: str, request_of: str, asks_first: bool, sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, status = REQUESTS[request_of]
    back = anyio.Event()
    may_go_on = anyio.Event()
    may_go_on.set()
    go_on = getattr(TaskContext[Any], place)

    async def slowly(ctx: Ctx, *questions: Any) -> Any:
        back.set()
        await may_go_on.wait()
        return await go_on(ctx, *questions)

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.become_task()
        return result((await ctx.elicit(who("one"))).name)

    monkeypatch.setattr(TaskContext, place, slowly)
    serving = partial(taking, sqlite, None, handler, how={"asks_first": asks_first})
    async with serving() as client:
        task = await client.until(await client.call(), "input_required")
    back = anyio.Event()
    may_go_on = anyio.Event()
    async with serving() as client:
        async with anyio.create_task_group() as group:
            await back.wait()
            group.start_soon(send, client, task)
            for _ in range(100):  # it is on its way
                await anyio.lowlevel.checkpoint()
            may_go_on.set()
        again = await client.until(task, status)
    assert again["createdAt"] == task["createdAt"]


async def test_a_call_that_becomes_a_task_in_two_of_its_own_tasks_at_once_goes_on(
    sqlite: str,
) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(ctx.become_task)
        return result((await ctx.elicit(who("one"))).name)

    how = {"asks_first": True}
    async with taking(sqlite, None, handler, how=how) as client:
        task = await client.call()
        await client.until(task, "input_required")
    async with taking(sqlite, None, handler, how=how) as client:
        await client.answer(task, "one", "Ann")
        assert said(await client.until(task, "completed")) == "Ann"


async def test_a_task_of_another_version_is_refused_until_that_version_is_back(engine: str) -> None:
    async with taking(engine) as client:
        task = await client.until(await client.call(), "input_required")
    async with taking(engine, version="2") as client:
        told = await client.is_refused(types.INVALID_PARAMS, "tasks/get", taskId=task["taskId"])
        assert told["reason"] == "other_version"
    async with taking(engine) as client:
        assert (await client.get(task))["status"] == "input_required"
