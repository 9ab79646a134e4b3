"""Option L's stand-in: a call outlives every process it ran in, on SQLite and on PostgreSQL.

The first part drives stores in this process, which share its one engine; closing a store and opening
another is as much of a restart as one process can show. The second part kills real processes.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
import pytest
import sqlalchemy
from dbos import DBOS
from mcp import MCPError

from mrtr_options.bench.history import LOST, Reply, Request
from mrtr_options.bench.processes import ProcessDeployment
from mrtr_options.bench.schedules import Fault
from mrtr_options.bench.subjects import Column
from mrtr_options.sdk.durable import (
    Call,
    CallAbandoned,
    DurableContext,
    DurableStore,
    Engine,
    WrongDatabase,
    liveness,
)
from mrtr_options.sdk.durable.engine import current
from mrtr_options.sdk.durable.liveness import HAND_OVERS, Lease
from mrtr_options.sdk.questions import CannotAsk, Declined
from mrtr_options.tool.catalogue import Option, option_at, option_named
from tests.bounds import SECONDS
from tests.rounds import Response
from tests.sdk.fakes import key_of, modern, named, params, result, who

pytestmark = pytest.mark.anyio


Ctx = DurableContext[Any]
Stated = Callable[..., Coroutine[Any, Any, Response]]


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


# --- a handler, and somebody who calls it -------------------------------------------------------


@dataclass
class World:
    """What handlers do effects in."""

    effects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    entered: int = 0

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.effects]

    async def do(self, kind: str, key: str) -> str:
        self.effects.append((kind, key))
        return f"{kind} done"


async def couple(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Asks two names, one after the other, between two effects."""
    world: World = ctx.lifespan_context
    world.entered += 1
    await ctx.step("first", lambda key: world.do("first", key))
    one = await ctx.elicit(who("one"))
    two = await ctx.elicit(who("two", assumed="nobody"))
    await ctx.step("last", lambda key: world.do("last", key))
    return result(f"{one.name} and {two.name}")


@asynccontextmanager
async def served(
    url: str | None,
    world: object,
    handler: Callable[[Ctx, Call], Awaitable[types.CallToolResult]] = couple,
    *,
    version: str = "1",
    idle_seconds: float = 600.0,
    wait_seconds: float = SECONDS,
) -> AsyncGenerator[Stated]:
    """A store that is open, for a bounded time; the function sends it a round."""
    store = DurableStore(version=version, idle_seconds=idle_seconds, wait_seconds=wait_seconds)
    call = store.linear(handler)

    async def send(
        answers: types.InputResponses | None = None,
        asked: Response | None = None,
        *,
        forms: bool = True,
    ) -> Response:
        return await call(modern(forms=forms), params(answers, asked))

    with anyio.fail_after(SECONDS):
        async with store.serving(world, database=url):
            yield send


def said(response: Response) -> str:
    """The text of a result."""
    assert isinstance(response, types.CallToolResult), f"no result: {response}"
    (block,) = response.content
    assert isinstance(block, types.TextContent)
    return block.text


async def asked_by(send: Stated) -> Response:
    """The first question of a call, however long it takes on a busy machine."""
    response = await send()
    while isinstance(response, types.InputRequiredResult) and response.input_requests is None:
        response = await send(None, response)
    return response


def reason(error: pytest.ExceptionInfo[MCPError]) -> str:
    """Why a round was refused."""
    assert error.value.code == types.INVALID_PARAMS
    return error.value.data["reason"]


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


async def test_without_a_url_calls_are_kept_in_a_file_that_goes_with_the_engine() -> None:
    async with served(None, World()) as send:
        file = anyio.Path(current().url.removeprefix("sqlite:///"))
        first = await send()
        assert await file.is_file()
        assert key_of(await send(named("Ann", "one"), first)) == "two"
    assert not await file.parent.exists()


async def test_a_second_database_in_one_process_is_refused(sqlite: str) -> None:
    async with served(sqlite, World()) as send:
        with pytest.raises(WrongDatabase, match="not on sqlite:///elsewhere"):
            async with served("sqlite:///elsewhere", World()):
                pass
        assert key_of(await send()) == "one"


# --- one engine ---------------------------------------------------------------------------------


async def test_a_store_that_is_entered_twice_stays_open_until_the_last_block_ends(url: str) -> None:
    store = DurableStore(version="1", wait_seconds=SECONDS)
    call = store.linear(couple)
    async with AsyncExitStack() as last, anyio.create_task_group() as group:
        async with store.serving(World(), database=url):
            group.start_soon(last.enter_async_context, store.serving(None))
            await anyio.wait_all_tasks_blocked()
            first = await call(modern(), params(None, None))
        second = await call(modern(), params(named("Ann", "one"), first))
        assert said(await call(modern(), params(named("Bob", "two"), second))) == "Ann and Bob"


async def test_a_start_that_fails_leaves_nothing_behind(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(DBOS, "launch", fail)
        with pytest.raises(OSError, match="no"):
            async with served(sqlite, World()):
                pass
    assert [file.name for file in Path(sqlite.removeprefix("sqlite:///")).parent.glob("*alive*")] == []
    async with served(sqlite, World()) as send:
        assert key_of(await send()) == "one"


async def test_an_end_that_fails_does_not_break_the_next_opening(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    destroy = DBOS.destroy

    def fail() -> None:
        destroy()
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(DBOS, "destroy", fail)
        here = served(sqlite, World())
        first = await (await here.__aenter__())()
        with pytest.raises(OSError, match="no"):
            await here.__aexit__(None, None, None)
    async with served(sqlite, World()) as send:
        assert key_of(await send(named("Ann", "one"), first)) == "two"


async def test_one_engine_is_kept_for_many_servers_whose_calls_are_apart(url: str) -> None:
    worlds = [World(), World()]
    async with Engine.opened(url) as engine:
        names = [engine.apart(), engine.apart()]
        firsts: list[Response] = []
        for name, world in zip(names, worlds, strict=True):
            async with served(name, world) as send:
                firsts.append(await send())
        assert current() is engine
        for name, world, first in zip(names, worlds, firsts, strict=True):
            async with served(name, world) as send:  # the same run, restarted
                second = await send(named("Ann", "one"), first)
                assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
        async with served(engine.apart(), World()) as send:
            first = await send()
        async with served(engine.apart(), World()) as send:
            with pytest.raises(MCPError) as refused:
                await send(named("Ann", "one"), first)
            assert reason(refused) == "other_version"
    assert [(world.kinds(), world.entered) for world in worlds] == [(["first", "last"], 2)] * 2


# --- rounds that come again ---------------------------------------------------------------------


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


@pytest.mark.parametrize("state", ["", "x", "x.0", "x.0.later", "x.-1", "x.0.sooner", "x." + "9" * 5000])
async def test_a_state_that_names_no_call_is_refused(sqlite: str, state: str) -> None:
    async with served(sqlite, World()) as send:
        with pytest.raises(MCPError) as refused:
            await send(named("Ann"), types.InputRequiredResult(request_state=state))
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
        assert again == waiting
        done.set()
        while not isinstance(again, types.CallToolResult):
            again = await send(None, again)
        assert said(again) == "done"
        assert said(await send(named("Ann"), asked)) == "done"


async def test_a_call_that_nobody_answers_is_given_up(url: str) -> None:
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


@asynccontextmanager
async def statements(url: str) -> AsyncGenerator[sqlalchemy.Connection]:
    """A connection of the test's own. Each statement commits by itself."""
    database = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with database.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            yield db
    finally:
        database.dispose()


def calls_table(url: str) -> str:
    return "workflow_status" if url.startswith("sqlite") else "dbos.workflow_status"


@pytest.mark.slow
async def test_a_process_whose_connections_broke_stays_alive_and_its_calls_go_on(
    postgres: str, url: str
) -> None:
    if url.startswith("sqlite"):
        pytest.skip("has no connections")
    world = World()
    async with served(url, world) as send, statements(url) as db:
        first = await send()
        db.execute(
            sqlalchemy.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        assert await current().take_over("nobody", [])
        other = Lease(url, "other")
        assert not await anyio.to_thread.run_sync(other.take_over, current().process, ["couple@1"], "q")
        second = await send(named("Ann", "one"), first)
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert (world.kinds(), world.entered) == (["first", "last"], 1)


async def test_a_process_that_loses_its_lease_stops_before_another_may_begin(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, stopped, other = anyio.Event(), anyio.Event(), Lease(url, "other", 2.0)
    was_dead: list[bool] = []
    entered: list[None] = []

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())
        entered.append(None)
        if len(entered) == 1:
            try:
                began.set()
                await anyio.sleep_forever()
            finally:
                was_dead.append(other.take_over(current().process, [], "q"))
                stopped.set()
        return result("done")

    async with Engine.opened(url, "1", lease_seconds=2.0), served(url, None, handler) as send:
        asked = await asked_by(send)
        async with anyio.create_task_group() as group:
            with monkeypatch.context() as patch:
                patch.setattr(Lease, "_extend", _cannot)
                group.start_soon(send, named("Ann"), asked)
                await began.wait()
                await stopped.wait()
                await anyio.to_thread.run_sync(until_dead, other, current().process)
        assert said(await send(named("Ann"), asked)) == "done"
    assert (was_dead, len(entered)) == ([False], 2)


def until_dead(other: Lease, process: str) -> None:
    while not other.take_over(process, [], "q"):
        time.sleep(0.05)


def _cannot(lease: Lease, **options: Any) -> None:
    raise OSError("no database")


async def test_a_paused_process_begins_no_effect_under_an_old_lease(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that extends the lease may be the first to run after a pause."""
    now = 1000.0
    monkeypatch.setattr(liveness, "clock", lambda: now)
    lease = Lease(sqlite, "paused", 60.0)
    with lease.held():
        assert lease.holds
        now += 61
        assert not lease.holds
        lease._extend()  # pyright: ignore[reportPrivateUsage]
        assert not lease.holds
        assert lease.begin_again()


async def test_a_call_that_takes_every_process_along_is_ended(url: str) -> None:
    tries: list[str] = []
    reached = anyio.Semaphore(0)

    async def handler(ctx: Ctx, call: Call) -> types.CallToolResult:
        await ctx.elicit(who())

        async def effect(key: str) -> None:
            tries.append(key)
            reached.release()
            await anyio.sleep_forever()

        await ctx.step("effect", effect)
        return result("done")

    async with served(url, None, handler, wait_seconds=0.2) as send, statements(url) as db:
        waiting = await asked_by(send)  # a call that waits for its user is not to blame
        asked = await asked_by(send)
        await send(named("Ann"), asked)
        while True:
            with anyio.move_on_after(3) as scope:
                await reached.acquire()
            if scope.cancelled_caught:
                break
            await current().interrupt(list(current().running))
            die(db, url, f"dead-{len(tries)}")
            with suppress(MCPError):
                await send(named("Ann"), asked)
        with pytest.raises(MCPError) as refused:
            await send(named("Ann"), asked)
        assert reason(refused) == "gave_up"
        await send(named("Ann"), waiting)
        with anyio.fail_after(SECONDS):
            await reached.acquire()
    # One try more than this was seen on PostgreSQL, and its cause is not known: the bound is loose.
    assert 1 + HAND_OVERS + 1 <= len(tries) <= 2 * (1 + HAND_OVERS) + 1


def die(db: sqlalchemy.Connection, url: str, process: str) -> None:
    """Have the calls that run here look as if a process that died had them."""
    db.execute(
        sqlalchemy.text("INSERT INTO mrtr_processes (name, until) VALUES (:name, 0)"), {"name": process}
    )
    db.execute(
        sqlalchemy.text(
            f"UPDATE {calls_table(url)} SET executor_id = :name, owner_xid = 'x' "
            "WHERE status = 'PENDING'"
        ),
        {"name": process},
    )


async def test_a_run_that_a_database_error_ended_runs_again_and_is_logged(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a disk that is full for a moment, between an effect and its record."""
    world = World()
    run_step, failures = DBOS.run_step_async, [OSError("disk full")]

    async def fails_once(*arguments: Any, **options: Any) -> Any:
        done = await run_step(*arguments, **options)
        if failures and world.kinds() == ["first", "last"]:
            raise failures.pop()
        return done

    monkeypatch.setattr(DBOS, "run_step_async", fails_once)
    async with served(url, world) as send:
        second = await send(named("Ann", "one"), await send())
        assert said(await send(named("Bob", "two"), second)) == "Ann and Bob"
    assert world.entered == 2
    assert "disk full" in caplog.text
    assert "run again" in caplog.text


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


# --- real processes, killed ---------------------------------------------------------------------

ILLINOIS = "Springfield, Illinois: 22 °C, partly cloudy."
ANSWERS: dict[str, dict[str, Any]] = {
    "place": {"place": "Springfield, Illinois"},
    "units": {"units": "metric"},
}


@asynccontextmanager
async def fleet(
    folder: Path, url: str, option: Option | None = None, *, honours_keys: bool = False
) -> AsyncGenerator[ProcessDeployment]:
    """Two server processes that share the keys, the ledger file and the database."""
    column = Column(option or option_named("L"))
    deployment = ProcessDeployment(column, folder, database=url, honours_keys=honours_keys)
    with anyio.fail_after(4 * SECONDS):
        async with deployment.running():
            yield deployment


def answering(asked: Reply) -> Request:
    """The round with the answer to what was asked, or with nothing but the state."""
    assert asked.state is not None, f"this did not ask: {asked}"
    answers: types.InputResponses = {
        key: types.ElicitResult(action="accept", content=ANSWERS[key]) for key in asked.questions
    }
    return Request("Springfield", answers or None, asked.state)


async def settled(processes: ProcessDeployment, instance: int, request: Request) -> Reply:
    """A round, and on from there for as long as the server says that it is not done yet."""
    reply = await processes.send(instance, request)
    while reply.state is not None and not reply.questions:
        reply = await processes.send(instance, Request("Springfield", None, reply.state))
    return reply


def freeze(processes: ProcessDeployment, instance: int, url: str) -> None:
    """Stop a process where it does not hold a SQLite file that the other one writes to."""
    while True:
        processes.signal(instance, signal.SIGSTOP)
        if not url.startswith("sqlite"):
            return
        try:
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=1)) as db:
                db.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            processes.signal(instance, signal.SIGCONT)


@pytest.mark.slow
async def test_killed_between_rounds_and_the_other_process_finishes(
    shared_folder: Path, url: str
) -> None:
    async with fleet(shared_folder, url) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        assert list(first.questions) == ["place"]
        await processes.kill(0)
        second = await settled(processes, 1, answering(first))
        assert list(second.questions) == ["units"]
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1}


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["killed", "paused"])
async def test_stopped_in_the_middle_of_a_round_and_the_other_process_finishes(
    shared_folder: Path, url: str, fate: str
) -> None:
    async with fleet(shared_folder, url) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        second = await settled(processes, 1, answering(first))
        freeze(processes, 0, url)  # the call is there, and gets no further
        if fate == "killed":
            await processes.kill(0)
        reply = await settled(processes, 1, answering(second))
        assert reply.text == ILLINOIS
        if fate == "paused":
            processes.signal(0, signal.SIGCONT)
            assert (await settled(processes, 0, answering(second))).text == ILLINOIS
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1}


@pytest.mark.parametrize("honours_keys", [False, True], ids=["naive", "honours-keys"])
@pytest.mark.slow
async def test_killed_between_effect_and_record_runs_the_effect_again(
    shared_folder: Path, url: str, honours_keys: bool
) -> None:
    async with fleet(shared_folder, url, honours_keys=honours_keys) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        second = await settled(processes, 1, answering(first))
        await processes.arm(Fault("bill", "crash"))
        assert (await settled(processes, 0, answering(second))).nothing == LOST
        await processes.arm(None)
        assert (await settled(processes, 1, answering(second))).text == ILLINOIS
        assert await processes.effects() == {"audit": 1, "bill": 1 if honours_keys else 2}


@pytest.mark.slow
async def test_a_redeploy_with_changed_code_refuses_the_calls_of_the_old(
    shared_folder: Path, url: str
) -> None:
    code = option_named("L").path.read_text(encoding="utf-8")
    file = shared_folder / "option_l_durable.py"
    file.write_text(code, encoding="utf-8")
    async with fleet(shared_folder, url, option_at(file)) as processes:
        first = await settled(processes, 0, Request("Springfield"))
        file.write_text(code.replace('"bill", lambda', '"meter", lambda'), encoding="utf-8")
        await processes.restart("same")
        reply = await processes.send(0, answering(first))
        assert reply.code == types.INVALID_PARAMS
        assert "another version" in (reply.message or "")
        assert await processes.effects() == {"audit": 1, "bill": 0}
