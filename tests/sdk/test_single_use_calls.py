"""Tests of calls that have a name: made again by mistake, on purpose, by others, or too late."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client

from mrtr_options import sdk
from mrtr_options.sdk.call_key import CALL, REPEAT
from mrtr_options.sdk.single_use.reservations import Claim
from mrtr_options.sdk.testing import Losing, client, served
from tests.sdk.bank import (
    DECLINED,
    SURE,
    Bank,
    Transfer,
    at,
    calling,
    said,
    since,
)
from tests.sdk.fakes import ON_ASYNCIO, first_of

pytestmark = pytest.mark.anyio


async def test_a_model_is_told_of_a_repeated_call_and_not_of_a_repeated_round(store: Any) -> None:
    bank = Bank()
    note = "This was done at {since}; nothing was done now."
    async with at(bank, store, repeat_note=note) as caller:
        asked = await caller.send()
        done, resent = [await caller.send(asked=asked) for _ in range(2)]
        assert said(done) == said(resent) == "100 transferred"
        assert REPEAT not in (done.meta or {})
        assert REPEAT in resent.meta
        again = await caller.send()
        time_of_first = again.meta[REPEAT]["since"]
        expected = f"This was done at {time_of_first}; nothing was done now. 100 transferred"
        assert said(again) == expected


async def test_a_callers_name_may_hold_what_a_database_cannot(store: Any) -> None:
    bank = Bank(caller="ada\0")
    async with at(bank, store) as caller:
        await caller.send(asked=await caller.send())
    assert bank.transfers == [100]


async def test_two_at_once_after_a_refusal_are_one_call(store: Any) -> None:
    bank = Bank()
    responses: list[Any] = []
    async with at(bank, store) as caller:
        await caller.send(asked=await caller.send(), answer=DECLINED)

        async def again() -> None:
            responses.append(await caller.send())

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(again)
        calls = {response.meta[CALL] for response in responses}
        for response in responses:
            await caller.send(asked=response)
    assert len(calls) == 1
    assert bank.transfers == [100]


async def test_a_refused_call_stays_with_its_call_key(store: Any) -> None:
    bank = Bank()
    key = sdk.new_call_key()
    async with at(bank, store) as caller:
        asked = await caller.send("", key=key)
        refused = await caller.send("", asked=asked, answer=DECLINED, key=key)
        assert first_of(await caller.send("", key=key)) == refused
    assert bank.asked == 1
    assert bank.transfers == []


async def test_a_call_whose_client_cannot_be_asked_leaves_its_name_to_one_that_can(
    store: Any,
) -> None:
    bank = Bank()
    guard = sdk.single_use(store, call="reference")
    server = bank.server(guard)
    async with Client(server, mode="2026-07-28") as unable, calling(server) as (able,):
        arguments = {"reference": "R1", "amount": 100}
        for _ in range(2):
            assert (await unable.call_tool("transfer", arguments)).is_error
        await able.send(asked=await able.send())
        assert said(await unable.call_tool("transfer", arguments)) == "100 transferred"
    assert bank.transfers == [100]


async def test_a_name_is_forgotten_in_its_time_and_no_earlier(path: Path) -> None:
    now = 1_000_000_000.0
    bank = Bank()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        async with at(bank, store, call_seconds=5000) as caller:
            await caller.send(asked=await caller.send())
            for reference in range(60):  # meanwhile epochs end, and the store forgets rounds
                now += 80
                await caller.send(f"R-{reference}")
                assert said(await caller.send()) == "100 transferred"
            now += 300
            asked = await caller.send()
            assert isinstance(asked, types.InputRequiredResult)
            await caller.send(asked=asked)
            assert said(await caller.send()) == "100 transferred"
    assert bank.transfers == [100, 100]


async def test_an_open_call_is_known_by_its_latest_round(path: Path) -> None:
    now = 1_000_000_000.0
    bank = Bank()
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        async with at(bank, store, call_seconds=600) as caller:
            asked = await caller.send()
            now += 550
            await caller.send(asked=asked)
            now += 550
            assert said(await caller.send()) == "100 transferred"
    assert bank.transfers == [100]


async def test_two_servers_on_one_store_share_no_call(store: Any) -> None:
    bank = Bank()
    key = sdk.new_call_key()
    guard = sdk.single_use(store, call="reference")
    async with calling(bank.server(guard), bank.server(guard, "other")) as (here, there):
        for name in (None, key):
            await here.send(asked=await here.send(key=name), key=name)
            assert isinstance(await there.send(key=name), types.InputRequiredResult)


async def test_an_old_client_that_calls_again_gets_the_result(store: Any) -> None:
    bank = Bank()
    guard = sdk.single_use(store, call="reference")
    tool = sdk.Tool("transfer", "T.", Transfer, bank.transfer, [guard, sdk.legacy_shim])
    settings = sdk.Settings(principal=lambda ctx: "ada")
    server = sdk.build_server("bank", tool, settings=settings)

    async def user(context: Any, params: Any) -> types.ElicitResult:
        return SURE

    async with Client(server, mode="legacy", elicitation_callback=user) as old:
        for _ in range(3):
            result = await old.call_tool("transfer", {"reference": "R1", "amount": 100})
            assert said(result) == "100 transferred"
    assert bank.asked == 1
    assert bank.transfers == [100]


@pytest.mark.parametrize("caller", [None, "ada"])
async def test_a_call_takes_as_many_steps_where_thousands_are_kept(
    caller: str | None, path: Path
) -> None:
    """Count the steps of SQLite's machine, since times would vary."""
    with closing(sdk.SqliteStore(path, max_rounds_per_caller=5_000)) as store:
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        async def reserve(name: str) -> int:
            nonlocal steps
            steps = 0
            given = Claim(name, "", 0.0, 60, caller, call=name, call_seconds=1e5)
            assert await store.reserve(given) is None
            return steps

        db: sqlite3.Connection = store._db  # pyright: ignore[reportPrivateUsage]
        db.set_progress_handler(step, 1)
        few = [await reserve(f"{number}") for number in range(10)]
        many = [await reserve(f"of many {number}") for number in range(3_000)]
    assert many[-1] < 1.2 * few[-1]


@ON_ASYNCIO
async def test_over_http_on_two_instances_a_lost_result_and_a_call_made_again_transfer_once(
    path: Path,
) -> None:
    """Make a new connection for every call, as a host does that calls again."""
    bank = Bank(caller=None)
    answers = [DECLINED, SURE, SURE]

    async def user(context: Any, params: Any) -> types.ElicitResult:
        return answers.pop(0)

    async def call(url: str, reference: str = "R1", losing: Losing | None = None) -> Any:
        async with client(url, user, losing) as connected:
            arguments = {"reference": reference, "amount": 100}
            return await connected.call_tool("transfer", arguments)

    with closing(sdk.SqliteStore(path)) as one, closing(sdk.SqliteStore(path)) as other:
        guards = [
            sdk.single_use(each, call="reference", call_is_secret=True) for each in (one, other)
        ]
        servers = [bank.server(guard) for guard in guards]
        async with served(servers[0]) as here, served(servers[1]) as there:
            assert "declined" in said(await call(there))
            with pytest.raises(BaseExceptionGroup) as lost:
                await call(here, losing=Losing([2]))
            assert lost.value.subgroup(httpx2.ReadError) is not None
            again = await call(there)
            assert said(again) == "100 transferred"
            assert since(again) <= datetime.now(UTC)
            assert said(await call(here)) == "100 transferred"
            assert bank.transfers == [100], "the call was made three times"
            assert said(await call(there, "R2")) == "100 transferred"
            assert bank.transfers == [100, 100], "the user meant two"
    assert answers == []


async def test_a_question_that_nobody_answered_in_time_stays_with_its_call_key(path: Path) -> None:
    now = time.time()
    bank = Bank()
    key = sdk.new_call_key()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        async with at(bank, store) as caller:
            now += 1
            await caller.send("", key=key)
            now += 590
            await caller.send("", key=key)
    assert bank.asked == 1
