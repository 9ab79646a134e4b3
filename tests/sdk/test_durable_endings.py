"""Tests of what the name of a durable call is after each ending."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.sdk.durable import CallParams, DurableStore
from tests.bounds import SECONDS
from tests.sdk.durable_calls import Ctx
from tests.sdk.fakes import ON_ASYNCIO, deliver, named, result, who
from tests.sending import Response

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

Send = Callable[..., Awaitable[Response]]


class Wanted(BaseModel):
    """The arguments."""

    reference: int
    amount: int = 100


async def play(
    url: str,
    handler: Callable[[Ctx, CallParams], Awaitable[types.CallToolResult]],
    scene: Callable[[Send], Awaitable[None]],
) -> None:
    """Serve a tool whose calls are named by their reference, and play a scene with it."""
    store = DurableStore(version="1", wait_seconds=SECONDS)
    made = store.linear(handler, call="reference", call_is_secret=True)
    tool = sdk.Tool("pay", "Pays.", Wanted, made)

    async def send(asked: Any = None, answers: Any = None, **arguments: Any) -> Response:
        return await deliver(tool.call, asked, answers, reference=1, **arguments)

    with anyio.fail_after(SECONDS):
        async with store.serving(None, database=url):
            await scene(send)


def texts(response: Any) -> str:
    """Return the texts of a result."""
    return " ".join(each.text for each in response.content)


async def reason_of(call: Awaitable[object]) -> dict[str, Any]:
    """Return the data of the error that a round ends in."""
    with pytest.raises(MCPError) as refusal:
        await call
    return refusal.value.error.data


async def test_a_refusal_after_a_step_keeps_the_name_and_says_what_was_done(sqlite: str) -> None:
    charged: list[str] = []

    async def receipt(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        assert await ctx.memo("price", lambda: 5) == 5
        await ctx.step("pay", charged.append)
        await ctx.elicit(who("two"))
        return result("paid")

    async def scene(send: Send) -> None:
        asked = await send()
        assert await send(amount="100") == asked, "a default written out makes no other call"
        refused = await send(asked, {"two": types.ElicitResult(action="decline")})
        assert "'two' was declined" in texts(refused)
        assert "'pay'" in texts(refused)
        assert await send() == refused

    await play(sqlite, receipt, scene)
    assert len(charged) == 1


async def test_a_refusal_before_any_step_and_a_call_that_is_not_done_free_the_name(
    sqlite: str,
) -> None:
    entered: list[int] = []

    async def pay(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        entered.append(len(entered))
        await ctx.elicit(who("one"))
        if len(entered) == 2:
            raise sdk.NotDone("Nothing was paid.")
        return result("paid")

    async def scene(send: Send) -> None:
        await send(await send(), {"one": types.ElicitResult(action="decline")})
        assert texts(await send(await send(), named("Ann", "one"))) == "Nothing was paid."
        assert texts(await send(await send(), named("Ann", "one"))) == "paid"

    await play(sqlite, pay, scene)
    assert len(entered) == 3


async def test_a_step_that_raised_is_told_as_in_doubt_at_once_and_again(sqlite: str) -> None:
    charged: list[str] = []

    async def pay(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        def charge(key: str) -> None:
            charged.append(key)
            raise TimeoutError

        await ctx.step("pay", charge)
        return result("paid")

    async def scene(send: Send) -> None:
        for _ in range(2):
            assert (await reason_of(send()))["reason"] == "indeterminate"

    await play(sqlite, pay, scene)
    assert len(charged) == 1


@pytest.mark.parametrize(("found", "told"), [(7, "charge 7"), (None, "")])
async def test_the_destination_is_asked_about_a_step_that_raised(
    found: Any, told: str, sqlite: str
) -> None:
    def charge(key: str) -> int:
        raise TimeoutError

    async def pay(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        return result(f"charge {await ctx.step('pay', charge, settled=lambda: found)}")

    async def scene(send: Send) -> None:
        if told:
            assert texts(await send()) == told
        else:
            assert (await reason_of(send()))["reason"] == "indeterminate"

    await play(sqlite, pay, scene)
