"""Tests of instances in memory: how they end, and the history of a run on them."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options.review.bench.deployments import children, memory, processes
from mrtr_options.review.bench.deployments.memory import Memory, MemoryInstances
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Effect, Elapsed, Failed
from mrtr_options.review.bench.messages import LOST, Reply, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import FIRST, Wait
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.bench.world import sessions
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import option_at, option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

E = Subject(option_named("E"))


BILLS = {"both3 down@bill3": 0, "both3 crash@bill3": 1, "both3 gone@bill3": 1}
"""The bills of a call in which a request is delivered twice and something ends, by its faults."""


@pytest.mark.parametrize(
    ("subject", "faults"), [*product("FHJ", BILLS), ("F+guard", "both3 gone@bill3")]
)
async def test_after_a_process_has_died_or_a_client_left_nothing_is_done_and_no_response_arrives(
    subject: str, faults: str
) -> None:
    call = calling(policy="stops").under(parse(faults))
    history = await run(subject_named(subject), call)
    effects = [event.effect.kind for event in history.events if isinstance(event, Effect)]
    assert effects.count("bill") == BILLS[faults]
    last = [got.reply for sent, got in history.exchanges if sent.sending == 3]
    assert [reply.nothing for reply in last] == [LOST, LOST]


async def test_time_passes_for_one_run_and_not_for_the_process() -> None:
    real = time.time
    for slug, code in (("expired", -32602), ("slow-user", None)):
        assert (await run(E, named(slug).on_one())).exchanges[-1][1].reply.code == code
    assert time.time is real


async def test_a_destination_that_is_down_fails_each_try_of_a_round_and_none_of_the_next() -> None:
    call = calling(destination="business key").under(parse("fail@bill3"))
    history = await run(subject_named("J+guard+named"), call)
    tried = [event for event in history.events if isinstance(event, Failed | Elapsed | Effect)]
    assert [type(event) for event in tried] == [Effect, Failed, Failed, Elapsed, Effect]


def test_a_guard_in_processes_tries_a_round_as_often_as_one_in_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    subject = subject_named("J+guard+named")
    guard = Mock()
    guard.return_value.side_effect = lambda handler: handler  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(processes, "single_use", guard)
    served = processes.Served(
        subject, [new_key()], tmp_path, "", tmp_path / processes.ROUNDS, destination="business key"
    )
    processes.build(served, weather.MemoryLedger("business key"))
    assert guard.call_args.kwargs["attempts"] == subject.attempts("business key") == 2


async def test_a_client_that_leaves_ends_each_delivery_of_its_request(tmp_path: Path) -> None:
    async def until_gone(*sent: Any) -> Reply:
        _, _, _, gone, _ = sent
        await gone.wait()
        return Reply(nothing=LOST)

    ledger = weather.SqliteLedger(tmp_path / "ledger.sqlite").path
    child = children.Child(Mock(), "", Mock(), Mock())
    servers = Mock(hang_seconds=SECONDS, ledger_file=ledger, fetch=until_gone)
    servers.child.return_value = child
    found = children.ChildInstances(servers, 1, "ignores keys")
    found.death_seconds = 0
    await found.arm(None)
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(found.send, 0, Request("Tokyo"))
            await anyio.wait_all_tasks_blocked()
            await found.let_client_leave()
    found.close()


async def test_a_process_is_told_to_end_before_another_version_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Told(Exception):
        """An exception at which the redeploy ends."""

    first, second = Mock(), Mock()
    found = children.Children(E.option, tmp_path)
    monkeypatch.setattr(found, "_children", [first, second])
    monkeypatch.setattr(children, "end_in_order", end := Mock(side_effect=Told))
    with pytest.raises(Told):
        await found.redeploy("reworded", [1])
    end.assert_called_once_with([second])


CLOCKS = """    import time, datetime
    return text(f"{time.time()} {datetime.datetime.now().timestamp()}")
"""


async def test_time_passes_for_each_clock_that_a_strangers_file_reads(tmp_path: Path) -> None:
    before, after = E.option.source.split("    location = location_of(params)\n")
    stranger = tmp_path / "stranger.py"
    stranger.write_text(before + CLOCKS + after, encoding="utf-8")
    twice = replace(calling("Tokyo", "one"), script=(FIRST, Wait(400), FIRST))
    history = await run(Subject(option_at(stranger)), twice)
    first, second = (map(float, (got.reply.text or "").split()) for _, got in history.exchanges)
    passed = [now - then for then, now in zip(first, second, strict=True)]
    assert [400 <= seconds < 400 + SECONDS for seconds in passed] == [True, True]


OWN_BILL = """    with sqlite3.connect(LEDGER) as ledger:
        ledger.execute("INSERT INTO effects (kind, subject, at) VALUES ('bill', ?, '')", (place,))
"""
OWN_LEDGER = """
import os, sqlite3
LEDGER = os.environ["MRTR_LEDGER"]
"""


async def test_an_effect_that_a_file_writes_by_itself_counts_beside_those_through_the_ledger(
    tmp_path: Path,
) -> None:
    stranger = tmp_path / "stranger.py"
    source = E.option.source.replace("    await desk.bill(place)\n", OWN_BILL)
    stranger.write_text(source + OWN_LEDGER, encoding="utf-8")
    history = await run(Subject(option_at(stranger)), calling("Tokyo"))
    effects = [event.effect.kind for event in history.events if isinstance(event, Effect)]
    assert effects == ["audit", "audit", "bill"]
    assert not history.can_strike


async def test_a_ctrl_c_while_an_instance_is_dead_is_not_taken_for_its_death(
    shared_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = anyio.Event()

    async def never(client: Client, request: Request, gone: anyio.Event | None) -> Reply:
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError("the request went on")

    monkeypatch.setattr(memory, "fetch", never)
    with anyio.fail_after(SECONDS):
        async with MemoryInstances(Memory(), E, 1, shared_folder).running() as deployment:
            call = asyncio.ensure_future(deployment.send(0, Request("Tokyo")))
            await waiting.wait()
            deployment.new_death()
            call.cancel()  # as asyncio does at a Ctrl-C
            with pytest.raises(asyncio.CancelledError):
                await call


async def test_a_server_that_refuses_a_session_answers_the_request_that_opens_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def refused(*_: object) -> AsyncGenerator[Client]:
        await anyio.wait_all_tasks_blocked()
        raise MCPError(types.INVALID_REQUEST, "new clients only")
        yield

    monkeypatch.setattr(sessions, "client_of", refused)
    session = sessions.Session("", Mock(), Request("Tokyo", era="legacy"))
    reply = Reply()
    async with anyio.create_task_group() as group:
        group.start_soon(session.run, anyio.CancelScope())
        with anyio.fail_after(SECONDS):
            reply = await session.send(Request("Tokyo", era="legacy"), None, None)
    session.close()
    assert (reply.code, reply.message) == (types.INVALID_REQUEST, "new clients only")
