"""The legacy shim: an old client gets the whole conversation of a handler that knows nothing of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

from mrtr_options.bench.client import MODES, Answerer, agreeable
from mrtr_options.bench.history import Era
from mrtr_options.sdk.legacy_shim import MAX_ROUNDS, legacy_shim
from mrtr_options.sdk.questions import BadAnswer, answer_to, ask, is_modern
from mrtr_options.tool.catalogue import option_named
from mrtr_options.tool.settings import Settings
from tests.bounds import SECONDS
from tests.rounds import call, counts, instance, send, settings, text_of
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    User,
    capabilities,
    modern,
    nobody,
    of_session,
    params,
    result,
    who,
)

pytestmark = pytest.mark.anyio

WRAPPED = {
    "E": ("2/1", "3/1"),
    "F": ("1/1", "1/1"),
    "G": ("1/1", "1/1"),
    "H": ("1/1", "1/1"),
    "J": ("1/1", "1/1"),
}
wrapped = pytest.mark.parametrize("letter", WRAPPED)


@asynccontextmanager
async def shimmed(
    letter: str, run_with: Settings, era: Era = "legacy", answer: Answerer | None = agreeable
) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A client of an option in the shim, for a bounded time, and what its user is asked by push."""
    asked: list[str] = []

    async def user(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        assert answer is not None
        assert isinstance(params, types.ElicitRequestFormParams)
        asked.append(params.message)
        return await answer(params)

    server = instance(letter, replace(run_with, wrappers=[legacy_shim]))
    callback = None if answer is None else user
    with anyio.fail_after(SECONDS):
        async with Client(server, mode=MODES[era], elicitation_callback=callback) as client:
            yield client, asked


# --- around the options -------------------------------------------------------------------------


@wrapped
@pytest.mark.parametrize("location", ["Tokyo", "Springfield"])
async def test_an_old_client_gets_the_whole_conversation(letter: str, location: str) -> None:
    run_with = settings()
    async with shimmed(letter, run_with) as (client, asked):
        response = await send(client, location)
    expected = await call(option_named("A"), "legacy", location)
    assert text_of(response) == expected.text
    assert asked == [message for message, _ in expected.questions]
    assert await counts(run_with) == WRAPPED[letter][location == "Springfield"]


@wrapped
@pytest.mark.parametrize("location", ["Tokyo", "Springfield"])
async def test_an_old_client_without_elicitation_is_not_asked(letter: str, location: str) -> None:
    run_with = settings()
    bare = await call(option_named(letter), "legacy", location, None)
    async with shimmed(letter, run_with, answer=None) as (client, asked):
        assert text_of(await send(client, location)) == bare.text
    assert asked == []
    assert await counts(run_with) == bare.effects


# --- the loop -----------------------------------------------------------------------------------


def legacy(*, can_send_request: bool = True, user: User = nobody) -> Context:
    session = FakeSession(capabilities(form=True), can_send_request=can_send_request, user=user)
    return of_session(session, modern=False)


async def accepting(request: types.ServerRequest) -> types.InputResponse:
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def test_without_a_back_channel_the_handler_sees_the_old_client_as_it_is() -> None:
    seen: list[tuple[Context, Params]] = []

    async def handler(ctx: Context, params: Params) -> types.CallToolResult:
        seen.append((ctx, params))
        return result("as it is")

    ctx, call = legacy(can_send_request=False), params()
    assert text_of(await legacy_shim(handler)(ctx, call)) == "as it is"
    assert seen == [(ctx, call)]
    assert not is_modern(seen[0][0])


async def test_a_modern_request_goes_straight_through() -> None:
    async def handler(ctx: Context, params: Params) -> types.InputRequiredResult:
        return ask(who())

    assert isinstance(await legacy_shim(handler)(modern(), params()), types.InputRequiredResult)


async def test_every_question_of_a_round_is_answered_and_the_state_comes_back() -> None:
    async def handler(ctx: Context, params: Params) -> types.CallToolResult | types.InputRequiredResult:
        assert is_modern(ctx)
        if params.request_state is None:
            both = {**(ask(who("one")).input_requests or {}), **(ask(who("two")).input_requests or {})}
            return types.InputRequiredResult(input_requests=both, request_state="kept")
        names = [answer_to(who(key), ctx, params) for key in ("one", "two")]
        assert all(name is not None and name.name == "Ann" for name in names)
        return result(params.request_state)

    assert text_of(await legacy_shim(handler)(legacy(user=accepting), params())) == "kept"


async def test_a_round_without_questions_is_just_another_round() -> None:
    async def handler(ctx: Context, params: Params) -> types.CallToolResult | types.InputRequiredResult:
        if params.request_state is None:
            return types.InputRequiredResult(request_state="later")
        return result(params.request_state)

    assert text_of(await legacy_shim(handler)(legacy(), params())) == "later"


async def test_a_handler_that_asks_for_ever_is_stopped() -> None:
    rounds = 0

    async def handler(ctx: Context, params: Params) -> types.InputRequiredResult:
        nonlocal rounds
        rounds += 1
        return ask(who())

    with pytest.raises(MCPError, match=f"still asks after {MAX_ROUNDS} rounds") as refusal:
        await legacy_shim(handler)(legacy(user=accepting), params())
    assert refusal.value.code == types.INTERNAL_ERROR
    assert rounds == MAX_ROUNDS


async def test_what_the_handler_raises_comes_out_as_it_is() -> None:
    async def handler(ctx: Context, params: Params) -> types.CallToolResult | types.InputRequiredResult:
        if answer_to(who(), ctx, params) is None:
            return ask(who())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await legacy_shim(handler)(legacy(user=accepting), params())

    async def confused(request: types.ServerRequest) -> types.InputResponse:
        return types.ElicitResult(action="accept")

    with pytest.raises(BadAnswer, match="'who'"):
        await legacy_shim(handler)(legacy(user=confused), params())
