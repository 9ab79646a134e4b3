"""Option L's stand-in: a call outlives every process it ran in, on SQLite and on PostgreSQL.

Stores in this process share its one engine; closing a store and opening another is as much of a restart
as one process can show. `test_durable_processes` kills real ones.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
import sqlalchemy
from dbos import DBOS
from mcp import MCPError
from mcp.server.request_state import AESGCMRequestStateCodec
from sqlalchemy.exc import OperationalError

from mrtr_options.sdk.durable import (
    Call,
    CallAbandoned,
    Engine,
)
from mrtr_options.sdk.durable.engine import current
from mrtr_options.sdk.durable.exchange import Exchange
from mrtr_options.sdk.durable.liveness import Lease
from mrtr_options.sdk.durable.messages import Begun, Ended, Seal, Unreadable
from mrtr_options.sdk.questions import CannotAsk, Declined
from tests.bounds import KEY, SECONDS
from tests.databases import away
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


async def test_each_round_gets_the_next_question_and_the_last_one_the_result(url: str) -> None:
    world = World()
    async with served(url, world) as send:
        first = await send()
        assert key_of(first) == "one"
        second = await send(named("Ann", "one"), first)
        assert key_of(second) == "two"
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 1)


async def test_two_instances_of_one_process_take_turns(url: str) -> None:
    world = World()
    async with served(url, world) as here, served(url, world) as there:
        first = await here()
        second = await there(named("Ann", "one"), first)
        assert said(await here(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 1)


async def test_an_effects_key_is_its_own_and_its_calls(sqlite: str) -> None:
    world = World()
    async with served(sqlite, world) as send:
        for _ in range(2):
            second = await send(named("Ann", "one"), await send())
            await send(named("Bob", "two"), second)
    keys = [key for _, key in world.effects]
    assert len(set(keys)) == len(keys) == 4


async def test_a_step_gives_back_what_its_effect_returned(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        world: World = ctx.lifespan_context
        return result(await ctx.step("a", lambda key: world.do("a", key)))

    async with served(sqlite, World(), handler) as send:
        assert said(await send()) == "a done"


# --- rounds that are retried ----------------------------------------------------------------------


async def test_a_round_sent_again_gets_the_response_on_record(url: str) -> None:
    world = World()
    async with served(url, world) as send:
        first = await send()
        second = await send(named("Ann", "one"), first)
        assert await send(named("Ann", "one"), first) == second
        last = await send(named("Bob", "two"), second)
        assert await send(named("Bob", "two"), second) == last
        assert await send(named("Ann", "one"), first) == second
        assert await send(None, first) == second
    assert (world.kinds(), world.entered) == (["first", "last"], 1)


async def test_two_deliveries_at_once_get_one_response(url: str) -> None:
    world = World()
    got: list[Response] = []
    async with served(url, world) as here, served(url, world) as there:
        second = await here(named("Ann", "one"), await here())

        async def deliver(send: Stated) -> None:
            got.append(await send(named("Bob", "two"), second))

        async with anyio.create_task_group() as group:
            group.start_soon(deliver, here)
            group.start_soon(deliver, there)
    assert [said(each) for each in got] == ["Ann and Bob"] * 2
    assert world.kinds() == ["first", "last"]


async def test_a_different_answer_to_an_answered_question_is_refused(url: str) -> None:
    async with served(url, World()) as send:
        first = await send()
        second = await send(named("Ann", "one"), first)
        with pytest.raises(MCPError, match="'one'") as refused:
            await send(named("Eve", "one"), first)
        assert reason(refused) == "answered_differently"
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
        with pytest.raises(MCPError, match="'two'") as refused:
            await send(named("Eve", "two"), second)
        assert reason(refused) == "answered_differently"


async def test_a_bad_answer_is_refused_and_may_be_corrected(url: str) -> None:
    bad: types.InputResponses = {"one": types.ElicitResult(action="accept", content={"name": 5})}
    async with served(url, World()) as send:
        first = await send()
        for _ in range(2):
            with pytest.raises(MCPError, match="'one'") as refused:
                await send(bad, first)
            assert reason(refused) == "invalid_answer"
        with pytest.raises(MCPError, match="ElicitResult"):
            await send({"one": types.ListRootsResult(roots=[])}, first)
        assert await send(None, first) == first
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_an_answer_that_was_refused_is_refused_each_time_whatever_came_between(url: str) -> None:
    def bad(name: int) -> types.InputResponses:
        return {"one": types.ElicitResult(action="accept", content={"name": name})}

    async with served(url, World(), wait_seconds=20.0) as send:
        first = await send()
        for name in (5, 6, 5, 6, 5, 5):
            with anyio.fail_after(10), pytest.raises(MCPError) as refused:
                await send(bad(name), first)
            assert reason(refused) == "invalid_answer"
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_a_missing_answer_is_asked_for_again(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        first = await send()
        assert await send(None, first) == first
        assert await send(named("Ann", "somebody"), first) == first


# --- outcomes -----------------------------------------------------------------------------------


async def test_a_declined_question_raises_in_the_handler_and_ends_the_call(sqlite: str) -> None:
    world = World()
    async with served(sqlite, world) as send:
        first = await send()
        no: types.InputResponses = {"one": types.ElicitResult(action="decline")}
        for _ in range(2):
            with pytest.raises(Declined, match="one"):
                await send(no, first)
    assert world.kinds() == ["first"]


async def test_a_client_that_cannot_be_asked_gets_what_is_assumed(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        with pytest.raises(CannotAsk, match="Say who one is"):
            await send(forms=False)
        first = await send()
        assert said(await send(named("Ann", "one"), first, forms=False)) == "Ann and nobody"


async def test_an_effect_that_failed_ends_the_call_and_is_not_tried_again(sqlite: str) -> None:
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

    async with served(sqlite, None, handler) as send:
        asked = await send()
        for _ in range(2):
            with pytest.raises(Exception, match="the destination is down"):
                await send(named("Ann"), asked)
    assert len(tries) == 1


async def test_two_effects_under_one_key_are_an_error(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        world: World = ctx.lifespan_context
        await ctx.step("a", lambda key: world.do("a", key))
        await ctx.step("a", lambda key: world.do("b", key))
        return result("done")

    world = World()
    async with served(sqlite, world, handler) as send:
        with pytest.raises(ValueError, match="'a'"):
            await send()
    assert world.kinds() == ["a"]


async def test_two_questions_at_once_are_an_error(sqlite: str) -> None:
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

    async with served(sqlite, None, handler) as send:
        first = await send()
        assert key_of(first) == "one"
        assert "cannot ask 'two'" in said(await send(named("Ann", "one"), first))


async def test_a_state_that_names_no_call_is_refused(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        for state in "", "x", "x.0", "x.0.later", "x.-1", "x.0.sooner", "x." + "9" * 5000:
            with pytest.raises(MCPError) as refused:
                await send(named("Ann"), types.InputRequiredResult(request_state=state))
            assert reason(refused) == "unknown_call"


async def test_an_answer_to_a_call_that_has_just_been_deleted_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url, World()) as send:
        first = await asked_by(send)
        put = Exchange.put

        async def late(exchange: Exchange, call: str, *text: str) -> None:
            await DBOS.delete_workflows_async([call])
            await put(exchange, call, *text)

        monkeypatch.setattr(Exchange, "put", late)
        with pytest.raises(MCPError) as refused:
            await send(named("Ann", "one"), first)
    assert reason(refused) == "unknown_call"


# --- time ---------------------------------------------------------------------------------------


async def test_slow_work_gets_a_round_without_a_question_and_then_its_result(url: str) -> None:
    done = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await done.wait()
        return result("done")

    async with served(url, None, handler, wait_seconds=0.3) as send:
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


async def test_work_longer_than_a_clients_rounds_ends_in_an_answer_that_can_be_resumed(url: str) -> None:
    done = anyio.Event()

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        await done.wait()
        return result("done")

    async with served(url, None, handler, wait_seconds=0.5, rounds=4) as send:
        held = await send(named("Ann"), await asked_by(send))
        with pytest.raises(MCPError, match="the same state") as refused:
            await for_ever(send, held)
        assert refused.value.code == types.REQUEST_TIMEOUT
        assert refused.value.data == {"reason": "still_at_work"}
        done.set()
        assert said(await ended(send, await send(None, held))) == "done"


async def test_a_call_without_an_answer_is_given_up(url: str) -> None:
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

    async with served(url, None, handler, idle_seconds=0.3) as send:
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
        assert call.status == "CANCELLED"


async def test_a_call_that_is_cancelled_at_the_engine_is_over(url: str) -> None:
    async with served(url, World()) as send:
        first = await send()
        (call,) = await DBOS.list_workflows_async()
        await DBOS.cancel_workflow_async(call.workflow_id)
        for answers in (named("Ann", "one"), None):
            with pytest.raises(MCPError) as refused:
                await send(answers, first)
            assert reason(refused) == "unknown_call"


# --- restarts, as far as one process can show them ----------------------------------------------


async def test_a_call_goes_on_after_a_restart_with_what_is_on_record(url: str) -> None:
    world = World()
    async with served(url, world) as send:
        first = await send()
    async with served(url, world) as send:
        second = await send(named("Ann", "one"), first)
    async with served(url, world) as send:
        assert await send(named("Ann", "one"), first) == second
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 3)


async def test_a_step_that_was_interrupted_is_run_again_with_the_same_key(url: str) -> None:
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

    async with served(url, None, handler, wait_seconds=0.2) as send:
        asked = await asked_by(send)
        await send(named("Ann"), asked)
        await reached.wait()
    async with served(url, None, handler) as send:
        assert said(await send(named("Ann"), asked)) == "done"
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_call_whose_instance_ended_is_finished_by_another_in_the_same_process(url: str) -> None:
    world = World()
    async with served(url, world) as there:
        async with served(url, world) as here:
            first = await here()
        second = await there(named("Ann", "one"), first)
        assert said(await there(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 2)


async def test_a_restarted_process_goes_on_with_what_was_left_unasked(url: str) -> None:
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

    async with served(url, None, handler, wait_seconds=0.2) as send:
        await send(named("Ann"), await asked_by(send))
    may_end.set()
    async with served(url, None, handler):
        await done.wait()


# --- leases, lost connections and dead runs -----------------------------------------------------


async def test_a_database_that_stalls_does_not_stop_the_event_loop(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    connected = Lease._connected  # pyright: ignore[reportPrivateUsage]

    @contextmanager
    def stalls(lease: Lease) -> Generator[sqlalchemy.Connection]:
        goes_on.wait(SECONDS)
        with connected(lease) as db:
            yield db

    async with served(url, World()) as send:
        first = await send()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Lease, "_connected", stalls)
                async with anyio.create_task_group() as group:
                    group.start_soon(current().take_over, "dead", ["couple@1"])
                    with anyio.fail_after(20):
                        assert key_of(await send(named("Ann", "one"), first)) == "two"
                    goes_on.set()
        finally:
            goes_on.set()


# --- a database that is away ---------------------------------------------------------------------


async def test_a_round_during_an_outage_gets_a_state_that_carries_its_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url, World(), wait_seconds=0.5, rounds=4) as send:
        first = await asked_by(send)
        with monkeypatch.context() as patch:
            patch.setattr(Exchange, "_put", away)
            held = await send(named("Ann", "one"), first)
            assert isinstance(held, types.InputRequiredResult)
            assert held.input_requests is None
            with pytest.raises(MCPError) as refused:
                await for_ever(send, held)
        assert refused.value.code == types.REQUEST_TIMEOUT
        assert key_of(await ended(send, await send(None, held))) == "two"


async def test_a_first_round_on_a_full_disk_begins_its_call_when_there_is_room(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, world, full = Engine.start, World(), [OperationalError("", {}, OSError("disk full"))]

    async def fails_once(engine: Engine, *arguments: Any) -> None:
        if full:
            raise full.pop()
        await start(engine, *arguments)

    monkeypatch.setattr(Engine, "start", fails_once)
    async with served(url, world) as send:
        assert key_of(await send()) == "one"
    assert (world.kinds(), full) == (["first"], [])


async def test_a_call_begins_once_however_often_its_first_round_is_held(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, world = Engine.start, World()
    may_start = anyio.Event()

    async def late(engine: Engine, *arguments: Any) -> None:
        await may_start.wait()
        await start(engine, *arguments)

    monkeypatch.setattr(Engine, "start", late)
    async with served(url, world, wait_seconds=0.3) as send:
        held = await send()
        assert isinstance(held, types.InputRequiredResult)
        assert held.input_requests is None
        held = await send(None, held)
        may_start.set()
        assert key_of(await ended(send, held)) == "one"
    assert world.kinds() == ["first"]


# --- what a fleet is spared ----------------------------------------------------------------------


async def test_parked_calls_need_no_threads_and_no_statements(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    one = Exchange._one  # pyright: ignore[reportPrivateUsage]

    async def counted(exchange: Exchange, statement: str, **values: Any) -> Any:
        statements.append(statement)
        return await one(exchange, statement, **values)

    async with served(url, World()) as send:
        firsts = [await send() for _ in range(60)]
        await anyio.wait_all_tasks_blocked()
        assert threading.active_count() < 60
        monkeypatch.setattr(Exchange, "_one", counted)
        assert key_of(await send(named("Ann", "one"), firsts[0])) == "two"
    assert len(statements) < 20  # of this round; none of them is another call's


# --- what is in the database ---------------------------------------------------------------------


async def test_what_another_key_sealed_is_no_call(sqlite: str) -> None:
    one, other = (AESGCMRequestStateCodec([key.encode()]) for key in (KEY, KEY[::-1]))
    async with served(sqlite, World(), codec=one) as send:
        first = await send()
    async with served(sqlite, World(), codec=other, wait_seconds=2.0) as send:
        with pytest.raises(MCPError) as refused:
            await send(named("Ann", "one"), first)
        assert reason(refused) == "unknown_call"


def test_a_text_can_be_read_in_its_place_only() -> None:
    text = Seal(None).write(Ended(None, ValueError("x")), "here")
    assert isinstance(Seal(None).read(Ended, text, "here").outcome, ValueError)
    for kind, place in (Ended, "there"), (Begun, "here"):
        with pytest.raises(Unreadable):
            Seal(None).read(kind, text, place)


async def test_a_step_whose_result_has_no_json_is_an_error(sqlite: str) -> None:
    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        async def effect(key: str) -> set[str]:
            return {key}

        await ctx.step("effect", effect)
        return result("done")

    async with served(sqlite, None, handler) as send:
        with pytest.raises(TypeError, match="'effect' returned what has no JSON"):
            await send()


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_call_of_another_version_is_refused_when_none_of_its_version_is_left(url: str) -> None:
    old, new = World(), World()
    async with served(url, old, version="1") as send:
        first = await send()
    async with served(url, new, version="2") as send:
        for _ in range(2):
            with pytest.raises(MCPError, match="another version") as refused:
                await send(named("Ann", "one"), first)
            assert reason(refused) == "other_version"
        assert key_of(await send()) == "one"
    assert new.entered == 1
    async with served(url, old, version="1") as send:  # rolled back
        second = await send(named("Ann", "one"), first)
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert old.kinds() == ["first", "last"]


async def test_old_and_new_instances_interleaved_finish_a_call_on_the_code_it_began_on(url: str) -> None:
    old, new = World(), World()
    async with served(url, old, version="1") as send_old, served(url, new, version="2") as send_new:
        first = await send_old()
        second = await send_new(named("Ann", "one"), first)
        assert said(await send_new(named("Bob", "two"), second)) == "Ann and Bob"
        first = await send_new()
        second = await send_old(named("Ann", "one"), first)
        assert said(await send_old(named("Bob", "two"), second)) == "Ann and Bob"
    assert (old.entered, new.entered) == (1, 1)
    assert old.kinds() == new.kinds() == ["first", "last"]
