"""Tests of option L when the code of a call changes: questions, handlers and versions."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest

from mrtr_options.sdk.durable import CallParams
from mrtr_options.sdk.durable.events import Begun, Ended
from mrtr_options.sdk.durable.sealing import Seal, Unreadable
from mrtr_options.sdk.questions import Question
from tests.sdk.durable_calls import (
    Ctx,
    World,
    asked_by,
    couple,
    finish,
    held_until,
    refused,
    served,
)
from tests.sdk.fakes import ON_ASYNCIO, Name, key_of, named, result, who
from tests.sending import Response, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


def a_price_that_rises(
    may_pay: anyio.Event, is_answered: anyio.Event | None = None
) -> Callable[[Ctx, CallParams], Awaitable[types.CallToolResult]]:
    prices = itertools.count(10)

    async def wait(key: str) -> None:
        if is_answered is not None:
            is_answered.set()
        await may_pay.wait()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        price = next(prices)
        await ctx.elicit(Question("who", f"Who pays {price}?", Name))
        await ctx.step("wait", wait)
        await ctx.step("pay", lambda key: ctx.lifespan_context.do(f"pay {price}", key))
        return result(f"paid {price}")

    return handler


def asks(response: Response) -> str:
    assert isinstance(response, types.InputRequiredResult)
    assert response.input_requests is not None
    (request,) = response.input_requests.values()
    assert isinstance(request, types.ElicitRequest)
    return request.params.message


async def test_an_answer_is_used_for_the_question_that_the_user_saw(engine: str) -> None:
    world = World()
    may_pay = anyio.Event()
    may_pay.set()
    handler = a_price_that_rises(may_pay)
    async with served(engine, world, handler) as send:
        ten = await send()
    async with served(engine, world, handler) as send:
        eleven = await send(named("Ann", "who"), ten)
        assert asks(ten) == "Who pays 10?"
        assert asks(eleven) == "Who pays 11?"
        assert text_of(await send(named("Ann", "who"), eleven)) == "paid 11"
    assert world.kinds() == ["pay 11"]


async def test_a_call_ends_whose_answered_question_changes_when_it_begins_again(
    engine: str,
) -> None:
    world = World()
    may_pay = anyio.Event()
    is_answered = anyio.Event()
    handler = a_price_that_rises(may_pay, is_answered)
    async with served(engine, world, handler, wait_seconds=0.5) as send:
        ten = await asked_by(send)
        await held_until(is_answered.is_set, send, await send(named("Ann", "who"), ten))
    may_pay.set()
    async with served(engine, world, handler) as send:
        for _ in range(2):
            assert await refused(send, named("Ann", "who"), ten) == "gave_up"
    assert world.kinds() == []


@pytest.mark.parametrize("way", ["new", "new old", ""])
async def test_a_call_ends_whose_handler_does_otherwise_when_it_runs_again(
    engine: str, way: str
) -> None:
    world = World()
    kinds = ["old"]

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        for kind in kinds:
            await ctx.step(kind, lambda key, kind=kind: world.do(kind, key))
        await ctx.elicit(who("one"))
        await ctx.elicit(who("two"))
        return result("done")

    async with served(engine, world, handler) as send:
        first = await asked_by(send)
        second = await send(named("Ann", "one"), first)
    kinds[:] = way.split()
    async with served(engine, world, handler) as send:
        for answers, asked in 2 * [(named("Bob", "two"), second), (named("Ann", "one"), first)]:
            if asked is second or engine.startswith("sqlite"):  # Temporal repeats recorded rounds
                assert await refused(send, answers, asked) == "gave_up"
    assert world.kinds().count("old") == 1
    assert "new" not in world.kinds()


async def test_a_text_can_be_read_in_its_place_only() -> None:
    text = Seal(None).write(Ended(ValueError("x")), "here")
    assert isinstance(Seal(None).read(Ended, text, "here").outcome, ValueError)
    for kind, place in (Ended, "there"), (Begun, "here"):
        with pytest.raises(Unreadable):
            Seal(None).read(kind, text, place)


async def another(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    return await couple(ctx, call)


@pytest.mark.slow
@pytest.mark.parametrize(("handler", "version"), [(couple, "2"), (another, "1")])
async def test_a_call_of_a_version_or_handler_of_which_no_instance_is_left_is_refused(
    engine: str, handler: Any, version: str
) -> None:
    old = World()
    new = World()
    async with served(engine, old, version="1") as send:
        first = await send()
    async with served(engine, new, handler, version=version) as send:
        for _ in range(2):
            assert await refused(send, named("Ann", "one"), first) == "other_version"
        assert key_of(await send()) == "one"
    assert new.entered == 1
    async with served(engine, old, version="1") as send:  # roll the deployment back
        assert await finish(send, first, send) == "Ann and Bob"
    assert old.kinds() == ["first", "last"]


async def test_a_version_may_have_the_sign_that_marks_a_stores_calls(engine: str) -> None:
    async with served(engine, World(), version="build#42") as send:
        assert await finish(send, await asked_by(send), send) == "Ann and Bob"


async def test_old_and_new_instances_in_turn_finish_a_call_on_the_code_it_began_on(
    engine: str,
) -> None:
    old = World()
    new = World()
    old_one = served(engine, old, version="1")
    new_one = served(engine, new, version="2")
    async with old_one as send_old, new_one as send_new:
        for first, last in ((send_old, send_new), (send_new, send_old)):
            assert await finish(last, await first(), last) == "Ann and Bob"
    assert old.entered == 1
    assert new.entered == 1
    assert old.kinds() == new.kinds() == ["first", "last"]
