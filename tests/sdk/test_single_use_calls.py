"""Tests of calls that have a name: made again by mistake, on purpose, by others, or too late.

`test_any_tool` draws the order in which they come; `test_endings` has what an ending is to a name.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult
from pydantic import BaseModel, create_model

from mrtr_options import sdk
from mrtr_options.sdk.call_key import REPEAT
from mrtr_options.sdk.single_use.reservations import Claim, Pending
from mrtr_options.sdk.single_use.round_state import RoundState
from tests.bounds import SECONDS
from tests.sdk.fakes import (
    ON_ASYNCIO,
    called_by,
    deliver,
    modern,
    params,
    refused,
    result,
    who,
)
from tests.sdk.guarded_tool import ADA, Tool
from tests.sdk.stores import claim
from tests.sending import connected, text_of

pytestmark = pytest.mark.anyio

DONE = "Ada, asked 1 times"


class Wanted(BaseModel):
    """The arguments; the first one names the call."""

    x: int | str


def named(tool: Tool, store: Any, *, is_secret: bool = True, **more: Any) -> sdk.Tool:
    """Return the tool in a guard that names its calls."""
    guard = sdk.single_use(store, call="x", call_is_secret=is_secret, wait_seconds=SECONDS, **more)
    return sdk.Tool("tool", "Asks.", Wanted, tool, [guard])


async def test_a_model_is_told_of_a_repeated_call_and_not_of_a_repeated_round(store: Any) -> None:
    note = "This was done at {since}; nothing was done now."
    call = named(Tool(), store, repeat_note=note).call
    asked = await call(modern(), params())
    done, resent = [await call(modern(), params(ADA, asked)) for _ in range(2)]
    assert text_of(done) == text_of(resent) == DONE
    assert REPEAT not in (done.meta or {})
    assert REPEAT in (resent.meta or {})
    again: Any = await call(modern(), params())
    time_of_first = again.meta[REPEAT]["since"]
    assert [each.text for each in again.content] == [
        f"This was done at {time_of_first}; nothing was done now.",
        DONE,
    ]


async def test_a_callers_name_may_hold_what_a_database_cannot(store: Any) -> None:
    call = named(Tool(), store, is_secret=False).call
    with called_by(lambda: "ada\0"):
        assert text_of(await deliver(call, await deliver(call), ADA)) == DONE


async def test_a_call_whose_client_cannot_be_asked_leaves_its_name_to_one_that_can(
    store: Any,
) -> None:
    tool = Tool()
    send = partial(deliver, named(tool, store).call)
    unable = modern(forms=False)
    for _ in range(2):
        told: Any = await send(ctx=unable)
        assert told.is_error
    await send(await send(), ADA)
    assert text_of(await send(ctx=unable)) == DONE
    assert tool.effects == ["Ada"]


async def test_a_name_is_forgotten_in_its_time_and_no_earlier(path: Path) -> None:
    now = 1_000_000_000.0
    tool = Tool()
    with closing(sdk.SqliteStore(path, keep_seconds=600, clock=lambda: now)) as store:
        send = partial(deliver, named(tool, store, call_seconds=5000).call)
        await send(await send(), ADA)
        for x in range(60):  # meanwhile epochs end, and the store forgets rounds
            now += 80
            await send(x=x + 10)
            assert text_of(await send()) == DONE
        now += 300
        assert text_of(await send(await send(), ADA)) == DONE
    assert tool.effects == ["Ada", "Ada"]


@pytest.mark.parametrize("jump", [3600, -3600], ids=["ahead", "put right"])
async def test_a_question_is_not_answered_once_a_clock_has_given_its_name_to_another_call(
    jump: float, path: Path
) -> None:
    now = 2e9
    tool = Tool()
    expected = (INVALID_PARAMS, "request_state_expired")
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        call = named(tool, store).call
        left = await deliver(call)
        now += jump
        assert await refused(call, left, ADA) == expected
        assert text_of(await deliver(call, await deliver(call), ADA)) == DONE
        now -= jump
        assert await refused(call, left, ADA) == expected
    assert tool.effects == ["Ada"]


async def test_a_question_that_is_asked_again_after_a_crash_keeps_the_name_of_its_call(
    path: Path,
) -> None:
    now = 2e9
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        call = named(Tool(), store, attempts=2).call
        asked: Any = await deliver(call)
        state = RoundState.model_validate_json(asked.request_state)
        assert state.call is not None
        died = Claim(state.number, "answers", state.begins, 60, mark=state.mark)
        now += 500
        await store.reserve(replace(died, call=state.call.handle, call_seconds=86400))
        now += 200
        again = await deliver(call)
        await deliver(call, again)  # without an answer, so the round is given back
        assert await deliver(call) == again
        assert text_of(await deliver(call, again, ADA)) == DONE


async def test_an_effect_that_begins_after_its_lease_has_its_round_for_another_one(
    path: Path,
) -> None:
    now = 2e9
    with closing(sdk.SqliteStore(path, clock=lambda: now)) as store:
        paused = await claim(store, "call", call="call", call_seconds=86400)
        again = replace(paused, owner="another delivery")
        await store.reserve(paused)
        now += 61
        assert await store.begin_effect(paused)
        with pytest.raises(Pending):
            await store.reserve(again)
        now += 60
        assert await store.take_over(again)
        assert not await store.begin_effect(paused)


async def test_arguments_that_a_new_version_does_not_take_are_told_with_what_was_done(
    store: Any,
) -> None:
    @sdk.keyed_replay
    async def pay(ctx: sdk.ReplayContext[Any], params: sdk.Params) -> CallToolResult:
        await ctx.once("pay", lambda key: None)
        return sdk.text((await ctx.elicit(who())).name)

    guard = sdk.single_use(store, call="x", call_is_secret=True)
    old, new = (
        sdk.Tool("tool", "Pays.", create_model("Model", x=(kind, ...)), pay, [guard])
        for kind in (int, str)
    )
    asked = await deliver(old.call)
    with pytest.raises(MCPError, match=r"x: .* Before that, this call did .*, or may have: pay\."):
        await deliver(new.call, asked, ADA)
    assert text_of(await deliver(old.call, asked, ADA)) == "Ada"


@pytest.mark.parametrize("has_key", [True, False])
async def test_an_effect_that_is_tried_again_has_its_idempotency_key(
    store: Any, has_key: bool
) -> None:
    """Also if the call is made again with another call key, or with none."""
    sent: list[str] = []

    async def pay(ctx: Any, params: Any) -> CallToolResult:
        def charge(key: str) -> None:
            sent.append(key)
            if len(sent) < 3:
                raise TimeoutError

        await ctx.once("pay", charge)
        return result("paid")

    tool: Any = sdk.keyed_replay(pay)
    call = named(tool, store, attempts=2).call
    with pytest.raises(MCPError):
        await deliver(call, key=sdk.new_call_key(), x=1)
    again = sdk.new_call_key() if has_key else None
    assert await deliver(call, key=again, x=1) == result("paid")
    assert len(sent) == 3
    assert len(set(sent)) == 1


async def test_two_servers_on_one_store_share_no_call(store: Any) -> None:
    tool = Tool()
    for name in "here", "there":
        server = sdk.build_server(name, named(tool, store), settings=sdk.Settings())
        async with connected(server) as client:
            await client.call_tool("tool", {"x": 1})
    assert tool.effects == ["yes"] * 2


@ON_ASYNCIO
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
        taken: list[int] = []
        for kept in (10, 3_000):
            db.set_progress_handler(None, 1)
            for number in range(kept):
                await reserve(f"{kept}: {number}")
            db.set_progress_handler(step, 1)
            taken.append(await reserve(f"after {kept}"))
    few, many = taken
    assert many < 1.2 * few
