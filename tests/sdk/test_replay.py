"""Tests of keyed replay: recorded values are used again, and a round ends when it has asked."""

import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from copy import copy
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from annotated_types import Predicate
from pydantic import BaseModel, Field, SecretStr, create_model

from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.sdk.effects import CallEffects, value_of
from mrtr_options.sdk.handler import await_result
from mrtr_options.sdk.keys import KeyUsedTwice
from mrtr_options.sdk.questions import BadAnswer, Cancelled, Declined, ask
from mrtr_options.sdk.replay import (
    MAX_READS,
    CommitFailed,
    ReplayContext,
    keyed_replay,
)
from mrtr_options.sdk.server import Tool, text
from mrtr_options.tool.weather import Question
from tests.sdk.fakes import (
    Name,
    Params,
    deliver,
    key_of,
    modern,
    named,
    no,
    play,
    result,
    unfit,
    who,
)
from tests.sending import Response, text_of

pytestmark = pytest.mark.anyio

Replay = ReplayContext[Any]


class World:
    """A world that lists effects and computations in order, and their idempotency keys."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.keys: list[str] = []
        self.fails: set[str] = set()

    def effect(self, name: str) -> Callable[[str], Awaitable[None]]:
        async def do(key: str) -> None:
            await anyio.lowlevel.checkpoint()
            if name in self.fails:
                self.fails.remove(name)
                raise ZeroDivisionError(name)
            self.done.append(name)
            self.keys.append(key)
            await anyio.lowlevel.checkpoint()

        return do

    async def count(self) -> int:
        await self.effect("count")("")
        return len(self.done)


def state_of(response: Response) -> dict[str, Any]:
    assert isinstance(response, types.InputRequiredResult)
    return json.loads(response.request_state or "")


CHANGED: tuple[Any, ...] = (
    object(),
    float("nan"),
    {1, 2},
    {1: "a"},
    ("a", "b"),
    [("a",)],
    Decimal("19.90"),
    "\ud800",
)
"""Values that JSON cannot hold, or turns into other values."""


async def test_a_memo_is_the_same_value_in_each_round_or_an_error_and_may_be_tried_again() -> None:
    seen: list[Any] = []

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        for bad in CHANGED:
            with pytest.raises((TypeError, ValueError)):
                await ctx.memo("bad", partial(copy, bad))
        value: Any = await ctx.memo("value", lambda: {"1": ["a", 2.5, None]})
        seen.append(copy(value))
        value["changed"] = True  # this must not change the record
        await ctx.elicit(who())
        return result("")

    await play(tool, named("Ann"))
    assert seen == [{"1": ["a", 2.5, None]}] * 2


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", {"\ud800": 1}])
async def test_an_effect_that_returns_what_has_no_json_is_done_and_its_value_is_none(
    value: object,
) -> None:
    seen: list[object] = []

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        seen.append(await ctx.once("pay", lambda key: value))
        await ctx.elicit(who())
        return result("paid")

    assert text_of(await play(tool, named("Ann"))) == "paid"
    assert seen == [None, None]


@pytest.mark.parametrize("kind", [int, "OnlyForTypeCheckers"])
def test_a_recorded_value_that_is_not_of_its_effects_type_is_as_json_has_it(kind: object) -> None:
    def effect() -> None: ...

    effect.__annotations__["return"] = kind
    assert value_of(effect, {"id": 1}) == {"id": 1}


class Paid(BaseModel):
    id: str


class Pending(BaseModel):
    id: str


class Aliased(BaseModel):
    read: str = Field(validation_alias="sent")
    written: str = Field(serialization_alias="shown")


ALIASED = Aliased.model_validate({"sent": "1", "written": "2"})
KINDS: dict[str, tuple[object, object, bool]] = {
    "aliases": (Aliased, ALIASED, True),
    "aliases within": (list[Aliased], [ALIASED], True),
    "a coroutine": (Coroutine[Any, Any, Paid], Paid(id="1"), True),
    "models with the same fields": (Paid | Pending, Pending(id="1"), False),
    "a secret": (SecretStr, SecretStr("1"), False),
}


@pytest.mark.parametrize("name", KINDS)
async def test_a_value_comes_back_as_its_effect_returned_it_or_the_log_says_that_it_does_not(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind, value, is_same = KINDS[name]
    seen: list[object] = []

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        def pay(key: str) -> object:
            return value

        pay.__annotations__["return"] = kind
        seen.append(await ctx.once("pay", pay))
        await ctx.elicit(who())
        return result("paid")

    await play(tool, named("Ann"))
    assert seen[0] == seen[1]
    assert (seen[0] == value) is is_same
    assert ("is not the same when it is read back" in caplog.text) is not is_same


class Incomparable(Paid):
    def __eq__(self, other: object) -> bool:
        raise ValueError("which element?")


async def test_a_value_that_cannot_be_compared_is_recorded() -> None:
    def pay() -> Incomparable:
        return Incomparable(id="1")

    assert await CallEffects().run("pay", pay) == {"id": "1"}


THEN: dict[str, Callable[[Replay, World], object]] = {
    "return": lambda ctx, world: None,
    "raise": lambda ctx, world: 1 / 0,
    "ask": lambda ctx, world: ctx.elicit(who("other")),
    "memo": lambda ctx, world: ctx.memo("number", world.count),
    "once": lambda ctx, world: ctx.once("audit", world.effect("audit")),
    "commit": lambda ctx, world: ctx.on_commit(world.effect("more"), key="more"),
}


@pytest.mark.parametrize("then", THEN)
async def test_a_swallowed_question_or_bad_answer_ends_the_round_without_effects(then: str) -> None:
    world = World()

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        ctx.on_commit(world.effect("bill"))
        try:
            return result((await ctx.elicit(who())).name)
        except:  # noqa: E722
            await await_result(THEN[then](ctx, world))
            return result("went on without asking")

    asked = await deliver(tool)
    assert key_of(asked) == "who"
    with pytest.raises(BadAnswer, match="'who' does not fit"):
        await deliver(tool, asked, unfit())
    assert world.done == []
    assert text_of(await deliver(tool, asked, named("Ann"))) == "Ann"
    assert world.done == ["bill"]


USES: dict[str, Callable[[Replay, World, str], Coroutine[Any, Any, object]]] = {
    "once": lambda ctx, world, name: ctx.once("key", world.effect(name)),
    "memo": lambda ctx, world, name: ctx.memo("key", partial(world.effect(name), "")),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("at_once", [False, True])
async def test_a_key_is_one_effects_or_one_memos_in_a_round(use: str, at_once: bool) -> None:
    world = World()

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        if at_once:
            async with anyio.create_task_group() as tasks:
                for name in "AB":
                    tasks.start_soon(USES[use], ctx, world, name)
        for name in "AB":
            with suppress(Exception):  # the round ends anyway
                await USES[use](ctx, world, name)
        return result("")

    with pytest.raises(KeyUsedTwice, match="the key 'key' is used for two"):
        await deliver(tool)
    assert len(world.done) == 1 or (at_once and not world.done)


async def test_a_key_of_a_memo_and_the_same_of_an_effect_are_two_and_none_need_be_async() -> None:
    done: list[str] = []

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        done.append(await ctx.memo("x", lambda: "memo"))
        await ctx.once("x", done.append)
        ctx.on_commit(done.append, key="x")
        with pytest.raises(ValueError, match="'x'"):
            ctx.on_commit(done.append, key="x")
        return result("")

    await deliver(tool)
    assert done[0] == "memo"
    assert len({*done}) == len(done) == 3


Reworded = Question("who", "Who, exactly?", Name)
Longer = Question("who", "Who is who?", create_model("Longer", __base__=Name, age=(int, 7)))
NotAnn = Annotated[str, Predicate("Ann".__ne__)]
Stricter = Question(
    "who", "Who is who?", create_model("Name", __doc__=Name.__doc__, name=(NotAnn, ...))
)
"""A question with the same schema and a stricter check."""


@pytest.mark.parametrize(
    ("reworded", "settled"),
    [*product((Reworded, Longer), (False, True)), (Stricter, True)],
    ids=["message", "message-settled", "schema", "schema-settled", "check-settled"],
)
async def test_an_answer_to_a_question_that_was_changed_is_asked_for_again(
    reworded: Question[Any], settled: bool
) -> None:
    """Change the question as a new version does that is deployed before or after the answer."""
    first: Question[Any] = who()

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        name = (await ctx.elicit(first)).name
        await ctx.elicit(who("next"))
        return result(name)

    asked = await deliver(tool)
    if settled:
        asked = await deliver(tool, asked, named("Ann"))
        assert key_of(asked) == "next"
    first = reworded
    asked = await deliver(tool, asked, named("Ann") | named("Cid", "next"))
    assert key_of(asked) == "who"
    assert isinstance(asked, types.InputRequiredResult)
    asked = await deliver(tool, asked, named("Bob"))
    if not settled:
        asked = await deliver(tool, asked, named("Cid", "next"))
    assert text_of(asked) == "Bob"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_no_is_a_recorded_answer(action: Literal["decline", "cancel"]) -> None:
    heard: list[str] = []

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        try:
            await ctx.elicit(who())
        except (Declined, Cancelled) as said:
            heard.append(said.key)
        await ctx.elicit(who("next"))
        return result("done")

    asked = await play(tool, no(action=action))
    assert key_of(asked) == "next"
    assert "Eve" not in json.dumps(state_of(asked)), "content that came along with a no is kept"
    assert text_of(await deliver(tool, asked, named("Eve") | named("Cid", "next"))) == "done"
    assert heard == ["who"] * 2


@pytest.mark.parametrize("can_be_asked", [True, False])
async def test_a_loop_that_asks_until_the_answer_changes_is_told_what_to_do(
    can_be_asked: bool,
) -> None:
    turns = 0

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        nonlocal turns
        while turns < 5 * MAX_READS and (await ctx.elicit(who(assumed="Ann"))).name != "Bob":
            turns += 1
        return result("no loop")

    second: tuple[Any, ...] = (await deliver(tool), named("Ann")) if can_be_asked else ()
    with pytest.raises(RuntimeError, match="give each turn of a loop a key of its own"):
        await deliver(tool, *second, ctx=modern(forms=can_be_asked))
    assert turns == MAX_READS


@pytest.mark.parametrize(
    "ending", ["error result", "question", "exception", "decline", "no return"]
)
async def test_commits_do_not_run_where_the_call_failed(ending: str) -> None:
    world = World()

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> Any:
        ctx.on_commit(world.effect("bill"))
        await ctx.elicit(who())
        if ending == "exception":
            raise ZeroDivisionError
        if ending == "question":
            return ask(who("another"))
        return None if ending == "no return" else text("no", is_error=True)

    answers = no() if ending == "decline" else named("Ann")
    with suppress(ZeroDivisionError, Declined, TypeError):
        response = await play(tool, answers)
        assert ending in ("error result", "question"), response
    assert world.done == []


async def test_effects_to_commit_run_in_order_and_a_repeated_one_hands_on_its_key() -> None:
    world = World()
    world.fails = {"two"}

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        await ctx.elicit(who())
        for name in ("one", "two", "three"):
            ctx.on_commit(world.effect(name), key=name)
        return result("done")

    asked = await deliver(tool)
    assert world.done == []
    with pytest.raises(CommitFailed, match="'two' failed after 1 of 3") as failure:
        await deliver(tool, asked, named("Ann"))
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    await deliver(tool, asked, named("Ann"))
    assert world.done == ["one", "one", "two", "three"]
    assert world.keys[0] == world.keys[1]
    assert len(set(world.keys)) == 3


async def test_nothing_can_be_asked_once_the_call_has_ended() -> None:
    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        async def ask(key: str) -> None:
            await ctx.elicit(who())

        ctx.on_commit(ask)
        return result("")

    with pytest.raises(CommitFailed) as failure:
        await deliver(tool)
    assert "has ended" in str(failure.value.__cause__)


async def test_an_effect_that_asks_is_told_to_ask_first() -> None:
    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        await ctx.once("pay", lambda _: ctx.elicit(who()))
        return result("")

    with pytest.raises(RuntimeError, match="ask first"):
        await deliver(tool)


async def test_an_effects_key_is_of_its_call_and_name() -> None:
    world = World()

    @keyed_replay
    async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
        for name in "first", "second":
            await ctx.once(name, world.effect(name))
        await ctx.elicit(who())
        return result("")

    asked = await deliver(tool)
    assert state_of(asked)["call"] not in "".join(world.keys), (
        "a destination learns the call's number"
    )
    key = new_call_key()
    for given, x in (key, 1), (key, 1), (key, 2), (new_call_key(), 1), (None, 1), (None, 1):
        await deliver(tool, key=given, x=x)
    assert world.keys[2:4] == world.keys[4:6], "two requests of one call have two keys"
    assert len({*world.keys}) == 2 * 6, "two calls or two effects share a key"


class Amount(BaseModel):
    amount: int = 40


async def test_a_call_made_again_in_other_words_has_the_idempotency_keys_of_the_first() -> None:
    world = World()

    async def pay(ctx: Replay, params: Params) -> types.CallToolResult:
        await ctx.once("pay", world.effect("pay"))
        return result("paid")

    tool = Tool("tool", "Pays.", Amount, keyed_replay(pay)).call
    key = new_call_key()
    said: list[dict[str, Any]] = [{"x": 0}, {"amount": 40}, {"amount": "40"}, {"amount": 41}]
    for each in said:
        await deliver(tool, key=key, **each)
    assert world.keys[0] == world.keys[1] == world.keys[2] != world.keys[3]


async def test_a_round_waits_for_an_effect_that_is_in_flight() -> None:
    """Leave a task that no code awaits any more, as `asyncio.gather` does."""
    world = World()
    begun = anyio.Event()
    may_end = anyio.Event()
    responses: list[Response] = []

    async def slow(key: str) -> None:
        begun.set()
        await may_end.wait()
        world.done.append("audit")

    async with anyio.create_task_group() as others:

        @keyed_replay
        async def tool(ctx: Replay, params: Params) -> types.CallToolResult:
            others.start_soon(ctx.once, "audit", slow)
            await begun.wait()
            await ctx.elicit(who())
            return result("")

        async def call() -> None:
            responses.append(await deliver(tool))

        others.start_soon(call)
        await begun.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert responses == []
        may_end.set()
    assert state_of(responses[0])["done"] == ["audit"]
