"""Tests of `ctx.until` of H, J and L: a tool waits for work done elsewhere, seconds for minutes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from examples.pay_by_link import Shop, buy
from mrtr_options.sdk import waiting
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.suspended import CallParams, ContinuationStore, LinearContext
from mrtr_options.sdk.waiting import NotInTime
from tests.sdk.durable_calls import Send, asked_by, ended, held_until, served
from tests.sdk.fakes import ON_ASYNCIO, Params, capabilities, deliver, modern, result, until
from tests.sending import text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

CLIENT = capabilities(form=True, url=True)
OPENED: types.InputResponses = {"pay": types.ElicitResult(action="accept")}


class Provider:
    """The provider of the payment and the carrier.

    Attributes:
        receipt: The receipt; None until the payment has arrived.
        looks: How often the tool has asked for it.
        parcels: The parcels that were shipped.
    """

    def __init__(self) -> None:
        self.receipt: str | None = None
        self.looks = 0
        self.parcels: list[str] = []

    async def receipt_of(self, order: str) -> str | None:
        self.looks += 1
        return self.receipt

    async def ship(self, order: str, key: str) -> str:
        self.parcels.append(order)
        return "parcel"


@asynccontextmanager
async def serving(provider: Provider, url: str, seconds: float) -> AsyncGenerator[Send]:
    """Serve the example for a bounded time; the function sends a round of an order."""
    shop = Shop(provider.receipt_of, provider.ship, seconds, poll_seconds=0.05)
    async with served(url, shop, buy, while_working="form", wait_seconds=0.3) as send:
        yield partial(send, ctx=modern(CLIENT), order="A1")


async def test_a_payment_by_link_that_arrives_after_a_restart_is_found_and_shipped_once(
    sqlite: str,
) -> None:
    provider = Provider()
    async with serving(provider, sqlite, 60.0) as send:
        held = await send(OPENED, await asked_by(send))
        held = await held_until(lambda: provider.looks > 0, send, held)  # the answer is on record
    assert isinstance(held, types.InputRequiredResult)
    asked = types.InputRequiredResult(request_state=held.request_state)
    before = provider.looks
    async with serving(provider, sqlite, 60.0) as send:
        await until(lambda: provider.looks > before)
        assert provider.parcels == []
        provider.receipt = "receipt 7"
        said = text_of(await ended(send, await send(None, asked)))
    assert said == "Order A1 is paid (receipt 7) and shipped (parcel)."
    assert provider.parcels == ["A1"]


async def test_a_payment_that_does_not_arrive_ends_in_an_outcome_of_its_own(engine: str) -> None:
    provider = Provider()
    async with serving(provider, engine, 0.5) as send:
        said = text_of(await ended(send, await send(OPENED, await asked_by(send))))
    assert "was not paid in time" in said
    assert provider.parcels == []


@pytest.mark.parametrize("is_paid", [True, False])
async def test_a_frame_in_memory_waits_as_long_as_its_process_lives(is_paid: bool) -> None:
    looks = list[int]()

    def check() -> str | None:
        looks.append(1)
        return "receipt 7" if is_paid and len(looks) > 3 else None

    async def handler(ctx: LinearContext[Any], call: CallParams) -> types.CallToolResult:
        try:
            found = await ctx.until("payment", check, seconds=0.3, poll_seconds=0.02)
        except NotInTime as error:
            return result(str(error))
        return result(found)

    async with ContinuationStore(idle_seconds=0.1) as frames:  # its client waits all the while
        says = text_of(await deliver(frames.linear(handler), ctx=modern(CLIENT)))
    assert says == ("receipt 7" if is_paid else "'payment' was not there after 0.3 s")


async def test_an_error_of_another_server_that_a_look_asks_is_no_answer_of_its_tool() -> None:
    def look() -> str:
        raise MCPError(types.REQUEST_TIMEOUT, "timed out")

    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        return result(await ctx.until("payment", look, seconds=600))

    with pytest.raises(RuntimeError, match="MCPError: timed out"):
        await deliver(keyed_replay(handler))


async def test_the_state_of_a_long_wait_holds_its_last_turn_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "ROUND_WAIT_SECONDS", 0.0)

    async def handler(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        return result(await ctx.until("payment", lambda: None, seconds=600))

    tool = keyed_replay(handler)
    asked: Any = await deliver(tool)
    lengths: list[int] = []
    for _ in range(3):
        yes = types.ElicitResult(action="accept", content={"go_on": "yes"})
        asked = await deliver(tool, asked, dict.fromkeys(asked.input_requests, yes))
        lengths.append(len(asked.request_state))
    assert len({*lengths}) == 1
