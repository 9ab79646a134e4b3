"""Tests of instances in memory: how they end, and the history of a run on them."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from mrtr_options.review.bench.deployments import memory
from mrtr_options.review.bench.deployments.memory import Memory, MemoryInstances
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Crashed, Effect, Received
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

E = Subject(option_named("E"))


async def test_a_ctrl_c_while_an_instance_is_dead_is_not_taken_for_its_death(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = anyio.Event()

    async def never(client: Client, request: Request, gone: anyio.Event | None) -> Reply:
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError("the request went on")

    monkeypatch.setattr(memory, "exchange", never)
    with anyio.fail_after(SECONDS):
        async with MemoryInstances(Memory(), E, 1, shared_folder).running() as deployment:
            call = asyncio.ensure_future(deployment.send(0, Request("Tokyo")))
            await waiting.wait()
            deployment.new_death()
            call.cancel()  # as asyncio does at a Ctrl-C
            with pytest.raises(asyncio.CancelledError):
                await call


@pytest.mark.parametrize("letter", ["F", "H", "J"])
@pytest.mark.parametrize(("faults", "bills"), [("both3 down@bill3", 0), ("both3 crash@bill3", 1)])
async def test_a_process_that_has_died_does_nothing_more_and_no_response_of_it_arrives(
    letter: str, faults: str, bills: int
) -> None:
    call = calling(policy="stops").under(parse(faults))
    history = await run(Subject(option_named(letter)), call)
    effects = [event.effect.kind for event in history.events if isinstance(event, Effect)]
    assert effects.count("bill") == bills
    last = [got.reply for sent, got in history.exchanges if sent.sending == 3]
    assert [reply.nothing for reply in last] == [LOST, LOST]


@pytest.mark.parametrize(
    "reply", [Reply(nothing=HUNG), Reply(state="s", later=True)], ids=["hung", "later"]
)
async def test_a_client_that_calls_again_leaves_a_call_that_has_had_it_wait_for_long_enough(
    reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exchanged(client: Client, request: Request, gone: anyio.Event | None) -> Reply:
        return reply

    monkeypatch.setattr(memory, "exchange", exchanged)
    history = await run(E, calling(policy="calls again"))
    first_requests = [sent for sent, _ in history.exchanges if sent.request.state is None]
    assert len(first_requests) == 1


async def test_an_instance_that_cannot_end_as_it_should_is_not_waited_for(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def interrupted(*arguments: Any) -> AsyncGenerator[None]:
        yield
        raise ZeroDivisionError

    monkeypatch.setattr(memory, "client_of", interrupted)
    with anyio.fail_after(SECONDS), pytest.RaisesGroup(ZeroDivisionError):
        async with MemoryInstances(Memory(hang_seconds=2 * SECONDS), E, 1, shared_folder).running():
            pass


async def test_a_crash_comes_after_its_effect_and_before_the_lost_response() -> None:
    history = await run(E, named("crash-after-effect").on_one())
    place = next(place for place, event in enumerate(history.events) if isinstance(event, Crashed))
    before, crash, after = history.events[place - 1 : place + 2]
    assert isinstance(before, Effect)
    assert before.effect.kind == "bill"
    assert before.instance == 0
    assert before.sending == 3
    assert crash == Crashed(instance=0, sending=3)
    assert isinstance(after, Received)
    assert after.reply.nothing == "lost"


async def test_time_passes_for_one_run_and_not_for_the_process() -> None:
    real = time.time
    for slug, code in (("expired", -32602), ("slow-user", None)):
        assert (await run(E, named(slug).on_one())).exchanges[-1][1].reply.code == code
    assert time.time is real
