"""Option L's stand-in on each engine: a call outlives the process it ran in.

Stores in this process share one engine; closing a store and opening another is as much of a restart as
one process can show. `test_durable_processes` kills real ones.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from dbos import DBOS
from mcp import MCPError

from mrtr_options.sdk.durable import Call, CallAbandoned
from mrtr_options.sdk.durable.messages import Begun, Ended, Seal, Unreadable
from mrtr_options.sdk.questions import CannotAsk, Declined
from tests.rounds import Response
from tests.sdk.durable_calls import Ctx, Stated, World, asked_by, ended, reason, said, served
from tests.sdk.fakes import key_of, named, result, who

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


async def for_ever(send: Stated, held: Response) -> None:
    """Retry a round, whatever it gets."""
    while True:
        held = await send(None, held)


# --- clean calls --------------------------------------------------------------------------------


async def test_each_round_gets_the_next_question_and_the_last_one_the_result(engine: str) -> None:
    world = World()
    async with served(engine, world) as send:
        first = await send()
        assert key_of(first) == "one"
        second = await send(named("Ann", "one"), first)
        assert key_of(second) == "two"
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert world.kinds() == ["first", "last"]


async def test_two_instances_of_one_process_take_turns(engine: str) -> None:
    world = World()
    async with served(engine, world) as here, served(engine, world) as there:
        first = await here()
        second = await there(named("Ann", "one"), first)
        assert said(await here(named("Bob", "two"), second)) == "Ann and Bob"
    assert world.kinds() == ["first", "last"]


async def test_an_effects_key_is_its_own_and_its_calls(engine: str) -> None:
    world = World()
    async with served(engine, world) as send:
        for _ in range(2):
            second = await send(named("Ann", "one"), await send())
            await send(named("Bob", "two"), second)
    keys = [key for _, key in world.effects]
    assert len(set(keys)) == len(keys) == 4


async def test_a_step_gives_back_what_its_effect_returned(engine: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        world: World = ctx.lifespan_context
        return result(await ctx.step("a", lambda key: world.do("a", key)))

    async with served(engine, World(), handler) as send:
        assert said(await send()) == "a done"


# --- rounds that are retried ----------------------------------------------------------------------


async def test_a_round_sent_again_gets_the_response_on_record(engine: str) -> None:
    world = World()
    async with served(engine, world) as send:
        first = await send()
        second = await send(named("Ann", "one"), first)
        assert await send(named("Ann", "one"), first) == second
        last = await send(named("Bob", "two"), second)
        assert await send(named("Bob", "two"), second) == last
        assert await send(named("Ann", "one"), first) == second
        assert await send(None, first) == second
    assert world.kinds() == ["first", "last"]


async def test_two_deliveries_at_once_get_one_response(engine: str) -> None:
    world = World()
    got: list[Response] = []
    async with served(engine, world) as here, served(engine, world) as there:
        second = await here(named("Ann", "one"), await here())

        async def deliver(send: Stated) -> None:
            got.append(await send(named("Bob", "two"), second))

        async with anyio.create_task_group() as group:
            group.start_soon(deliver, here)
            group.start_soon(deliver, there)
    assert [said(each) for each in got] == ["Ann and Bob"] * 2
    assert world.kinds() == ["first", "last"]


async def test_a_different_answer_to_an_answered_question_is_refused(engine: str) -> None:
    async with served(engine, World()) as send:
        first = await send()
        second = await send(named("Ann", "one"), first)
        with pytest.raises(MCPError, match="'one'") as refused:
            await send(named("Eve", "one"), first)
        assert reason(refused) == "answered_differently"
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
        with pytest.raises(MCPError, match="'two'") as refused:
            await send(named("Eve", "two"), second)
        assert reason(refused) == "answered_differently"


async def test_a_bad_answer_is_refused_and_may_be_corrected(engine: str) -> None:
    bad: types.InputResponses = {"one": types.ElicitResult(action="accept", content={"name": 5})}
    async with served(engine, World()) as send:
        first = await send()
        for _ in range(2):
            with pytest.raises(MCPError, match="'one'") as refused:
                await send(bad, first)
            assert reason(refused) == "invalid_answer"
        with pytest.raises(MCPError, match="ElicitResult"):
            await send({"one": types.ListRootsResult(roots=[])}, first)
        for nothing in (None, named("Ann", "somebody")):
            assert await send(nothing, first) == first
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_an_answer_that_was_refused_is_refused_each_time_whatever_came_between(
    engine: str,
) -> None:
    def bad(name: int) -> types.InputResponses:
        return {"one": types.ElicitResult(action="accept", content={"name": name})}

    async with served(engine, World(), wait_seconds=20.0) as send:
        first = await send()
        for name in (5, 6, 5, 6, 5, 5):
            with anyio.fail_after(10), pytest.raises(MCPError) as refused:
                await send(bad(name), first)
            assert reason(refused) == "invalid_answer"
        assert key_of(await send(named("Ann", "one"), first)) == "two"


# --- outcomes -----------------------------------------------------------------------------------


async def test_a_declined_question_raises_in_the_handler_and_ends_the_call(engine: str) -> None:
    world = World()
    async with served(engine, world) as send:
        first = await send()
        no: types.InputResponses = {"one": types.ElicitResult(action="decline")}
        for _ in range(2):
            with pytest.raises(Declined, match="one"):
                await send(no, first)
    assert world.kinds() == ["first"]


async def test_a_client_that_cannot_be_asked_gets_what_is_assumed(engine: str) -> None:
    async with served(engine, World()) as send:
        with pytest.raises(CannotAsk, match="Say who one is"):
            await send(forms=False)
        first = await send()
        assert said(await send(named("Ann", "one"), first, forms=False)) == "Ann and nobody"


async def test_an_effect_that_failed_ends_the_call_and_is_not_tried_again(engine: str) -> None:
    tries: list[str] = []

    class Odd(Exception):
        """Cannot be read by another process: it is known in this test only."""

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())

        async def fail(key: str) -> None:
            tries.append(key)
            raise Odd("the destination is down")

        await ctx.step("fail", fail)
        return result("done")

    async with served(engine, None, handler) as send:
        asked = await send()
        for _ in range(2):
            with pytest.raises(Exception, match="the destination is down"):
                await send(named("Ann"), asked)
    assert len(tries) == 1


async def test_two_effects_under_one_key_are_an_error(engine: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        world: World = ctx.lifespan_context
        await ctx.step("a", lambda key: world.do("a", key))
        await ctx.step("a", lambda key: world.do("b", key))
        return result("done")

    world = World()
    async with served(engine, world, handler) as send:
        with pytest.raises(ValueError, match="'a'"):
            await send()
    assert world.kinds() == ["a"]


async def test_two_questions_at_once_are_an_error(engine: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        refused = ""
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.elicit, who("one"))
            await anyio.lowlevel.checkpoint()
            try:
                await ctx.elicit(who("two"))
            except RuntimeError as error:
                refused = str(error)
        return result(refused)

    async with served(engine, None, handler) as send:
        first = await send()
        assert key_of(first) == "one"
        assert "cannot ask 'two'" in said(await send(named("Ann", "one"), first))


async def test_a_state_that_names_no_call_is_refused(engine: str) -> None:
    async with served(engine, World()) as send:
        for state in "", "x", "x.0", "x.0.later", "x.-1", "x.0.sooner", "x." + "9" * 5000:
            with pytest.raises(MCPError) as refused:
                await send(named("Ann"), types.InputRequiredResult(request_state=state))
            assert reason(refused) == "unknown_call"


# --- time ---------------------------------------------------------------------------------------


async def test_slow_work_gets_a_round_without_a_question_and_then_its_result(sqlite: str) -> None:
    done = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await done.wait()
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.3) as send:
        asked = await asked_by(send)
        waiting = await send(named("Ann"), asked)
        assert isinstance(waiting, types.InputRequiredResult)
        assert (waiting.input_requests, bool(waiting.request_state)) == (None, True)
        again = await send(None, waiting)
        assert isinstance(again, types.InputRequiredResult)
        assert (again.input_requests, bool(again.request_state)) == (None, True)
        done.set()
        while not isinstance(again, types.CallToolResult):
            again = await send(None, again)
        assert said(again) == "done"
        assert said(await send(named("Ann"), asked)) == "done"


async def test_work_longer_than_a_clients_rounds_ends_in_an_answer_that_can_be_resumed(
    sqlite: str,
) -> None:
    done = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await done.wait()
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.5, rounds=4) as send:
        held = await send(named("Ann"), await asked_by(send))
        with pytest.raises(MCPError, match="the same state") as refused:
            await for_ever(send, held)
        assert refused.value.code == types.REQUEST_TIMEOUT
        assert refused.value.data == {"reason": "still_at_work"}
        done.set()
        assert said(await ended(send, await send(None, held))) == "done"


async def test_a_call_without_an_answer_is_given_up(sqlite: str) -> None:
    given_up = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        try:
            await ctx.elicit(who())
        except Exception:
            return result("taken for a failure")
        except CallAbandoned:
            given_up.set()
            raise
        return result("done")

    async with served(sqlite, None, handler, idle_seconds=0.3) as send:
        asked = await send()
        await given_up.wait()
        with pytest.raises(MCPError) as refused:
            await send(named("Ann"), asked)
    assert reason(refused) == "unknown_call"


async def test_a_first_request_that_is_cancelled_takes_its_call_along(sqlite: str) -> None:
    began, ends = anyio.Event(), list[str]()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        try:
            began.set()
            await anyio.sleep_forever()
        finally:
            ends.append("ended")
        return result("done")

    async with served(sqlite, None, handler) as send:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            await began.wait()
            group.cancel_scope.cancel()
        assert ends == ["ended"]
        (call,) = await DBOS.list_workflows_async()
        assert call.status == "SUCCESS"  # its record says that it was stopped


# --- restarts, as far as one process can show them ----------------------------------------------


async def test_a_call_goes_on_after_a_restart_with_what_is_on_record(engine: str) -> None:
    world = World()
    async with served(engine, world) as send:
        first = await send()
    async with served(engine, world) as send:
        second = await send(named("Ann", "one"), first)
    async with served(engine, world) as send:
        assert await send(named("Ann", "one"), first) == second
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 3)


async def test_a_step_that_was_interrupted_is_run_again_with_the_same_key(sqlite: str) -> None:
    keys: list[str] = []
    reached = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())

        async def effect(key: str) -> None:
            keys.append(key)
            if len(keys) == 1:
                reached.set()
                await anyio.sleep_forever()

        await ctx.step("effect", effect)
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.2) as send:
        asked = await asked_by(send)
        await send(named("Ann"), asked)
        await reached.wait()
    async with served(sqlite, None, handler) as send:
        assert said(await send(named("Ann"), asked)) == "done"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_call_whose_instance_ended_is_finished_by_another_in_the_same_process(
    sqlite: str,
) -> None:
    world = World()
    async with served(sqlite, world) as there:
        async with served(sqlite, world) as here:
            first = await here()
        second = await there(named("Ann", "one"), first)
        assert said(await there(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 2)


async def test_a_restarted_process_goes_on_with_what_was_left_unasked(sqlite: str) -> None:
    """The answer was taken, the process ended, and the client never came back."""
    done = anyio.Event()
    may_end = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await may_end.wait()

        async def effect(key: str) -> None:
            done.set()

        await ctx.step("effect", effect)
        return result("done")

    async with served(sqlite, None, handler, wait_seconds=0.2) as send:
        await send(named("Ann"), await asked_by(send))
    may_end.set()
    async with served(sqlite, None, handler):
        await done.wait()


# --- what is in the database ---------------------------------------------------------------------


def test_a_text_can_be_read_in_its_place_only() -> None:
    text = Seal(None).write(Ended(ValueError("x")), "here")
    assert isinstance(Seal(None).read(Ended, text, "here").outcome, ValueError)
    for kind, place in (Ended, "there"), (Begun, "here"):
        with pytest.raises(Unreadable):
            Seal(None).read(kind, text, place)


async def test_a_step_whose_result_has_no_json_is_an_error(engine: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        async def effect(key: str) -> set[str]:
            return {key}

        await ctx.step("effect", effect)
        return result("done")

    async with served(engine, None, handler) as send:
        with pytest.raises(TypeError, match="'effect' returned what has no JSON"):
            await send()


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_call_of_another_version_is_refused_when_none_of_its_version_is_left(
    engine: str,
) -> None:
    old, new = World(), World()
    async with served(engine, old, version="1") as send:
        first = await send()
    async with served(engine, new, version="2") as send:
        for _ in range(2):
            with pytest.raises(MCPError, match="another version") as refused:
                await send(named("Ann", "one"), first)
            assert reason(refused) == "other_version"
        assert key_of(await send()) == "one"
    assert new.entered == 1
    async with served(engine, old, version="1") as send:  # rolled back
        second = await send(named("Ann", "one"), first)
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert old.kinds() == ["first", "last"]


async def test_old_and_new_instances_interleaved_finish_a_call_on_the_code_it_began_on(
    engine: str,
) -> None:
    old, new = World(), World()
    async with (
        served(engine, old, version="1") as send_old,
        served(engine, new, version="2") as send_new,
    ):
        first = await send_old()
        second = await send_new(named("Ann", "one"), first)
        assert said(await send_new(named("Bob", "two"), second)) == "Ann and Bob"
        first = await send_new()
        second = await send_old(named("Ann", "one"), first)
        assert said(await send_old(named("Bob", "two"), second)) == "Ann and Bob"
    assert (old.entered, new.entered) == (1, 1)
    assert old.kinds() == new.kinds() == ["first", "last"]
