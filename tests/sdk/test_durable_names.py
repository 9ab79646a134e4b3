"""Named calls of options K and L: which call a first request is taken for.

`test_endings` has what is the same in the guard.
"""

from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.call_key import REPEAT, check_naming, new_call_key
from mrtr_options.sdk.durable import CallAbandoned, CallParams, DurableStore
from mrtr_options.sdk.durable.embedded import process
from mrtr_options.sdk.durable.store import GO_ON
from mrtr_options.sdk.questions import Cancelled, Declined
from mrtr_options.sdk.tasks import TaskStore
from tests.bounds import SECONDS
from tests.sdk.durable_calls import NAMED, Ctx, World, asked_by, refused, served
from tests.sdk.fakes import ON_ASYNCIO, deliver, key_of, modern, named, no, params, result, who
from tests.sending import text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

NO = {"decline": Declined, "cancel": Cancelled}


async def charge(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    """Ask, and then charge."""
    world: World = ctx.lifespan_context
    await ctx.elicit(who())
    await ctx.step("charge", lambda key: world.do("charge", key))
    return result("done")


async def test_a_call_that_is_made_again_gets_a_result_that_says_so(sqlite: str) -> None:
    store = DurableStore(version="1", wait_seconds=SECONDS)
    call = store.linear(charge, **NAMED)
    with anyio.fail_after(SECONDS):
        async with store.serving(World(), database=sqlite):
            await deliver(call, await deliver(call), named("Ann"))
            repeat = await call(modern(), params())
    assert isinstance(repeat, types.CallToolResult)
    assert set((repeat.meta or {})[REPEAT]) == {"since"}


@pytest.mark.parametrize("kind", ["L", "K"])
async def test_a_server_whose_unknown_callers_would_share_named_calls_is_not_built(
    kind: str,
) -> None:
    store = TaskStore()
    serve: Any = store.linear if kind == "L" else store.task
    made = serve(charge, call="reference")
    with pytest.raises(ValueError, match="two strangers would share a call"):
        check_naming("tool", made, {"reference": {}}, knows_callers=False)
    check_naming("tool", made, {"reference": {}}, knows_callers=True)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_call_that_its_user_declined_frees_its_name(engine: str, action: str) -> None:
    world = World()
    # Tests share Temporal, where names stay.
    of = {"x": f"{action}d"}
    async with served(engine, world, charge, how=NAMED) as send:
        declined = [await send(**of)]
        for asked in declined * 2:  # a declined round that is sent again is declined again
            with pytest.raises(NO[action]):
                await send(no(action=action), asked, **of)
        declined.append(await send(**of))
        with pytest.raises(NO[action]):
            await send(no(action=action), declined[1], **of)
        wanted = await send(**of, amount=2)
        assert await send(**of, amount=2) == wanted
        assert text_of(await send(named("Ann"), wanted, **of, amount=2)) == "done"
        assert text_of(await send(**of, amount=2)) == "done"
        for asked in declined:
            with pytest.raises(NO[action]):
                await send(no(action=action), asked, **of)
        assert await refused(send, **of) == "call_reused"
    assert world.kinds() == ["charge"]


async def test_a_call_that_its_user_declined_keeps_its_call_key(sqlite: str) -> None:
    key = new_call_key()
    async with served(sqlite, World(), charge, how=NAMED) as send:
        asked = await send(x="", key=key)
        for round in (no(), asked), ():
            with pytest.raises(Declined):
                await send(*round, x="", key=key)


async def test_a_call_whose_question_found_no_answer_in_time_frees_its_name(sqlite: str) -> None:
    given_up = anyio.Event()
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        try:
            return await charge(ctx, call)
        except Exception:
            return result("taken for a failure")
        except CallAbandoned:
            given_up.set()
            raise

    async with served(sqlite, world, handler, how=NAMED, idle_seconds=0.3) as send:
        asked = await send()
        await given_up.wait()
        assert await refused(send, named("Ann"), asked) == "unknown_call"
        assert key_of(await send()) == "who"
        assert await refused(send, named("Ann"), asked) == "unknown_call"
    assert world.kinds() == []


async def test_a_call_that_was_stopped_at_work_keeps_its_name(sqlite: str) -> None:
    world = World()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await charge(ctx, call)
        await anyio.sleep_forever()
        return result("never")

    working: dict[str, Any] = {"while_working": "form", "wait_seconds": 0.3}
    async with served(sqlite, world, handler, how=NAMED, **working) as send:
        held = await send(named("Ann"), await asked_by(send))
        with pytest.raises(MCPError, match="effects may have happened"):
            await send(no(GO_ON), held)
        assert await refused(partial(asked_by, send)) == "unknown_call"
    assert world.kinds() == ["charge"]


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
        while await here.sweep(-1.0) > 0:
            pass
        assert key_of(await send()) == "who"
    assert world.kinds() == ["charge"]
