"""Tests of option L on Temporal: workers and the server come and go, and the calls go on.

`make test` plays only one of them; `make evidence` plays the others, and also plays `test_durable`
and `test_durable_versions` on Temporal.
"""

import asyncio
import sys
import time
from contextlib import ExitStack

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.request_state import AESGCMRequestStateCodec

from mrtr_options.review.bench.world.temporal import Server
from mrtr_options.sdk.durable import CallParams
from mrtr_options.sdk.durable.engine import WrongDatabase
from mrtr_options.sdk.durable.events import Ended, Stepped
from mrtr_options.sdk.durable.position import Position
from mrtr_options.sdk.durable.sealing import Seal
from tests.bounds import KEY
from tests.sdk.durable_calls import Ctx, World, ended, held_until, reason, served
from tests.sdk.fakes import ON_ASYNCIO, key_of, named, result, unfit
from tests.sending import text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]


async def test_an_effect_is_found_though_the_block_of_an_earlier_replay_ends_late() -> None:
    pytest.importorskip("temporalio", reason="needs the extra 'fleet'")
    from temporalio.exceptions import ApplicationError
    from temporalio.testing import ActivityEnvironment

    from mrtr_options.sdk.durable import fleet

    async def effect() -> Stepped:
        return Stepped("done")

    async def earlier() -> Stepped:
        raise AssertionError

    place = ("run", "key")
    effects = fleet.Effects(Seal(None))
    with ExitStack() as again:
        with effects.ready(place, earlier):
            again.enter_context(effects.ready(place, effect))
        assert '"done"' in await ActivityEnvironment().run(effects.step, *place)
    # The call did not get the record, so it runs the step again.
    assert '"done"' in await ActivityEnvironment().run(effects.step, *place)
    effects.forget(place)
    with pytest.raises(ApplicationError, match="another worker"):
        await ActivityEnvironment().run(effects.step, *place)


async def test_a_call_outlives_its_worker_and_the_server_and_is_sealed_there(
    temporal: Server,
) -> None:
    world = World()
    url = temporal.apart()
    codec = AESGCMRequestStateCodec([KEY.encode()])
    async with served(url, world, codec=codec) as send:
        first = await send()
        assert key_of(first) == "one"
    async with served(url, world, codec=codec, wait_seconds=1, rounds=1000) as send:
        second = await ended(send, await send(named("Ann Abelard", "one"), first))
        assert key_of(second) == "two"
        assert await ended(send, await send(named("Ann Abelard", "one"), first)) == second
        await anyio.to_thread.run_sync(temporal.kill)
        # An answer that comes while the server is away travels in the state, so the user is not
        # asked again.
        held = await send(named("Bob", "two"), second)
        assert isinstance(held, types.InputRequiredResult)
        assert held.input_requests is None
        await anyio.to_thread.run_sync(temporal.start)
        assert text_of(await ended(send, await send(None, held))) == "Ann Abelard and Bob"
    # A step runs again if the server could not take its record, and the destination knows its key.
    assert sorted(kind for kind, _ in {*world.effects}) == ["first", "last"]
    kept = b"".join(
        each.read_bytes() for each in temporal.file.parent.glob(f"{temporal.file.name}*")
    )
    assert b"mrtr-call" in kept
    assert b"Abelard" not in kept


@pytest.mark.evidence("on Temporal")
async def test_steps_at_once_run_once_each_also_where_another_worker_has_some(
    temporal: Server,
) -> None:
    """Start more than three steps: a worker gets three at once, the others go through queues."""
    world = World()
    url = temporal.apart()
    kinds = [f"{number}" for number in range(12)]

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        async def do(kind: str) -> None:
            await ctx.step(kind, lambda key: world.do(kind, key))

        async with anyio.create_task_group() as group:
            for kind in kinds:
                group.start_soon(do, kind)
        return result("done")

    async with served(url, world, handler) as send, served(url, world, handler) as other:
        for instance in (send, other):
            assert text_of(await ended(instance, await instance())) == "done"
    assert sorted(world.kinds()) == sorted(2 * kinds)


@pytest.mark.evidence("on Temporal")
async def test_a_step_whose_worker_falls_silent_each_time_is_given_up(
    temporal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrtr_options.sdk.durable.activities.ALIVE_SECONDS", 1.0)
    monkeypatch.setattr("temporalio.activity.heartbeat", lambda: None)
    tries = list[str]()
    is_left = anyio.Event()

    async def effect(key: str) -> None:
        tries.append(key)
        await is_left.wait()

    async def fatal(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.step("fatal", effect)
        return result("done")

    async with served(temporal.apart(), None, fatal, wait_seconds=1, rounds=1000) as send:
        with pytest.raises(MCPError) as refused:
            await ended(send, await send())
    assert reason(refused) == "gave_up"
    assert len({*tries}) == 1


@pytest.mark.evidence("on Temporal")
async def test_an_effect_that_holds_up_its_worker_for_too_long_is_done_once(
    temporal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrtr_options.sdk.durable.activities.ALIVE_SECONDS", 1.0)
    tries = list[str]()

    async def handler(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        await ctx.step("blocks", lambda key: tries.append(key) or time.sleep(12))
        return result("done")

    async with served(temporal.apart(), None, handler) as send:
        assert text_of(await ended(send, await send())) == "done"
    assert len(tries) == 1


@pytest.mark.evidence("on Temporal")
@pytest.mark.parametrize("ends", ["finished", "stopped"])
async def test_a_call_says_how_it_stands_and_can_be_stopped_while_a_step_takes_long(
    temporal: Server, ends: str
) -> None:
    begun = anyio.Event()
    may_end = anyio.Event()
    is_cancelled = anyio.Event()

    async def effect(key: str) -> str:
        begun.set()
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            raise
        return "done"

    async def slow(ctx: Ctx, call: CallParams) -> types.CallToolResult:
        return result(await ctx.step("slow", effect))

    async with served(temporal.apart(), None, slow, wait_seconds=0.2) as send:
        held = await held_until(begun.is_set, send, await send())
        assert isinstance(held, types.InputRequiredResult)
        handle = Position.of(held.request_state or "").handle
        engine = send.store.engine
        assert (await engine.look(handle)).output is None
        if ends == "stopped":
            await engine.stop(handle)
            await is_cancelled.wait()
        may_end.set()
        output = None
        while output is None:
            output = (await engine.look(handle)).output
    assert isinstance(output, Ended)
    if ends == "finished":
        assert isinstance(output.outcome, types.CallToolResult)
        assert text_of(output.outcome) == "done"


@pytest.mark.evidence("on Temporal")
async def test_answers_that_are_refused_leave_a_call_its_rounds(temporal: Server) -> None:
    async with served(temporal.apart(), World()) as send:
        asked = await ended(send, await send())
        for number in range(2001):  # Temporal takes 2,000 updates of a call
            with pytest.raises(MCPError, match="does not fit"):
                await send(unfit("one", number), asked)
        assert key_of(await send(named("Ann", "one"), asked)) == "two"


@pytest.mark.evidence("on Temporal")
async def test_a_process_that_ends_when_temporal_has_answered_does_not_abort(
    temporal: Server,
) -> None:
    program = "import sys; sys.setswitchinterval(5); from mrtr_options.sdk.durable import fleet; "
    for _ in range(12):  # with this switch interval, threads get their turn late
        await anyio.run_process([sys.executable, "-c", f"{program}fleet.try_url({temporal.url!r})"])


@pytest.mark.evidence("on Temporal")
async def test_a_namespace_that_is_not_there_is_named(
    temporal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrtr_options.sdk.durable.fleet.WAIT_SECONDS", 0.5)
    with pytest.raises(WrongDatabase, match="for the namespace other"):
        async with served(f"{temporal.url}/other", None):
            raise AssertionError
