"""Tests of what travels in the state: long answers and values, and answers under a form's names."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.demo.call import agree
from mrtr_options.sdk import exception_shim, handler, positional_replay
from mrtr_options.sdk.questions import MAX_STATE_BYTES, length_in_token
from mrtr_options.sdk.tool_builder import ToolBuilder
from tests.sdk.fakes import (
    Context,
    Name,
    Params,
    asking,
    deliver,
    key_of,
    modern,
    named,
    play,
    refused,
    result,
    who,
)
from tests.sdk.shop import TIERS, Make, User, calls_in, told
from tests.sending import text_of

pytestmark = pytest.mark.anyio

LONG = "a" * 20_000


class Names(BaseModel):
    names: list[str] = []
    own: str = ""


def by_hand(own: str = "") -> handler.Handler:
    """Write a handler in E's style: it asks "who" and "next", and keeps the first answer."""

    async def tool(ctx: Context, params: Params) -> handler.Result:
        state = sdk.load_state(params, Names)
        if not state.names:
            answer = sdk.answer_to(who(), ctx, params)
            if answer is None:
                return sdk.ask(who(), state)
            state.names.append(answer.name)
            state.own = own
        answer = sdk.answer_to(who("next"), ctx, params)
        if answer is None:
            return sdk.ask(who("next"), state)
        return result(f"{state.names[0]} and {answer.name}")

    return tool


def built() -> handler.Handler:
    """Write the same handler in G's style."""

    def first(ctx: Context, params: Params, values: sdk.Values) -> sdk.Question[Name]:
        return who()

    def second(ctx: Context, params: Params, values: sdk.Values) -> sdk.Question[Name]:
        return who("next")

    def end(ctx: Context, params: Params, values: sdk.Values) -> types.CallToolResult:
        names = [values.get(step, Name).name for step in ("who", "next")]
        return result(" and ".join(names))

    return ToolBuilder[Any]().step("who", first).step("next", second).end(end).build()


REPLAYS: dict[str, Any] = {
    "B": exception_shim.exception_shim,
    "M": positional_replay.positional_replay,
}
STYLES: dict[str, Callable[[], handler.Handler]] = {
    "E": by_hand,
    "G": built,
    "J": lambda: sdk.keyed_replay(asking("who", "next")),
    **{style: partial(replay, asking("who", "next")) for style, replay in REPLAYS.items()},
}


@pytest.mark.parametrize("style", STYLES)
async def test_an_answer_with_which_the_state_is_too_long_is_refused_or_asked_for_again(
    style: str,
) -> None:
    plain, again = STYLES[style](), sdk.ask_again(STYLES[style]())
    asked = await deliver(plain)
    key = key_of(asked)
    with pytest.raises(sdk.BadAnswer, match="does not fit the question: it is too long") as no:
        await deliver(plain, asked, named(LONG, key))
    assert no.value.code == types.INVALID_PARAMS
    asked = await deliver(again, await deliver(again), named(LONG, key))
    assert key_of(asked) == key
    then = await deliver(again, asked, named("Ann", key))
    assert text_of(await deliver(again, then, named("Bob", key_of(then)))) == "Ann and Bob"


@pytest.mark.parametrize("style", STYLES)
async def test_an_answer_of_another_type_does_not_fit(style: str) -> None:
    said = types.TextContent(text="Ann")
    message = types.CreateMessageResult(role="assistant", content=said, model="m")
    with closing(sdk.SqliteStore(":memory:")) as store:
        for tool in STYLES[style](), sdk.single_use(store)(STYLES[style]()):
            asked = await deliver(tool)
            told = await refused(tool, asked, {key_of(asked): message})
            assert told == (types.INVALID_PARAMS, "invalid_answer")


async def test_an_answer_may_fill_the_state_to_its_last_byte() -> None:
    tool = by_hand()
    asked = await deliver(tool)
    short = await deliver(tool, asked, named("Ann"))
    assert isinstance(short, types.InputRequiredResult)
    room = MAX_STATE_BYTES - length_in_token(short.request_state or "") + len("Ann")
    assert key_of(await deliver(tool, asked, named("a" * room))) == "next"
    with pytest.raises(sdk.BadAnswer):
        await deliver(tool, asked, named("a" * (room + 1)))


@pytest.mark.parametrize("style", "EG")
async def test_the_last_answer_may_be_long_since_no_state_travels_after_it(style: str) -> None:
    ended = await play(STYLES[style](), named("Ann"), named(LONG, "next"))
    assert text_of(ended) == f"Ann and {LONG}"


async def test_a_state_that_is_long_by_itself_is_not_the_answers_fault() -> None:
    tool = by_hand(own=LONG)
    response = await deliver(tool, await deliver(tool), named("Ann"))
    assert key_of(response) == "next"  # a server would refuse the state when it seals it


class Sizes(BaseModel):
    size: int = Field(alias="how large")


@pytest.mark.parametrize("style", REPLAYS)
async def test_an_answer_under_its_forms_own_names_is_good_in_each_round(style: str) -> None:
    async def tool(ctx: Any, params: Params) -> types.CallToolResult:
        size = await ctx.elicit(sdk.Question("size", "How large?", Sizes))
        name = await ctx.elicit(who())
        await ctx.elicit(who("last"))
        return result(f"{size.size} for {name.name}")

    replayed = REPLAYS[style](tool)
    response = await deliver(replayed)
    for content in ({"how large": 7}, {"name": "Ann"}, {"name": "Bob"}):
        answer = types.ElicitResult(action="accept", content=dict[str, Any](content))
        response = await deliver(replayed, response, {key_of(response): answer})
    assert text_of(response) == "7 for Ann"


@pytest.mark.parametrize("style", REPLAYS)
async def test_what_is_assumed_says_so(style: str) -> None:
    class Assumed(Name):
        is_assumed: bool = True

    question = sdk.Question("who", "Who?", Name, Assumed(name="Nobody"))

    async def tool(ctx: Any, params: Params) -> types.CallToolResult:
        return result(type(await ctx.elicit(question)).__name__)

    response = await deliver(REPLAYS[style](tool), ctx=modern(forms=False))
    assert text_of(response) == "Assumed"


class Reference(BaseModel):
    reference: str


async def asking_on(ctx: sdk.ReplayContext[Any], params: Params) -> types.CallToolResult:
    """Ask for ever, and keep a long text with each answer."""
    text = sdk.arguments_of(params, Reference).reference * 700
    for turn in range(100):
        await ctx.memo(f"text {turn}", lambda: text)
        await ctx.elicit(who(f"name {turn}"))
    return result("the state had room for all")


@pytest.mark.parametrize("character", ["x", '"', "é"])
@pytest.mark.parametrize("is_guarded", [True, False])
async def test_a_call_whose_state_grows_too_long_ends_in_one_refusal_and_no_answer_is_blamed(
    character: str, is_guarded: bool
) -> None:
    store = sdk.SqliteStore(":memory:")
    guard = sdk.single_use(store, call="reference", call_is_secret=True)
    wrappers = [guard] if is_guarded else []
    tool = sdk.Tool("asks", "Asks.", Reference, sdk.keyed_replay(asking_on), wrappers)
    server = sdk.build_server("asking", tool)

    async with Client(server, elicitation_callback=agree, input_required_max_rounds=100) as caller:
        for _ in range(2):
            with pytest.raises(MCPError, match="too long to travel") as no:
                await caller.call_tool("asks", {"reference": character})
            assert no.value.code == types.INTERNAL_ERROR
            assert no.value.data["reason"] == "too_long"
    store.close()


@TIERS
async def test_a_call_whose_state_is_too_long_after_an_effect_is_in_doubt_where_the_state_travels(
    make: Make, path: Path
) -> None:
    server = make("shop")

    @calls_in(path).tool(server, name_by="reference")
    async def refund(call: sdk.Call, order: str, reference: str, amount: int) -> str:
        report = await call.once("refund", lambda: "x" * 20_000)
        return f"{len(report)}, receipt {await call.confirm('A receipt?')}"

    for _ in range(2):
        assert "It did something, or may have: 'refund'" in await told(server, User())
    assert len(await sdk.SqliteStore(path).doubtful()) == 1
    assert await told(server, User(), "legacy", reference="r-2") == "20000, receipt True"
