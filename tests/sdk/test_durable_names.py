"""Named calls of options K and L: which call a first request is taken for.

`test_endings` has what is the same in the guard.
"""

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from pydantic import create_model

from mrtr_options import sdk
from mrtr_options.sdk.call_key import REPEAT, new_call_key
from mrtr_options.sdk.durable import CallAbandoned, CallParams
from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.durable.events import Begun
from mrtr_options.sdk.questions import Declined
from mrtr_options.sdk.tasks import TaskStore
from tests.bounds import SECONDS
from tests.sdk.durable_calls import NAMED, Ctx, World, refused, served
from tests.sdk.fakes import ON_ASYNCIO, key_of, modern, named, no, params, result, who
from tests.sending import Response, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


async def charge(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    """Ask, and then charge."""
    world: World = ctx.lifespan_context
    await ctx.elicit(who())
    await ctx.step("charge", lambda key: world.do("charge", key))
    return result("done")


async def test_a_call_that_is_made_again_gets_a_result_that_says_so(sqlite: str) -> None:
    async with served(sqlite, World(), charge, how=NAMED) as send:
        await send(named("Ann"), await send())
        repeat = await send.handler(modern(), params())
    assert isinstance(repeat, types.CallToolResult)
    assert set((repeat.meta or {})[REPEAT]) == {"since"}


@pytest.mark.parametrize("kind", ["L", "K"])
async def test_a_server_whose_unknown_callers_would_share_named_calls_is_not_built(
    kind: str,
) -> None:
    store = TaskStore()
    serve: Any = store.linear if kind == "L" else store.task
    arguments = create_model("Arguments", reference=str)
    tool = sdk.Tool("pay", "Pays.", arguments, serve(charge, call="reference"))
    with pytest.raises(ValueError, match="two strangers would share a call"):
        tool.check_calls(knows_callers=False, ttl_seconds=1)
    tool.check_calls(knows_callers=True, ttl_seconds=1)


async def test_a_call_that_its_user_declined_frees_its_name(engine: str) -> None:
    world = World()
    # Tests share Temporal, where names stay.
    of = {"x": "declined"}
    async with served(engine, world, charge, how=NAMED) as send:
        declined: list[Response] = []
        for _ in range(2):
            declined.append(await send(**of))
            for _ in range(2):  # a declined round that is sent again is declined again
                with pytest.raises(Declined):
                    await send(no(), declined[-1], **of)
        wanted = await send(**of, amount=2)
        assert await send(**of, amount=2) == wanted
        assert text_of(await send(named("Ann"), wanted, **of, amount=2)) == "done"
        for asked in declined:
            with pytest.raises(Declined):
                await send(no(), asked, **of)
        assert await refused(send, **of) == "call_reused"
    assert world.kinds() == ["charge"]


async def test_a_call_held_while_an_ended_one_of_its_name_is_looked_at_is_not_told_its_end(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()

    async def look(handle: str) -> None:
        await anyio.sleep_forever()

    async with served(sqlite, world, charge, how=NAMED) as send:
        with pytest.raises(Declined):
            await send(no(), await send())
        with monkeypatch.context() as patch:
            patch.setattr(send.store, "wait_seconds", 0.01)
            patch.setattr(send.store.engine, "look", look)
            held = await send()
        asked = await send(None, held)
        assert key_of(asked) == "who"
        assert text_of(await send(named("Ann"), asked)) == "done"
    assert world.kinds() == ["charge"]


async def test_a_call_whose_question_found_no_answer_in_time_frees_its_name(sqlite: str) -> None:
    given_up = anyio.Event()
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        try:
            return await charge(ctx, call)
        except Exception:
            return result("taken for a failure")
        except CallAbandoned:
            with pytest.raises(CallAbandoned):
                await ctx.elicit(who("another"))
            given_up.set()
            raise

    async with served(sqlite, world, handler, how=NAMED, idle_seconds=0.3) as send:
        asked = await send()
        await given_up.wait()
        assert await refused(send, named("Ann"), asked) == "unknown_call"
        assert key_of(await send()) == "who"
        assert await refused(send, named("Ann"), asked) == "unknown_call"
    assert world.kinds() == []


async def test_a_call_after_a_declined_one_is_known_for_as_long_as_any_other(sqlite: str) -> None:
    world = World()
    async with served(sqlite, world, charge, how=NAMED) as send, process(None) as here:
        with pytest.raises(Declined):
            await send(no(), await send())
        waiting = await send()
        for _ in range(2):
            await here.sweep(-1.0)  # a second ahead: the declined call ended long ago
        assert await send() == waiting
        assert text_of(await send(named("Ann"), waiting)) == "done"
        while await here.sweep(-1.0) == 0:
            await anyio.lowlevel.checkpoint()
        assert await here.sweep(-1.0) == 0
        assert key_of(await send()) == "who"
    assert world.kinds() == ["charge"]


# --- a call that ended in `Unknown` ---------------------------------------------------------------

NOT_KNOWN = "Not known whether it was sent. Call again."


def sending(world: World, found: Any, away: int = 1) -> Any:
    """Make a tool that pays, asks, and sends; at first nobody can tell whether it was sent.

    Args:
        world: The world in which it does so.
        found: What the carrier says once it can be asked.
        away: How often it cannot be asked.
    """
    asked: list[bool] = []
    numbers: list[int] = []

    def look() -> Any:
        if "send" not in world.kinds():
            return False
        asked.append(True)
        if len(asked) <= away:
            raise ConnectionError("the carrier is away")
        return found

    async def send_parcel(key: str) -> str:
        await world.do("send", key)
        if world.kinds().count("send") == 1:
            raise ConnectionError("the carrier is away")
        return "sent by now"

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        assert await ctx.memo("number", lambda: numbers.append(0) or len(numbers)) == 1
        assert await ctx.until("stock", lambda: len(numbers), seconds=SECONDS) == 1
        paid = await ctx.step("pay", lambda key: world.do("pay", key))
        name = await ctx.elicit(who())
        try:
            sent = await ctx.step("send", send_parcel, settled=look)
        except ConnectionError:
            raise sdk.Unknown(NOT_KNOWN) from None
        return result(f"{paid}, {sent} for {name.name}")

    return handler


@pytest.mark.parametrize(
    ("of", "found", "said", "effects"),
    [
        ({"x": "sent"}, "sent before", "pay done, sent before for Ann", ["pay", "send"]),
        ({"x": "not sent"}, False, "pay done, sent by now for Ann", ["pay", "send", "send"]),
        (
            {"x": "", "key": new_call_key()},
            False,
            "pay done, sent by now for Ann",
            ["pay", "send", "send"],
        ),
    ],
)
async def test_an_unknown_call_that_is_made_again_does_what_is_not_done(
    engine: str, of: dict[str, Any], found: Any, said: str, effects: list[str]
) -> None:
    world = World()
    async with served(engine, world, sending(world, found, away=2), how=NAMED) as send:
        for _ in range(2):
            asked = await send(**of)
            for _ in range(2):  # a round that is sent again is answered from the record
                with pytest.raises(sdk.Unknown, match=NOT_KNOWN):
                    await send(named("Bob"), asked, **of)
        assert await refused(send, **of, amount=2) == "call_reused"
        asked = await send(**of)
        for round in (named("Ann"), asked), (named("Ann"), asked), ():
            assert text_of(await send(*round, **of)) == said
    assert world.kinds() == effects
    assert len({key for kind, key in world.effects if kind == "send"}) == 1


async def test_an_effect_of_an_unknown_call_that_nobody_can_settle_is_not_tried_again(
    engine: str,
) -> None:
    world = World()

    async def pay(key: str) -> None:
        await world.do("pay", key)
        raise ConnectionError("the bank is away")

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        try:
            await ctx.step("pay", pay)
        except ConnectionError:
            raise sdk.Unknown(NOT_KNOWN) from None
        raise AssertionError("it was paid")

    async with served(engine, world, handler, how=NAMED) as send:
        with pytest.raises(sdk.Unknown):
            await send()
        for _ in range(2):
            with pytest.raises(MCPError, match="pay") as in_doubt:
                await send()
            assert in_doubt.value.data["reason"] == "indeterminate"
    assert world.kinds() == ["pay"]


async def test_an_attempt_that_is_held_before_it_begins_has_the_record_of_the_one_before(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with served(sqlite, world, sending(world, "sent before"), how=NAMED) as send:
        with pytest.raises(sdk.Unknown):
            await send(named("Bob"), await send())
        begin = send.store.engine.begin

        async def begin_the_first(name: str, handle: str, begun: Begun) -> object:
            if handle.endswith("-1"):
                await anyio.sleep_forever()
            return await begin(name, handle, begun)

        with monkeypatch.context() as patch:
            patch.setattr(send.store, "wait_seconds", 0.5)
            patch.setattr(send.store.engine, "begin", begin_the_first)
            held = await send()
        done = await send(named("Ann"), await send(None, held))
    assert text_of(done) == "pay done, sent before for Ann"
    assert world.kinds() == ["pay", "send"]


async def test_an_attempt_whose_question_nobody_answered_is_followed_by_another_one(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    async with served(sqlite, world, sending(world, "sent before"), how=NAMED) as send:
        with pytest.raises(sdk.Unknown):
            await send(named("Ann"), await send())
        with monkeypatch.context() as patch:  # of this attempt alone
            patch.setattr(send.store, "idle_seconds", 0.5)
            asked = await send()
        while await send() == asked:
            await anyio.lowlevel.checkpoint()
        done = text_of(await send(named("Ann"), await send()))
    assert done == "pay done, sent before for Ann"
    assert world.kinds() == ["pay", "send"]


async def test_an_unknown_call_with_too_much_to_hand_on_is_not_tried_again(sqlite: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        for key in ("one", "two"):
            await ctx.step(key, lambda once: "x" * 600_000)
        world.entered += 1
        raise sdk.Unknown(NOT_KNOWN)

    async with served(sqlite, world, handler, how=NAMED) as send:
        for _ in range(2):
            with pytest.raises(sdk.Unknown):
                await send()
    assert world.entered == 1
