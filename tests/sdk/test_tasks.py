"""Option K's stand-in, the server's side: a task is durable, settled once, and its owner's alone.

Stores in this process share its one engine; closing one and opening another is as much of a restart as
one process can show. Real processes are killed in `tests/test_tasks_processes.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from dbos import DBOS
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension, advertise
from mcp.client.session import ClientRequestContext
from mcp.server import Server, ServerRequestContext
from pydantic import RootModel

from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.questions import Declined
from mrtr_options.sdk.server import add_extension
from mrtr_options.sdk.tasks import Call, TaskContext, TaskHandler, TaskStore
from mrtr_options.sdk.tasks.wire import IDENTIFIER
from tests.bounds import SECONDS
from tests.sdk.fakes import result, who

pytestmark = pytest.mark.anyio

TERMINAL = ("completed", "failed", "cancelled")
POLL_SECONDS = 0.01
"""A client of tasks polls; without a pause it would do nothing else."""
Ctx = TaskContext[Any]
Task = dict[str, Any]
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


# --- handlers -----------------------------------------------------------------------------------


@dataclass
class World:
    """What handlers do effects in."""

    effects: list[str] = field(default_factory=list[str])
    entered: int = 0
    began: anyio.Event = field(default_factory=anyio.Event)
    may_end: anyio.Event = field(default_factory=anyio.Event)

    async def do(self, effect: str) -> None:
        self.effects.append(effect)


async def couple(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Asks two names, one after the other, between two effects."""
    world: World = ctx.lifespan_context
    world.entered += 1
    await ctx.step("first", lambda key: world.do("first"))
    one = await ctx.elicit(who("one"))
    two = await ctx.elicit(who("two", assumed="nobody"))
    await ctx.step("last", lambda key: world.do("last"))
    return result(f"{one.name} and {two.name}")


async def pair(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Asks two names at once."""
    one, two = await ctx.elicit_all(who("one"), who("two"))
    return result(f"{one.name} and {two.name}")


async def slow(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Works until it is told to end."""
    world: World = ctx.lifespan_context
    world.entered += 1
    world.began.set()
    try:
        await world.may_end.wait()
    finally:
        world.effects.append("ended")
    return result("done")


# --- somebody who calls them --------------------------------------------------------------------


def principal(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Who a request says it is from."""
    return (ctx.params or {}).get("_meta", {}).get("who")


@dataclass
class Taker:
    """A client that is driven by hand."""

    client: Client

    async def send(self, method: str, *, who: str | None = None, **params: Any) -> dict[str, Any]:
        if who is not None:
            params["_meta"] = {"who": who}
        request = types.Request[dict[str, Any], str](method=method, params=params)
        return (await self.client.session.send_request(request, RootModel[dict[str, Any]])).root

    async def call(self, tool: str = "tool", **params: Any) -> dict[str, Any]:
        return await self.send("tools/call", name=tool, arguments={"x": 1}, **params)

    async def get(self, task: Task, **params: Any) -> Task:
        return await self.send("tasks/get", taskId=task["taskId"], **params)

    async def update(self, task: Task, responses: dict[str, Any], **params: Any) -> dict[str, Any]:
        return await self.send("tasks/update", taskId=task["taskId"], inputResponses=responses, **params)

    async def cancel(self, task: Task, **params: Any) -> dict[str, Any]:
        return await self.send("tasks/cancel", taskId=task["taskId"], **params)

    async def until(self, task: Task, *statuses: str, asked: str | None = None) -> Task:
        """The task as soon as it stands so."""
        while True:
            task = await self.get(task)
            if task["status"] in statuses and (asked is None or asked in task["inputRequests"]):
                return task
            assert task["status"] not in TERMINAL, task
            await anyio.sleep(POLL_SECONDS)


async def never(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Declares elicitation; rounds are driven by hand."""
    raise AssertionError("was asked by push")


@dataclass
class Served:
    """A server whose store is open."""

    store: TaskStore
    server: Server[Any]

    @asynccontextmanager
    async def taker(
        self, *, takes: bool = True, forms: bool = True, mode: str = "2026-07-28"
    ) -> AsyncGenerator[Taker]:
        extensions: list[ClientExtension] = [advertise(IDENTIFIER)] if takes else []
        callback = never if forms else None
        async with Client(
            self.server, mode=mode, elicitation_callback=callback, extensions=extensions
        ) as client:
            yield Taker(client)


@asynccontextmanager
async def served(
    url: str | None,
    world: object,
    handler: TaskHandler[Any] = couple,
    *,
    version: str = "1",
    required: bool = False,
    asks_first: bool = False,
    clock: Callable[[], float] | None = None,
    **options: Any,
) -> AsyncGenerator[Served]:
    """A server of one tool, for a bounded time."""
    options.setdefault("wait_seconds", SECONDS)
    store = TaskStore(version=version, **options)
    call = store.task(handler, required=required, asks_first=asks_first)

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="tool", input_schema={"type": "object"})])

    server = Server[Any]("tasks", on_call_tool=call, on_list_tools=list_tools)
    add_extension(server, store)
    with anyio.fail_after(SECONDS):
        async with store.serving(world, database=url, principal=principal, clock=clock):
            yield Served(store, server)


def named(name: str) -> dict[str, Any]:
    """An answer, as it goes on the wire."""
    return {"action": "accept", "content": {"name": name}}


def said(task: Task) -> str:
    """The text of a completed task's result."""
    assert task["status"] == "completed", task
    return task["result"]["content"][0]["text"]


# --- the life of a task -------------------------------------------------------------------------


async def test_a_task_asks_is_answered_and_has_its_result(engine: str) -> None:
    world = World()
    async with served(engine, world) as here, here.taker() as client:
        created = await client.call()
        assert set(created) - {"_meta"} == {
            "resultType",
            "taskId",
            "status",
            "createdAt",
            "lastUpdatedAt",
            "ttlMs",
            "pollIntervalMs",
        }
        assert (created["resultType"], created["status"]) == ("task", "working")
        assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 200)
        one = await client.until(created, "input_required")
        assert (one["resultType"], list(one["inputRequests"])) == ("complete", ["one"])
        assert one["inputRequests"]["one"]["params"]["message"] == "Who is one?"
        assert (await client.update(one, {"one": named("Ann")}))["resultType"] == "complete"
        two = await client.until(created, "input_required", asked="two")
        assert list(two["inputRequests"]) == ["two"]
        await client.update(two, {"two": named("Bob")})
        done = await client.until(created, "completed")
        assert said(done) == "Ann and Bob"
        assert done["createdAt"] == created["createdAt"] <= done["lastUpdatedAt"]
        assert not {"inputRequests", "error", "requestState"} & set(done)
    assert world.effects == ["first", "last"]


async def test_any_instance_knows_a_task_as_soon_as_its_handle_is_returned(engine: str) -> None:
    async with (
        served(engine, World()) as here,
        served(engine, World()) as there,
        here.taker() as one,
        there.taker() as other,
    ):
        for _ in range(5):
            created = await one.call()
            assert (await other.get(created))["taskId"] == created["taskId"]


async def test_the_server_declares_the_extension(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        found = await client.send("server/discover")
        assert found["capabilities"]["extensions"] == {IDENTIFIER: {}}
        assert "tasks" not in found["capabilities"]


async def test_task_ids_cannot_be_guessed(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        ids = {(await client.call())["taskId"] for _ in range(5)}
    assert len(ids) == 5
    assert all(len(each) >= 22 for each in ids)  # 128 bits in base64


async def test_a_task_parameter_of_the_old_protocol_is_ignored(engine: str) -> None:
    async with served(engine, World()) as here:
        async with here.taker() as client:
            assert (await client.call(task={"ttl": 5}))["ttlMs"] == 3_600_000
        async with here.taker(takes=False) as client:
            assert (await client.call(task={"ttl": 5}))["resultType"] == "input_required"


# --- answers ------------------------------------------------------------------------------------


async def test_questions_asked_at_once_may_be_answered_one_by_one(engine: str) -> None:
    async with served(engine, World(), pair) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        assert set(task["inputRequests"]) == {"one", "two"}
        await client.update(task, {"two": named("Bob")})
        task = await client.get(task)
        assert (task["status"], list(task["inputRequests"])) == ("input_required", ["one"])
        await client.update(task, {"one": named("Ann")})
        assert said(await client.until(task, "completed")) == "Ann and Bob"


async def test_answers_that_arrive_at_the_same_moment_are_both_taken(engine: str) -> None:
    async with (
        served(engine, World(), pair) as here,
        served(engine, World(), pair) as there,
        here.taker() as one,
        there.taker() as other,
    ):
        for _ in range(5):
            task = await one.until(await one.call(), "input_required")
            async with anyio.create_task_group() as group:
                group.start_soon(one.update, task, {"one": named("Ann")})
                group.start_soon(other.update, task, {"two": named("Bob")})
            assert said(await one.until(task, "completed")) == "Ann and Bob"


async def test_unknown_and_answered_keys_are_ignored(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        for responses in ({}, {"two": named("Eve")}, {"x": {"not": "an answer"}, "y": 5}):
            assert (await client.update(task, responses))["resultType"] == "complete"
            assert list((await client.get(task))["inputRequests"]) == ["one"]
        for name in ("Ann", "Ann", "Eve"):  # delivered twice, and then differently
            await client.update(task, {"one": named(name)})
        task = await client.until(task, "input_required", asked="two")
        await client.update(task, {"one": named("Eve"), "two": named("Bob")})
        assert said(await client.until(task, "completed")) == "Ann and Bob"
        assert (await client.update(task, {"two": named("Eve")}))["resultType"] == "complete"
        assert said(await client.get(task)) == "Ann and Bob"


async def test_an_answer_that_does_not_fit_is_refused_and_its_question_stays_open(engine: str) -> None:
    wrong_type: Any = {"action": "accept", "content": {"name": 5}}
    roots: Any = {"roots": []}
    world = World()
    async with served(engine, world) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        for bad in wrong_type, wrong_type, roots, roots, {"not": "an answer"}, 5:
            with pytest.raises(MCPError, match="'one'") as refused:
                await client.update(task, {"one": bad})
            assert refused.value.code == types.INVALID_PARAMS
            assert list((await client.get(task))["inputRequests"]) == ["one"]
        await client.update(task, {"one": named("Ann")})
        await client.until(task, "input_required", asked="two")
    assert world.effects == ["first"]


async def test_a_question_that_is_asked_again_has_another_key(engine: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        names = [(await ctx.elicit(who("one"))).name for _ in range(3)]
        return result(" ".join(names))

    keys: list[str] = []
    async with served(engine, World(), handler) as here, here.taker() as client:
        task = await client.call()
        while (task := await client.until(task, "input_required", "completed"))["status"] != "completed":
            (key,) = task["inputRequests"]
            keys.append(key)
            await client.update(task, {key: named(f"name{len(keys)}")})
        assert said(task) == "name1 name2 name3"
    assert keys == ["one", "one-2", "one-3"]


async def test_a_declined_question_is_an_outcome_like_any_other(engine: str) -> None:
    def outcome_of(error: Exception) -> types.CallToolResult | None:
        return result(f"no {error.key}") if isinstance(error, Declined) else None

    async with served(engine, World(), outcome_of=outcome_of) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        await client.update(task, {"one": {"action": "decline"}})
        assert said(await client.until(task, "completed")) == "no one"


async def test_an_answer_is_acknowledged_when_it_is_taken_and_the_work_goes_on(sqlite: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await world.may_end.wait()
        return result("done")

    async with served(sqlite, world, handler, wait_seconds=10 * SECONDS) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        await client.update(task, {"who": named("Ann")})
        assert (await client.get(task))["status"] == "working"
        world.may_end.set()
        await client.until(task, "completed")


# --- outcomes -----------------------------------------------------------------------------------


async def test_an_error_of_the_tool_is_a_completed_task_and_one_of_the_call_a_failed_one(
    engine: str,
) -> None:
    async def tool_error(ctx: Ctx, call: Call) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="no luck")], is_error=True)

    async def call_error(ctx: Ctx, call: Call) -> types.CallToolResult:
        raise MCPError(-32000, "no way", {"why": "closed"})

    async def crash(ctx: Ctx, call: Call) -> types.CallToolResult:
        raise ValueError("a secret")

    async with served(engine, World(), tool_error) as here, here.taker() as client:
        done = await client.until(await client.call(), "completed")
        assert (said(done), done["result"]["isError"]) == ("no luck", True)
    async with served(engine, World(), call_error) as here, here.taker() as client:
        failed = await client.until(await client.call(), "failed")
        assert failed["error"] == {"code": -32000, "message": "no way", "data": {"why": "closed"}}
        assert "result" not in failed
    async with served(engine, World(), crash) as here, here.taker() as client:
        failed = await client.until(await client.call(), "failed")
        assert failed["error"] == {"code": types.INTERNAL_ERROR, "message": "Internal server error"}


# --- who may ------------------------------------------------------------------------------------


async def test_to_another_principal_a_task_is_unknown(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        task = await client.call(who="ann")
        refusals: list[tuple[int, str, Any]] = []
        for found, who_asks in ((task, "eve"), (task, None), ({"taskId": "nothing"}, "ann")):
            for request in (client.get, client.cancel):
                with pytest.raises(MCPError) as refused:
                    await request(found, who=who_asks)
                refusals.append((refused.value.code, refused.value.message, refused.value.data))
            with pytest.raises(MCPError) as refused:
                await client.update(found, {"one": named("Eve")}, who=who_asks)
            refusals.append((refused.value.code, refused.value.message, refused.value.data))
        assert refusals == refusals[:1] * 9
        assert refusals[0][0] == types.INVALID_PARAMS
        assert (await client.get(task, who="ann"))["status"] in ("working", "input_required")


async def test_a_call_in_rounds_is_not_a_task(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client, here.taker(takes=False) as plain:
        asked = await plain.call()
        with pytest.raises(MCPError) as refused:
            await client.get({"taskId": asked["requestState"].partition(".")[0]})
        assert refused.value.code == types.INVALID_PARAMS


async def test_methods_of_the_extension_are_refused_to_a_request_that_does_not_declare_it(
    engine: str,
) -> None:
    async with served(engine, World()) as here:
        async with here.taker() as client:
            task = await client.call()
        async with here.taker(takes=False) as client:
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(MCPError) as refused:
                    await client.send(method, taskId=task["taskId"])
                assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                assert refused.value.data == NEEDED


async def test_methods_of_the_old_tasks_are_unknown(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        for method in "tasks/result", "tasks/list":
            with pytest.raises(MCPError) as refused:
                await client.send(method, taskId="x")
            assert refused.value.code == types.METHOD_NOT_FOUND


async def test_an_old_client_has_no_tasks(engine: str) -> None:
    async with served(engine, World()) as here, here.taker(mode="legacy") as client:
        with pytest.raises(MCPError) as refused:
            await client.send("tasks/get", taskId="x")
        assert refused.value.code == types.METHOD_NOT_FOUND


async def test_a_client_that_does_not_take_tasks_gets_the_tool_in_rounds(engine: str) -> None:
    world = World()
    async with served(engine, world) as here, here.taker(takes=False) as client:
        one = await client.call()
        assert (one["resultType"], list(one["inputRequests"])) == ("input_required", ["one"])
        two = await client.call(requestState=one["requestState"], inputResponses={"one": named("Ann")})
        done = await client.call(requestState=two["requestState"], inputResponses={"two": named("Bob")})
        assert done["content"][0]["text"] == "Ann and Bob"
    assert world.effects == ["first", "last"]


async def test_a_tool_that_works_as_a_task_only_refuses_other_clients(engine: str) -> None:
    async with served(engine, World(), required=True) as here:
        async with here.taker(takes=False) as client:
            with pytest.raises(MCPError) as refused:
                await client.call()
            assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
            assert refused.value.data == NEEDED
        async with here.taker() as client:
            assert (await client.call())["resultType"] == "task"


async def test_a_client_that_cannot_be_asked_is_not_shown_a_question(engine: str) -> None:
    def outcome_of(error: Exception) -> types.CallToolResult | None:
        return result(str(error))

    async with served(engine, World(), outcome_of=outcome_of) as here:
        async with here.taker(forms=False) as client:
            assert said(await client.until(await client.call(), "completed")) == "Say who one is."
        async with here.taker() as client:
            task = await client.until(await client.call(), "input_required")
        async with here.taker(forms=False) as client:
            assert (await client.get(task))["inputRequests"] == {}


# --- rounds first, then a task ------------------------------------------------------------------


async def asks_first(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Asks for a name before it becomes a task."""
    world: World = ctx.lifespan_context
    one = await ctx.elicit(who("one"))
    await ctx.become_task()
    await ctx.step("last", lambda key: world.do("last"))
    two = await ctx.elicit(who("two"))
    return result(f"{one.name} and {two.name}")


@pytest.mark.parametrize("required", [False, True])
async def test_a_tool_may_ask_before_it_becomes_a_task(engine: str, required: bool) -> None:
    world = World()
    async with (
        served(engine, world, asks_first, asks_first=True, required=required) as here,
        here.taker() as client,
    ):
        asked = await client.call()
        assert (asked["resultType"], list(asked["inputRequests"])) == ("input_required", ["one"])
        assert "taskId" not in asked
        answer: dict[str, Any] = {
            "requestState": asked["requestState"],
            "inputResponses": {"one": named("Ann")},
        }
        task = await client.call(**answer)
        assert task["resultType"] == "task"
        assert not {"requestState", "inputRequests"} & set(task)
        assert (await client.call(**answer))["taskId"] == task["taskId"]
        await client.until(task, "input_required", asked="two")
        await client.update(task, {"two": named("Bob")})
        assert said(await client.until(task, "completed")) == "Ann and Bob"
    assert world.effects == ["last"]


async def test_a_round_that_does_not_declare_the_extension_never_gets_a_task(engine: str) -> None:
    async with (
        served(engine, World(), asks_first, asks_first=True) as here,
        here.taker() as client,
        here.taker(takes=False) as plain,
    ):
        asked = await client.call()
        rest: dict[str, Any] = {
            "requestState": asked["requestState"],
            "inputResponses": {"one": named("Ann")},
        }
        assert list((await plain.call(**rest))["inputRequests"]) == ["two"]
        asked = await client.call()
        rest["requestState"] = asked["requestState"]
        assert (await client.call(**rest))["resultType"] == "task"
        with pytest.raises(MCPError) as refused:
            await plain.call(**rest)
        assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


# --- cancelling ---------------------------------------------------------------------------------


async def test_cancelling_stops_the_work_and_is_idempotent(sqlite: str) -> None:
    world = World()
    async with served(sqlite, world, slow) as here, here.taker() as client:
        task = await client.call()
        await world.began.wait()
        for _ in range(2):
            assert (await client.cancel(task))["resultType"] == "complete"
            assert world.effects == ["ended"]
            cancelled = await client.get(task)
            assert cancelled["status"] == "cancelled"
            assert not {"result", "error", "inputRequests"} & set(cancelled)


async def test_a_cancelled_task_takes_no_answer_and_its_sibling_goes_on(engine: str) -> None:
    world = World()
    async with served(engine, world) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        sibling = await client.until(await client.call(), "input_required")
        await client.cancel(task)
        assert (await client.update(task, {"one": named("Ann")}))["resultType"] == "complete"
        assert (await client.get(task))["status"] == "cancelled"
        await client.update(sibling, {"one": named("Ann")})
        await client.until(sibling, "input_required", asked="two")


async def test_a_finished_task_stays_finished(engine: str) -> None:
    async with served(engine, World()) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        await client.update(task, {"one": named("Ann")})
        await client.until(task, "input_required", asked="two")
        await client.update(task, {"two": named("Bob")})
        done = await client.until(task, "completed")
        assert (await client.cancel(task))["resultType"] == "complete"
        assert await client.get(task) == done


@pytest.mark.slow
async def test_cancel_against_complete_has_one_outcome_that_never_changes(engine: str) -> None:
    outcomes: set[str] = set()
    async with (
        served(engine, World(), pair) as here,
        served(engine, World(), pair) as there,
        here.taker() as one,
        there.taker() as other,
    ):
        for _ in range(6):
            task = await one.until(await one.call(), "input_required")
            answers = {"one": named("Ann"), "two": named("Bob")}
            async with anyio.create_task_group() as group:
                group.start_soon(one.update, task, answers)
                group.start_soon(other.cancel, task)
            settled = await one.until(task, "completed", "cancelled")
            outcomes.add(settled["status"])
            for client in (one, other):
                await client.cancel(task)
                await client.update(task, answers)
                assert await client.get(task) == settled
    assert outcomes <= {"completed", "cancelled"}


async def test_a_first_request_that_is_cancelled_leaves_no_task_at_work(sqlite: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        world.began.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with served(sqlite, world, handler, asks_first=True) as here, here.taker() as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call)
            await world.began.wait()
            group.cancel_scope.cancel()
        async with process(None) as engine:
            while engine.live:
                await anyio.lowlevel.checkpoint()


# --- saying how far it is -----------------------------------------------------------------------


async def test_an_author_may_say_how_far_the_work_is_as_often_as_they_like(sqlite: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        for number in range(2000):
            await ctx.status(f"{number} of 2000")
        await ctx.elicit(who())
        return result("done")

    async with served(sqlite, world, handler) as here, here.taker() as client:
        task = await client.call()
        while (task := await client.get(task)).get("statusMessage") != "1999 of 2000":
            await anyio.lowlevel.checkpoint()
        task = await client.until(task, "input_required")
        assert len(await DBOS.list_workflow_steps_async(task["taskId"])) < 10
        await client.update(task, {"who": named("Ann")})
        assert "statusMessage" not in await client.until(task, "completed")


async def test_work_that_only_says_how_far_it_is_can_be_cancelled(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        while True:
            await ctx.status("on and on")

    async with served(sqlite, World(), handler) as here, here.taker() as client:
        task = await client.call()
        await client.cancel(task)
        async with process(None) as engine:
            while engine.live:
                await anyio.lowlevel.checkpoint()
        assert (await client.get(task))["status"] == "cancelled"


# --- time ---------------------------------------------------------------------------------------


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self._now = 1_000_000.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


async def test_a_task_whose_time_is_over_is_unknown(engine: str) -> None:
    clock = Clock()
    async with served(engine, World(), ttl_seconds=60, clock=clock) as here, here.taker() as client:
        task = await client.call()
        clock.advance(59)
        assert (await client.get(task))["ttlMs"] == 60_000
        clock.advance(1.1)
        for request in (client.get, client.cancel):
            with pytest.raises(MCPError) as refused:
                await request(task)
            assert refused.value.code == types.INVALID_PARAMS


async def test_a_task_at_work_when_its_time_is_over_is_stopped(sqlite: str) -> None:
    world = World()
    async with served(sqlite, world, slow, ttl_seconds=0.5) as here, here.taker() as client:
        await client.call()
        while not world.effects:
            await anyio.lowlevel.checkpoint()


async def test_a_task_is_kept_for_as_long_as_its_time_to_live(sqlite: str) -> None:
    kept: dict[str, Any] = {
        "ttl_seconds": 3600,
        "keep_seconds": -1.0,
    }  # what has ended, has ended long ago
    async with served(sqlite, World(), pair, **kept) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
        await client.update(task, {"one": named("Ann"), "two": named("Bob")})
        await client.until(task, "completed")
    async with served(sqlite, World(), pair, **kept) as here, here.taker() as client:
        async with process(None) as engine:
            await engine.sweep(here.store.keep_seconds)
        assert said(await client.get(task)) == "Ann and Bob"


async def test_a_task_without_a_time_to_live_is_kept(engine: str) -> None:
    clock = Clock()
    async with served(engine, World(), ttl_seconds=None, clock=clock) as here, here.taker() as client:
        task = await client.call()
        clock.advance(10**9)
        assert (await client.get(task))["ttlMs"] is None


# --- restarts, as far as one process can show them ----------------------------------------------


async def test_a_task_goes_on_after_a_restart_with_what_is_on_record(engine: str) -> None:
    world = World()
    async with served(engine, world) as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
    async with served(engine, world) as here, here.taker() as client:
        assert list((await client.get(task))["inputRequests"]) == ["one"]
        await client.update(task, {"one": named("Ann")})
    async with served(engine, world) as here, here.taker() as client:
        await client.until(task, "input_required", asked="two")
        await client.update(task, {"two": named("Bob")})
        assert said(await client.until(task, "completed")) == "Ann and Bob"
    async with served(engine, world) as here, here.taker() as client:
        assert said(await client.get(task)) == "Ann and Bob"
    assert world.effects == ["first", "last"]


async def test_a_task_of_another_version_is_refused_until_that_version_is_back(engine: str) -> None:
    async with served(engine, World(), version="1") as here, here.taker() as client:
        task = await client.until(await client.call(), "input_required")
    async with served(engine, World(), version="2") as here, here.taker() as client:
        with pytest.raises(MCPError, match="another version"):
            await client.get(task)
    async with served(engine, World(), version="1") as here, here.taker() as client:
        assert (await client.get(task))["status"] == "input_required"
