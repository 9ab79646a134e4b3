"""Tests that a key means one thing in a round, in every style that reads answers by key."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.sdk import handler
from mrtr_options.sdk.current_request import protected
from mrtr_options.sdk.exception_shim import exception_shim
from mrtr_options.sdk.keys import KeyUsedTwice
from mrtr_options.sdk.suspended import ContinuationStore
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    capabilities,
    deliver,
    of_session,
    result,
)
from tests.sending import text_of

pytestmark = pytest.mark.anyio

Handler = handler.Handler


class Yes(BaseModel):
    yes: bool


PRICE = sdk.Question("ok", "Shall I tell you the price?", Yes)
WIPE = sdk.Question("ok", "Wipe the disk?", Yes)
YES: types.InputResponses = {"ok": types.ElicitResult(action="accept", content={"yes": True})}


def by_hand(first: sdk.Question[Yes], second: sdk.Question[Yes], wiped: list[str]) -> Handler:
    """Write a handler in E's style that reads one answer of the round for two questions."""

    async def tool(ctx: Context, params: Params) -> handler.Result:
        for question in (first, second):
            if sdk.answer_to(question, ctx, params) is None:
                return sdk.ask(question)
        wiped.append("disk")
        return result("done")

    return tool


def replayed(first: sdk.Question[Yes], second: sdk.Question[Yes], wiped: list[str]) -> Any:
    """Write the handler in B's and J's style."""

    async def tool(ctx: Any, params: Params) -> types.CallToolResult:
        for question in (first, second):
            await ctx.elicit(question)
        wiped.append("disk")
        return result("done")

    return tool


STYLES: dict[str, Callable[..., Handler]] = {
    "by hand": by_hand,
    "B": lambda *of: exception_shim(replayed(*of)),
    "J": lambda *of: sdk.keyed_replay(replayed(*of)),
    "ask_again": lambda *of: sdk.ask_again(by_hand(*of)),
    "guard": lambda *of: sdk.single_use(sdk.SqliteStore(":memory:"))(by_hand(*of)),
}


@pytest.mark.parametrize("style", STYLES)
async def test_an_answer_is_one_questions_and_a_second_use_names_both_places(style: str) -> None:
    wiped: list[str] = []
    tool = STYLES[style](PRICE, WIPE, wiped)
    asked = await deliver(tool)
    places = r"'ok' is used for two questions.*test_keys\.py.*test_keys\.py"
    # The guard tells its client that the round is in doubt; the cause is in the log.
    with pytest.raises((KeyUsedTwice, MCPError)) as raised:
        await deliver(tool, asked, YES)
    error = raised.value.__cause__ if style == "guard" else raised.value
    assert isinstance(error, KeyUsedTwice)
    assert re.search(places, str(error), re.DOTALL)
    assert wiped == []


@pytest.mark.parametrize("style", STYLES)
async def test_the_same_question_has_the_same_answer_as_often_as_it_is_asked_for(
    style: str,
) -> None:
    wiped: list[str] = []
    tool = STYLES[style](PRICE, sdk.Question("ok", "Shall I tell you the price?", Yes), wiped)
    assert text_of(await deliver(tool, await deliver(tool), YES)) == "done"
    assert wiped == ["disk"]


async def test_two_rounds_of_an_old_client_may_use_a_key_for_two_questions() -> None:
    class Stage(BaseModel):
        told: bool = False

    @sdk.legacy_shim
    async def tool(ctx: Context, params: Params) -> handler.Result:
        stage = sdk.load_state(params, Stage)
        if not stage.told:
            if sdk.answer_to(PRICE, ctx, params) is None:
                return sdk.ask(PRICE)
            return sdk.ask(WIPE, Stage(told=True))
        assert sdk.answer_to(WIPE, ctx, params) is not None
        return result("done")

    async def user(request: types.ServerRequest) -> types.InputResponse:
        return YES["ok"]

    session = FakeSession(capabilities(form=True), can_send_request=True, user=user)
    with protected("server"):
        response = await deliver(tool, ctx=of_session(session, modern=False))
    assert text_of(response) == "done"
    assert len(session.pushed) == 2


# --- the effects of a call that is kept (H) ------------------------------------------------------


@pytest.mark.parametrize("is_under_way", [False, True])
async def test_a_key_is_one_effects_in_a_call_and_a_second_use_names_both_places(
    is_under_way: bool,
) -> None:
    paid: list[int] = []

    async def tool(ctx: Any, call: object) -> types.CallToolResult:
        async def pay_both() -> None:
            paid.append(1)
            await ctx.once("pay", partial(paid.append, 2))

        first = pay_both if is_under_way else partial(paid.append, 1)
        await ctx.once("pay", first)
        await ctx.once("pay", partial(paid.append, 2))
        return result("both are paid")

    async with ContinuationStore() as store:
        with pytest.raises(KeyUsedTwice, match="'pay' is used for two effects") as twice:
            await deliver(store.linear(tool))
    assert paid == [1]
    assert str(twice.value).count("test_keys.py") == 2


async def test_an_effect_that_raised_may_be_tried_again_under_its_key() -> None:
    async def tool(ctx: Any, call: object) -> types.CallToolResult:
        with suppress(ZeroDivisionError):
            await ctx.once("pay", lambda: 1 / 0)
        return result(await ctx.once("pay", lambda: "paid"))

    async with ContinuationStore() as store:
        assert text_of(await deliver(store.linear(tool))) == "paid"
