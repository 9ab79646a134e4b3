"""Tests of option L's stand-in on each engine: a call outlives the process it ran in.

Stores in this process share one engine; closing a store and opening another is as much of a restart
as one process can show. `bench/test_processes` kills real ones.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
from dbos import DBOS
from mcp import MCPError
from pydantic import ValidationError

from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.sdk.durable import CallParams, DurableContext
from mrtr_options.sdk.durable.events import Begun, Caller
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import MAX_BYTES
from mrtr_options.sdk.questions import Declined, Question
from tests.sdk.durable_calls import (
    Ctx,
    Send,
    World,
    asked_by,
    away,
    ended,
    reason,
    refused,
    served,
)
from tests.sdk.fakes import ON_ASYNCIO, Name, key_made, key_of, named, no, result, unfit, who
from tests.sending import Response, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


async def test_a_round_has_one_response_and_each_effect_one_key_on_any_instance(
    engine: str,
) -> None:
    world = World()
    async with served(engine, world) as here, served(engine, world) as there:
        first = await here()
        assert key_of(first) == "one"
        second = await there(named("Ann", "one"), first)
        assert key_of(second) == "two"
        last = await here(named("Bob", "two"), second)
        assert text_of(last) == "Ann and Bob"
        for send in (here, there):
            assert await send(named("Ann", "one"), first) == await send(None, first) == second
            assert await send(named("Bob", "two"), second) == last
            for key, asked in (("one", first), ("two", second)):
                with pytest.raises(MCPError, match=f"'{key}'") as different:
                    await send(named("Eve", key), asked)
                assert reason(different) == "answered_differently"
        assert world.kinds() == ["first", "last"]
        await here(named("Bob", "two"), await there(named("Ann", "one"), await here()))
    assert len({key for _, key in world.effects}) == 4


async def test_a_refused_answer_is_refused_at_once_each_time_whatever_came_between(
    engine: str,
) -> None:
    async with served(engine, World(), wait_seconds=20.0) as send:
        first = await send()
        for name in (5, 6, 5, 6, 5, 5):
            with anyio.fail_after(10):
                assert await refused(send, unfit("one", name), first) == "invalid_answer"
        for nothing in (None, named("Ann", "somebody")):
            assert await send(nothing, first) == first
        assert key_of(await send(named("Ann", "one"), first)) == "two"


Handle = Callable[[Ctx], Awaitable[object]]


def after_a_step(do: Handle) -> Handle:
    async def handle(ctx: Ctx) -> object:
        await ctx.step("first", lambda key: ctx.lifespan_context.do("first", key))
        return await do(ctx)

    return handle


def in_a_step(do: Handle) -> Handle:
    """Make a handler that does this in the step of its effect, and returns the outcome."""

    async def handle(ctx: Ctx) -> None:
        async def effect(key: str) -> object:
            await ctx.lifespan_context.do("first", key)
            return await do(ctx)

        await ctx.step("effect", effect)

    return handle


def raising(error: BaseException) -> Handle:
    async def do(ctx: Ctx) -> None:
        raise error

    return do


def giving(value: object) -> Handle:
    async def do(ctx: Ctx) -> object:
        return value

    return do


def asking(question: Question[Name]) -> Handle:
    return lambda ctx: ctx.elicit(question)


async def twice(ctx: Ctx) -> None:
    for kind in ("first", "second"):
        await ctx.step("a", lambda key, kind=kind: ctx.lifespan_context.do(kind, key))


async def cancel_self(ctx: Ctx) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.lowlevel.checkpoint()


Odd = type("Local", (Exception,), {})
"""An exception class that no other process can find by its name."""
with pytest.raises(ValidationError) as unmade:
    Name.model_validate({})
UNMADE = unmade.value
"""An exception whose class cannot be called."""
TOO_LONG = "x" * MAX_BYTES
DECLINED = after_a_step(asking(who("one")))


@pytest.mark.parametrize(
    ("handle", "error", "says"),
    [
        *(
            pytest.param(where(do), RuntimeError, says, id=f"{says}-{where.__name__}")
            for do, says in (
                (raising(asyncio.CancelledError()), "CancelledError"),
                (raising(BaseExceptionGroup("at once", [asyncio.CancelledError()])), "at once"),
                (raising(SystemExit(1)), "SystemExit"),
                (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
                (raising(GeneratorExit()), "GeneratorExit"),
                (raising(MCPError(1, "odd data", object())), "MCPError: odd data"),
                (raising(UNMADE), "ValidationError: 1 validation error for Name"),
            )
            for where in (after_a_step, in_a_step)
        ),
        (after_a_step(giving(None)), TypeError, "NoneType, which is not a result"),
        (
            after_a_step(
                giving(types.CallToolResult(content=[], structured_content={"a": {"b": object()}}))
            ),
            TypeError,
            "no JSON",
        ),
        (
            after_a_step(
                giving(types.CallToolResult(content=[], structured_content={"a": math.inf}))
            ),
            ValueError,
            "no JSON",
        ),
        (
            after_a_step(lambda ctx: ctx.step(cast("Any", 5), str)),
            TypeError,
            "key is a text, not 5",
        ),
        (DECLINED, Declined, "one"),
        (in_a_step(raising(Odd("it is down"))), RuntimeError, "it is down"),
        (twice, ValueError, "'a'"),
        (in_a_step(giving({"a"})), TypeError, "'effect' returned what has no JSON"),
        (in_a_step(giving(math.nan)), TypeError, "'effect' returned what has no JSON"),
        (
            in_a_step(lambda ctx: ctx.step("b", lambda key: key)),
            RuntimeError,
            "'effect' cannot have",
        ),
        (in_a_step(asking(who("two"))), RuntimeError, "'effect' cannot have"),
        (after_a_step(raising(RuntimeError(TOO_LONG))), ValueError, "no room for how it ended"),
        (after_a_step(giving(result(TOO_LONG))), ValueError, "no room for how it ended"),
        (
            after_a_step(asking(Question("two", TOO_LONG, Name))),
            ValueError,
            "no room to ask .'two'",
        ),
        (in_a_step(giving(TOO_LONG)), ValueError, "'effect' came to is longer"),
    ],
)
async def test_what_ends_a_call_is_raised_at_each_delivery_and_no_effect_is_tried_again(
    engine: str, handle: Handle, error: type[Exception], says: str
) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        return cast("Any", await handle(ctx))

    world = World()
    async with served(engine, world, handler) as send:
        answers = named("Ann")
        asked = await send()
        if handle is DECLINED:
            asked = await send(answers, asked)
            answers = no("one")
        for _ in range(2):
            with pytest.raises(error, match=says):
                await send(answers, asked)
    assert world.kinds() == ["first"]


@pytest.mark.parametrize("where", [after_a_step, in_a_step])
async def test_a_handler_that_cancels_its_own_task_ends_its_call(
    sqlite: str, where: Callable[[Handle], Handle]
) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        return cast("Any", await where(cancel_self)(ctx))

    async with served(sqlite, World(), handler) as send:
        asked = await send()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="CancelledError"):
                await send(named("Ann"), asked)


async def test_code_in_a_scope_of_anyio_leaves_a_step_at_once(engine: str) -> None:
    stopped = list[str]()

    async def long(key: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(key)

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        with anyio.move_on_after(0.1):
            await ctx.step("too long", long)
        await ctx.elicit(who())
        with pytest.RaisesGroup(pytest.RaisesExc(ZeroDivisionError)):
            async with anyio.create_task_group() as group:
                group.start_soon(ctx.step, "beside", long)
                await ctx.step("fails", lambda key: 1 // 0)
        return result("done")

    async with served(engine, None, handler) as send:
        assert text_of(await send(named("Ann"), await asked_by(send))) == "done"
    assert len(stopped) == 2


async def test_a_call_that_its_engine_drops_ends_without_an_error() -> None:
    """Have the garbage collector close the coroutine of a call, in any thread."""
    record = Record(Begun(CallParams("tool", None), Caller(frozenset()), 0.0), 0.0)
    context = DurableContext(None, cast("Any", SimpleNamespace(record=record)), idle_seconds=1.0)
    work = context.outcome(anyio.lowlevel.checkpoint())
    work.send(None)
    await anyio.to_thread.run_sync(work.close)


async def test_a_task_that_outlives_its_handler_does_and_asks_nothing(sqlite: str) -> None:
    left: list[Ctx] = []

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        left.append(ctx)
        return result("done")

    world = World()
    async with served(sqlite, world, handler) as send:
        assert text_of(await send()) == "done"
        (ctx,) = left
        for late in ctx.step("late", lambda key: world.do("late", key)), ctx.elicit(who()):
            with pytest.raises(RuntimeError, match="this call has ended"):
                await late
    assert world.kinds() == []


async def test_a_step_gives_back_what_its_record_has(engine: str) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        return result(repr(await ctx.step("effect", lambda key: ("a", {1: None}))))

    async with served(engine, None, handler) as send:
        assert text_of(await send()) == "['a', {'1': None}]"


async def test_what_a_round_brings_is_refused_where_the_call_has_no_room_for_it(
    engine: str,
) -> None:
    long = named("x" * (MAX_BYTES - 300), "one")
    async with served(engine, World()) as send:
        asked = await send()
        assert await refused(send, x="x" * MAX_BYTES) == "too_long"
        for answers in named("x" * MAX_BYTES, "one"), long:
            assert await refused(send, answers, asked) == "too_long"
        assert key_of(await send(named("Ann", "one"), asked)) == "two"


async def test_what_is_asked_again_takes_room_too(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        text = "x" * (MAX_BYTES // 4)
        await ctx.elicit_all(*(Question(key, text, Name) for key in ("one", "two", "three")))
        return result("done")

    async with served(sqlite, None, handler) as send:
        asked = await send()
        assert await refused(send, named("Ann", "one"), asked) == "too_long"
        every = {**named("Ann", "one"), **named("Bob", "two"), **named("Cy", "three")}
        assert text_of(await send(every, asked)) == "done"


async def test_a_state_that_names_no_call_is_refused(engine: str) -> None:
    async with served(engine, World()) as send:
        for state in "", "x", "x.0", "x.0.0.later.", "x.-1", "x.1.0.0.said", "x." + "9" * 5000:
            asked = types.InputRequiredResult(request_state=state)
            for answers in named("Ann"), None:
                assert await refused(send, answers, asked) == "unknown_call"


async def test_work_longer_than_a_clients_rounds_ends_in_what_can_be_resumed(sqlite: str) -> None:
    done = anyio.Event()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        for key in ("one", "who"):
            await ctx.elicit(who(key))
        await done.wait()
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.5, rounds=4) as send:
        asked = await ended(send, await send(named("Ann", "one"), await asked_by(send)))
        held = await send(named("Ann"), asked)
        with pytest.raises(MCPError, match="Send the same request again") as still:
            await ended(send, held)
        assert still.value.code == types.REQUEST_TIMEOUT
        assert still.value.data["reason"] == "still_at_work"
        done.set()
        assert text_of(await ended(send, await send(None, held))) == "done"
        assert text_of(await send(named("Ann"), asked)) == "done"


async def test_a_first_request_that_is_cancelled_takes_its_call_along(sqlite: str) -> None:
    began = anyio.Event()
    ends = list[str]()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        try:
            began.set()
            await anyio.sleep_forever()
        finally:
            ends.append("ended")
        return result("done")

    async with served(sqlite, None, handler) as send:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await began.wait()
            group.cancel_scope.cancel()
        assert ends == ["ended"]
        (call,) = await DBOS.list_workflows_async()
        assert call.status == "SUCCESS"  # its result is the record that it was stopped


@pytest.mark.parametrize("is_away", [False, True], ids=["it is slow", "it is away at first"])
async def test_a_first_request_that_is_cancelled_while_its_call_begins_has_no_effect(
    sqlite: str, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """The database takes a while, or takes the call only when it is tried again."""
    world = World()
    start = DBOS.start_workflow_async
    tried = anyio.Event()

    async def starts(*arguments: Any) -> Any:
        is_first = not tried.is_set()
        tried.set()
        await anyio.lowlevel.checkpoint()
        if is_first and is_away:
            away()
        return await start(*arguments)

    monkeypatch.setattr(DBOS, "start_workflow_async", starts)
    async with served(sqlite, world) as send:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await tried.wait()
            group.cancel_scope.cancel()  # a refusal in place of the cancellation would be raised
        (call,) = await DBOS.list_workflows_async()
        assert call.status == "SUCCESS"
    assert world.effects == []


async def test_a_call_begins_once_under_its_key_and_says_what_it_has_come_to(engine: str) -> None:
    world = World()
    key = new_call_key()
    firsts: list[Response] = []
    async with served(engine, world) as here, served(engine, world) as there:

        async def begin(send: Send) -> None:
            firsts.append(await send(key=key))

        async with anyio.create_task_group() as group:
            for send in (here, there) * 3:
                group.start_soon(begin, send)
        first = firsts[0]
        assert firsts == [first] * 6
        assert key_of(first) == "one"
        second = await here(named("Ann", "one"), first)
        assert await there(key=key) == second
        last = await there(named("Bob", "two"), second)
        assert await here(key=key) == last
        assert await refused(here, key=key, x=2) == "call_reused"
    assert world.kinds() == ["first", "last"]


async def test_a_key_is_too_old_before_its_call_may_be_deleted(sqlite: str) -> None:
    """Refuse keys from far ahead: they would still be good when a call is deleted after a day."""
    async with served(sqlite, World()) as send:
        for days, is_taken in {0.8: True, 0.95: False, -0.05: True, -0.5: False}.items():
            key = key_made(time.time() - days * 24 * 3600)
            with (
                nullcontext() if is_taken else pytest.raises(MCPError, match="call key is too old")
            ):
                await send(key=key)
