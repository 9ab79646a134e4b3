"""Tests of option L at work: the responses to its client, the names of calls, and refusals."""

from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.durable import CallParams, DurableStore
from mrtr_options.sdk.durable import store as durable_store
from mrtr_options.sdk.durable.embedded import Engine
from mrtr_options.sdk.waiting import GO_ON
from tests.sdk.durable_calls import (
    NAMED,
    ON,
    Ctx,
    World,
    asked_by,
    ended,
    held_until,
    refused,
    served,
)
from tests.sdk.fakes import ON_ASYNCIO, key_of, modern, named, no, result, who
from tests.sending import text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

FORM: dict[str, Any] = {"while_working": "form", "wait_seconds": 0.3}


def works_until(done: anyio.Event) -> Any:
    """Make a handler that asks, and then works until it may end."""

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        answer = await ctx.elicit(who())
        await done.wait()
        return result(answer.name)

    return handler


async def test_a_client_of_a_call_at_work_is_asked_whether_to_go_on_and_keeps_its_answer(
    sqlite: str,
) -> None:
    done = anyio.Event()
    async with served(sqlite, None, works_until(done), **FORM) as send:
        held = await send(named("Ann"), await asked_by(send))
        for _ in range(2):
            assert key_of(held) == GO_ON
            held = await send(ON, held)
        done.set()
        assert text_of(await ended(send, held)) == "Ann"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_who_does_not_want_to_wait_stops_the_call_which_keeps_its_name(
    sqlite: str, action: str
) -> None:
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        await ctx.step("charge", lambda key: world.do("charge", key))
        await anyio.sleep_forever()
        return result("never")

    async with served(sqlite, None, handler, how=NAMED, **FORM) as send:
        held = await send(named("Ann"), await asked_by(send))
        held = await held_until(lambda: bool(world.effects), send, held)
        for _ in range(2):
            with pytest.raises(MCPError, match="effects may have happened") as stopped:
                await send(no(GO_ON, action), held)
            assert stopped.value.data["reason"] == "stopped"
        assert await refused(send, ON, held) == "unknown_call"
        assert await refused(partial(asked_by, send)) == "unknown_call"
    assert world.kinds() == ["charge"]


async def test_a_no_to_waiting_is_held_no_longer_than_a_round_and_may_be_said_again(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits(*_: object) -> None:
        await anyio.sleep(100 * FORM["wait_seconds"])

    async with served(sqlite, None, works_until(anyio.Event()), **FORM) as send:
        held = await send(named("Ann"), await asked_by(send))
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "stop", waits)  # as for as long as the database is away
            patch.setattr(durable_store, "STOP_SECONDS", 0.0)
            held = await send(no(GO_ON), held)
        assert key_of(held) == GO_ON
        with pytest.raises(MCPError, match="The user stopped the call"):
            await send(no(GO_ON), held)


async def test_no_response_by_default_has_a_state_and_no_question_where_a_form_can_be_shown(
    sqlite: str,
) -> None:
    assert DurableStore().while_working == "form"
    assert DurableStore().wait_seconds < 60
    with pytest.raises(ValueError, match="while_working"):
        DurableStore(while_working="task")  # pyright: ignore[reportArgumentType]

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await anyio.sleep_forever()
        return result("never")

    async with served(sqlite, None, handler, **FORM) as send:
        assert key_of(await send()) == GO_ON
        alone = await send(ctx=modern(forms=False))
        assert isinstance(alone, types.InputRequiredResult)
        assert alone.input_requests is None
        assert alone.request_state
