"""Tests of option K's stand-in on the server: tasks on the wire, and the rights of callers.

K runs a handler as L does (`test_durable`). The schedules named `task-...` play whole tasks with
faults; `judge/test_matrix` plays them on two instances, `bench/test_processes` on processes.
"""

import logging
import threading
from contextlib import suppress
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from dbos import DBOS
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import RootModel, create_model

from examples.tasks_client import TasksClient, cancel_task, get_task, update_task
from mrtr_options import sdk
from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.tasks import CallParams
from mrtr_options.sdk.tasks.extension import MAX_STATUS
from mrtr_options.sdk.tasks.wire import IDENTIFIER
from tests.bounds import SECONDS
from tests.sdk.durable_calls import NAMED, away
from tests.sdk.fakes import ON_ASYNCIO, asking, asking_at_once, never, result, who
from tests.sdk.task_server import (
    FIELDS,
    NEEDED,
    UNDECLARED,
    Ctx,
    Taker,
    Task,
    World,
    asks_first,
    named,
    said,
    served,
    slow,
    taking,
    with_ann,
)
from tests.sending import over_http

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

PAIR: Any = asking_at_once("one", "two")


async def test_a_task_asks_is_answered_and_has_its_result(engine: str) -> None:
    async with taking(engine) as client:
        created = await client.call(task={"ttl": 5})  # a parameter of the old protocol
        assert set(created) - {"_meta"} == FIELDS
        assert len(created["taskId"]) >= 22  # 128 bits in base64
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert created["ttlMs"] == 3_600_000
        assert created["pollIntervalMs"] == 200
        one = await client.until(created, "input_required")
        assert one["resultType"] == "complete"
        assert list(one["inputRequests"]) == ["one"]
        assert one["inputRequests"]["one"]["params"]["message"] == "Who is one?"
        assert (await client.update(one, {"one": named("Ann")}))["resultType"] == "complete"
        two = await client.until(created, "input_required", asked="two")
        assert list(two["inputRequests"]) == ["two"]
        await client.answer(two, "two", "Bob")
        done = await client.until(created, "completed")
        assert said(done) == "Ann and Bob"
        assert done["createdAt"] == created["createdAt"] <= done["lastUpdatedAt"]
        assert not {"inputRequests", "error", "requestState"} & set(done)
        found = (await client.send("server/discover"))["capabilities"]
        assert found["extensions"] == {IDENTIFIER: {}}
        assert "tasks" not in found


class Misrouted(types.Request[JsonObject, str]):
    """A request whose routing header has the value of another parameter."""

    name_param = "other"


async def test_the_routing_header_has_to_name_the_task(sqlite: str) -> None:
    async with (
        served(sqlite) as here,
        here.taker() as creator,
        over_http(here.server) as url,
        Client(url, mode=LATEST_MODERN_VERSION, extensions=[TasksClient()]) as client,
    ):
        task = (await creator.call())["taskId"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError, match="needs the HTTP header Mcp-Name") as refused:
                await Taker(client).send(method, taskId=task)
            assert refused.value.code == types.HEADER_MISMATCH
            request = Misrouted(method=method, params={"taskId": task, "other": "another"})
            with pytest.raises(MCPError, match="does not match") as refused:
                await client.session.send_request(request, RootModel[JsonObject])
            assert refused.value.code == types.HEADER_MISMATCH
        assert (await get_task(client.session, task)).task_id == task
        await update_task(client.session, task, {})
        await cancel_task(client.session, task)
        assert (await creator.get({"taskId": task}))["status"] == "cancelled"


async def test_questions_asked_at_once_are_answered_one_by_one_or_at_once(engine: str) -> None:
    answers = [{"two": named("Bob")}, {"one": named("Ann")}]
    number: JsonObject = {"action": "accept", "content": {"name": 5}}
    no_answers: list[Any] = [number, {"roots": []}, {"not": "an answer"}, 5]
    async with (
        served(engine, None, PAIR) as here,
        served(engine, None, PAIR) as there,
        here.taker() as one,
        there.taker() as other,
    ):
        task = await other.until(await one.call(), "input_required")
        assert set(task["inputRequests"]) == {"one", "two"}
        for bad in no_answers:
            with pytest.raises(MCPError, match="'one'"):
                await one.update(task, {"one": bad})
        for _ in range(5):
            task = await one.call()
            await other.until(task, "input_required")
            async with anyio.create_task_group() as group:
                for client, answer in zip((one, other), answers, strict=True):
                    group.start_soon(client.update, task, answer)
            assert said(await one.until(task, "completed")) == "Ann and Bob"


async def test_a_question_that_is_asked_again_has_another_key(engine: str) -> None:
    async with taking(engine, None, asking("one", "one", "one")) as client:
        task = await client.call()
        for number, key in enumerate(("one", "one-2", "one-3"), 1):
            await client.answer(task, key, f"name{number}")
        assert said(await client.until(task, "completed")) == "name1 and name2 and name3"


async def test_an_answer_is_acknowledged_when_it_is_taken_and_the_work_goes_on(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        return await slow(ctx, call)

    world = World()
    async with (
        served(sqlite, world, handler, wait_seconds=10 * SECONDS) as here,
        here.taker() as client,
    ):
        task = await client.call()
        await client.answer(task, "who", "Ann")
        assert (await client.get(task))["status"] == "working"
        world.may_end.set()
        await client.until(task, "completed")


NO_WAY: JsonObject = {"code": -32000, "message": "no way", "data": {"why": "closed"}}


@pytest.mark.parametrize(
    ("outcome", "status", "ends"),
    [
        (
            types.CallToolResult(content=[], is_error=True),
            "completed",
            {"content": [], "isError": True},
        ),
        (MCPError(*NO_WAY.values()), "failed", NO_WAY),
        (ValueError("a secret"), "failed", {"code": -32603, "message": "Internal server error"}),
    ],
    ids=["tool error", "error of the call", "crash"],
)
async def test_an_error_of_the_tool_is_a_completed_task_and_one_of_the_call_a_failed_one(
    engine: str, outcome: types.CallToolResult | Exception, status: str, ends: JsonObject
) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with taking(engine, None, handler) as client:
        ended = await client.until(await client.call(), status)
    assert ended["result" if status == "completed" else "error"].items() >= ends.items()
    assert len({"result", "error"} & set(ended)) == 1


async def test_a_request_that_may_not_have_tasks_is_refused(engine: str) -> None:
    async with served(engine) as here, here.taker() as client, here.taker(takes=False) as plain:
        task = await client.call()
        asked = await plain.call(task={"ttl": 5})
        call = asked["requestState"].partition(".")[0]
        for unknown in (call, "made-up", ""):  # `call` is a call in rounds, not a task
            told = await client.is_refused(types.INVALID_PARAMS, "tasks/get", taskId=unknown)
            assert told["reason"] == "unknown_task"
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert await plain.is_refused(UNDECLARED, method, taskId=task["taskId"]) == NEEDED
        for method in ("tasks/result", "tasks/list"):  # methods of the old protocol
            await client.is_refused(types.METHOD_NOT_FOUND, method, taskId=task["taskId"])
        async with here.taker(mode="legacy") as old:
            await old.is_refused(types.METHOD_NOT_FOUND, "tasks/get", taskId=task["taskId"])


async def test_a_task_is_its_callers_alone(sqlite: str) -> None:
    caller = ["ada"]

    def principal(ctx: object) -> str:
        return caller[0]

    async with taking(sqlite, principal=principal) as client:
        task = await client.until(await client.call(), "input_required")
        caller[0] = "bob"
        given = {"taskId": task["taskId"], "inputResponses": {"one": named("Bob")}}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            told = await client.is_refused(types.INVALID_PARAMS, method, **given)
            assert told["reason"] == "unknown_task"
        caller[0] = "ada"
        assert await client.get(task) == task


async def test_a_tool_that_works_as_a_task_only_refuses_other_clients(engine: str) -> None:
    async with served(engine, how={"required": True}) as here:
        async with here.taker(takes=False) as client:
            assert await client.is_refused(UNDECLARED, "tools/call", name="tool") == NEEDED
        async with here.taker() as client:
            assert (await client.call())["resultType"] == "task"


@pytest.mark.parametrize("forms", [False, True])
@pytest.mark.parametrize("sampling", [False, True])
async def test_a_client_is_shown_the_questions_of_the_kinds_that_it_declares(
    engine: str, forms: bool, sampling: bool
) -> None:
    says = types.SamplingMessage(role="user", content=types.TextContent(text="Name one."))
    prompt = types.CreateMessageRequestParams(messages=[says], max_tokens=5)

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit_all(who("a form"), sdk.sampling("a sampling", prompt))
        return result("never")

    async with served(engine, handler=handler) as here:
        async with here.taker(sampling=True) as client:
            task = await client.until(await client.call(), "input_required")
        async with here.taker(forms=forms, sampling=sampling) as client:
            shown = (await client.get(task))["inputRequests"]
    assert ("a form" in shown, "a sampling" in shown) == (forms, sampling)


@pytest.mark.parametrize("required", [False, True])
async def test_a_tool_may_ask_before_it_becomes_a_task(engine: str, required: bool) -> None:
    world = World()
    how = {"asks_first": True, "required": required}
    async with taking(engine, world, asks_first, how=how) as client:
        asked = await client.call()
        assert asked["resultType"] == "input_required"
        assert list(asked["inputRequests"]) == ["one"]
        assert "taskId" not in asked
        answer = with_ann(asked)
        task = await client.call(**answer)
        assert task["resultType"] == "task"
        assert not {"requestState", "inputRequests"} & set(task)
        assert (await client.call(**answer))["taskId"] == task["taskId"]
        await client.answer(task, "two", "Bob")
        assert said(await client.until(task, "completed")) == "Ann and Bob"
    assert world.effects == ["last"]


async def test_the_log_of_rounds_tells_of_a_task_and_of_unfit_parameters(
    sqlite: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="mrtr_options.rounds")
    store = sdk.TaskStore(version="1")
    tool = sdk.Tool("tool", "Asks.", create_model("Wanted", x=int), store.task(PAIR))
    settings = sdk.Settings(database=sqlite)
    more: Any = {"resources": [store.serving], "extensions": [store]}
    server = sdk.build_server("tasks", tool, settings=settings, **more)
    able: Any = {"elicitation_callback": never, "extensions": [advertise(IDENTIFIER)]}
    async with Client(server, mode=LATEST_MODERN_VERSION, **able) as client:
        taker = Taker(client)
        assert (await taker.call())["resultType"] == "task"
        await taker.is_refused(types.INVALID_PARAMS, "tools/call", name=5)
    outcomes = [vars(each)["outcome"] for each in caplog.records if "outcome" in vars(each)]
    assert outcomes == ["task", f"{types.INVALID_PARAMS}"]


async def test_a_round_that_does_not_declare_the_extension_never_gets_a_task(engine: str) -> None:
    serving = served(engine, World(), asks_first, how={"asks_first": True})
    async with serving as here, here.taker() as client, here.taker(takes=False) as plain:
        assert list((await plain.call(**with_ann(await client.call())))["inputRequests"]) == ["two"]
        rest = with_ann(await client.call())
        assert (await client.call(**rest))["resultType"] == "task"
        await plain.is_refused(UNDECLARED, "tools/call", name="tool", arguments={"x": 1}, **rest)


async def test_a_task_is_created_once_under_a_call_key(engine: str) -> None:
    meta = {CALL_KEY: new_call_key()}
    async with (
        served(engine) as here,
        served(engine) as there,
        here.taker() as one,
        there.taker() as other,
        here.taker(takes=False) as plain,
    ):
        tasks = [await client.call(_meta=meta) for client in (one, other, one)]
        assert len({task["taskId"] for task in tasks}) == 1
        same: JsonObject = {"arguments": {"x": 1}, "_meta": meta}
        await plain.is_refused(UNDECLARED, "tools/call", name="tool", **same)


async def test_cancelling_stops_the_work_is_idempotent_and_keeps_the_name(sqlite: str) -> None:
    world = World()
    async with taking(sqlite, world, slow, how=NAMED) as client:
        task = await client.call()
        sibling = await client.send("tools/call", name="tool", arguments={"x": 2})
        await world.began.wait()
        for _ in range(2):
            assert (await client.cancel(task))["resultType"] == "complete"
            assert world.effects == ["ended"]
            cancelled = await client.get(task)
            assert cancelled["status"] == "cancelled"
            assert not {"result", "error", "inputRequests"} & set(cancelled)
        assert (await client.get(sibling))["status"] == "working"
        assert (await client.call())["taskId"] == task["taskId"]


async def test_work_that_only_says_how_far_it_is_can_be_cancelled(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        while True:
            await ctx.status("on and on")

    async with taking(sqlite, None, handler) as client:
        task = await client.call()
        await client.cancel(task)
        async with process(None) as engine:
            while engine.live:
                await anyio.lowlevel.checkpoint()
        assert (await client.get(task))["status"] == "cancelled"


async def test_an_author_may_say_how_far_the_work_is_as_often_as_they_like(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        for number in range(2000):
            await ctx.status(f"{number} of 2000")
        for odd in 3, "x" * (MAX_STATUS + 1):
            with pytest.raises((TypeError, ValueError), match="a status is"):
                await ctx.status(cast("Any", odd))
        await ctx.elicit(who())
        return result("done")

    async with taking(sqlite, None, handler) as client:
        task = await client.call()
        while task.get("statusMessage") != "1999 of 2000":
            await anyio.lowlevel.checkpoint()
            task = await client.get(task)
        await client.until(task, "input_required")
        assert len(await DBOS.list_workflow_steps_async(task["taskId"])) < 10
        await client.answer(task, "who", "Ann")
        assert "statusMessage" not in await client.until(task, "completed")


@pytest.mark.parametrize("how", [{}, NAMED], ids=["without a name", "named"])
@pytest.mark.parametrize(
    ("is_lost", "hears"),
    [(False, "a call with the same name gets this answer"), (True, "Who calls again")],
    ids=["done", "left open"],
)
async def test_who_says_no_after_an_effect_hears_of_the_calls_name_if_it_has_one(
    engine: str, how: dict[str, Any], is_lost: bool, hears: str
) -> None:
    async def reserve(key: str) -> None:
        if is_lost:
            raise TimeoutError

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        with suppress(MCPError):
            # Temporal asks this before the first try as well.
            await ctx.step("reserve", reserve, settled=lambda: None if is_lost else False)
        await ctx.elicit(who("one"))
        return result("never")

    async with taking(engine, None, handler, how=how) as client:
        # Another name than that of the other row: the fleet's engine keeps its calls.
        begun = await client.send("tools/call", name="tool", arguments={"x": hears})
        task = await client.until(begun, "input_required")
        await client.update(task, {"one": {"action": "decline"}})
        ended = await client.until(task, "completed")
    told = " ".join(each["text"] for each in ended["result"]["content"])
    assert (hears in told) == bool(how)


async def test_a_look_at_no_database_is_refused(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with taking(sqlite) as client:
        task = await client.call()
    async with taking(sqlite, wait_seconds=0.3) as client:
        with monkeypatch.context() as patch:
            patch.setattr(DBOS, "get_workflow_status_async", away)
            told = await client.is_refused(
                types.REQUEST_TIMEOUT, "tasks/get", taskId=task["taskId"]
            )
        assert told["reason"] == "still_at_work"


async def test_a_task_at_work_when_its_time_is_over_is_stopped(sqlite: str) -> None:
    world = World()
    async with taking(sqlite, world, slow, ttl_seconds=0.5) as client:
        await client.call()
        while not world.effects:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
async def test_a_task_whose_effect_is_under_way_is_not_forgotten_when_its_time_is_over(
    sqlite: str, ends: str
) -> None:
    now = [1_000_000.0]
    began = anyio.Event()
    may_end = threading.Event()
    charges = list[str]()

    def charge(key: str) -> None:
        may_end.wait(SECONDS)
        charges.append(key)

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        async def effect(key: str) -> None:
            began.set()
            await anyio.to_thread.run_sync(charge, key)
            if ends == "cancelled":
                await anyio.lowlevel.checkpoint()

        await ctx.step("charge", effect)
        return result("done")

    options: dict[str, Any] = {"ttl_seconds": 0.2, "clock": lambda: now[0]}
    async with taking(sqlite, None, handler, **options) as client:
        task = await client.call()
        await began.wait()
        await anyio.sleep(0.3)
        now[0] += 1
        assert (await client.get(task))["status"] == "working"
        may_end.set()
        ended = await client.until(task, ends)
        says = ended.get("statusMessage", "")
        assert ("may have happened" in says) == (ends == "cancelled")
        assert len(charges) == 1
        now[0] += 1
        await client.is_refused(types.INVALID_PARAMS, "tasks/get", taskId=task["taskId"])


async def test_a_task_that_its_user_does_not_want_frees_its_name(engine: str) -> None:
    async with taking(engine, how=NAMED) as client:

        async def call() -> Task:
            return await client.send("tools/call", name="tool", arguments={"x": "unwanted"})

        task = await client.until(await call(), "input_required")
        await client.cancel(task)
        over = await client.until(task, "cancelled")
        wanted = await call()
        assert wanted["taskId"] != task["taskId"]
        assert (await call())["taskId"] == wanted["taskId"]
        assert await client.get(task) == over


@pytest.mark.parametrize("ttl", [3600, None])
async def test_a_task_is_kept_for_as_long_as_its_time_to_live(sqlite: str, ttl: int | None) -> None:
    # The engine's own limits would delete an ended call at once.
    kept: dict[str, Any] = {"ttl_seconds": ttl, "keep_seconds": 1e-9, "idle_seconds": 1e-9}
    now = [1.8e9]
    kept["clock"] = lambda: now[0]
    async with taking(sqlite, None, PAIR, **kept) as client:
        left = await client.until(await client.call(), "input_required")
        task = await client.until(await client.call(), "input_required")
        await client.update(task, {"one": named("Ann"), "two": named("Bob")})
        await client.until(task, "completed")
    async with served(sqlite, None, PAIR, **kept) as here, here.taker() as client:
        async with process(None) as engine:
            await engine.sweep(here.store.keep_seconds)
        assert said(await client.get(task)) == "Ann and Bob"
        now[0] += 3600
        for each in (left, task):
            if ttl is None:
                await client.get(each)
            else:
                await client.is_refused(types.INVALID_PARAMS, "tasks/get", taskId=each["taskId"])
