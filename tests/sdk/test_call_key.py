"""The call key: two first requests with one key are one call, in the guard and in J."""

from __future__ import annotations

import time
import uuid
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.call_key import CALL_KEY, call_key_of, new_call_key
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.single_use import Claim, Store, single_use
from mrtr_options.sdk.suspended import Call, ContinuationStore, LinearContext
from mrtr_options.tool.server import Handler
from tests.rounds import Response
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    deliver,
    modern,
    named,
    of_session,
    params,
    refused,
    result,
    who,
)
from tests.sdk.stores import Database
from tests.sdk.test_single_use import Tool

pytestmark = pytest.mark.anyio

ADA, BOB = named("Ada"), named("Bob")


def keyed(key: object) -> Params:
    """A request with a call key."""
    meta: Any = {CALL_KEY: key}
    return params().model_copy(update={"meta": meta})


# --- the key --------------------------------------------------------------------------------------


def test_a_key_is_a_uuid_of_version_7_that_says_when_it_was_made() -> None:
    before = time.time()
    text = new_call_key()
    found = call_key_of(modern(), keyed(text))
    assert found is not None
    assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (7, uuid.RFC_4122)
    assert before - 0.001 <= found.made <= time.time() + 0.001
    exact = call_key_of(modern(), keyed(new_call_key(5.0)))
    assert exact is not None
    assert exact.made == 5.001, "a store that was made within its millisecond is newer"
    assert len({new_call_key(0.0) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "key",
    [7, "", "call-1", str(uuid.UUID(int=1, version=4)), "0197C0F2-0000-7000-8000-00000000000A", ["a"]],
)
def test_what_is_no_key_is_refused(key: object) -> None:
    with pytest.raises(MCPError, match="no UUID of version 7") as refusal:
        call_key_of(modern(), keyed(key))
    assert refusal.value.code == types.INVALID_PARAMS


def test_an_old_client_has_no_key() -> None:
    old = of_session(FakeSession(None), modern=False)
    assert call_key_of(old, keyed(new_call_key())) is None


# --- in the guard ---------------------------------------------------------------------------------


async def test_another_principals_key_is_another_call(store: Store) -> None:
    tool, key, principals = Tool(), new_call_key(), iter(["ann", "bob"])
    handler = single_use(store, principal=lambda ctx: next(principals))(tool)
    assert await deliver(handler, key=key) != await deliver(handler, key=key)
    assert tool.entered == 2


@pytest.mark.parametrize("seconds", [-700.0, 700.0])
async def test_a_key_from_too_long_ago_or_ahead_is_refused(seconds: float, store: Store) -> None:
    tool = Tool()
    key = new_call_key(time.time() + seconds)
    expected = (types.INVALID_PARAMS, "call_key_expired")
    assert await refused(single_use(store)(tool), key=key) == expected
    assert tool.entered == 0


async def test_a_round_that_h_did_not_begin_is_given_back(store: Store) -> None:
    """A balancer sent it once to an instance without the frame."""

    async def tool(ctx: LinearContext[Any], call: Call) -> types.CallToolResult:
        return result((await ctx.elicit(who())).name)

    async with ContinuationStore() as frames, ContinuationStore() as others:
        here, there = [single_use(store)(cast(Handler, each.linear(tool))) for each in (frames, others)]
        first = await deliver(here)
        assert (await refused(there, first, ADA))[1] == "unknown_continuation"
        done = await deliver(here, first, ADA)
        assert await deliver(there, first, ADA) == done == result("Ada")


async def test_a_round_has_one_outcome_where_its_server_hears_late_that_it_took_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease began earlier than its server knows of it, and another delivery has run it since."""
    results = [result("second"), result("late")]
    taken, heard = anyio.Event(), anyio.Event()

    async def tool(ctx: Context, request: Params) -> Response:
        return results.pop(0)

    with database.open() as slow, database.open() as store:
        key, reserve = new_call_key(), slow.reserve

        async def reserve_and_hear_late(claim: Claim) -> str | None:
            found = await reserve(claim)
            taken.set()
            await heard.wait()
            return found

        async def begin() -> None:
            with pytest.raises(MCPError, match="Send it again later"):
                await deliver(single_use(slow, round_seconds=0.2, attempts=2)(tool), key=key)

        monkeypatch.setattr(slow, "reserve", reserve_and_hear_late)
        again = single_use(store, round_seconds=0.2, attempts=2)(tool)
        async with anyio.create_task_group() as group:
            group.start_soon(begin)
            await taken.wait()
            assert await deliver(again, key=key) == result("second")
            heard.set()
        assert await deliver(again, key=key) == result("second")
    assert results == []


# --- in J -----------------------------------------------------------------------------------------


async def test_the_idempotency_keys_of_a_first_round_are_the_same_under_one_call_key() -> None:
    seen: list[str] = []

    @keyed_replay
    async def tool(ctx: ReplayContext[Any], params: Params) -> types.CallToolResult:
        async def effect(key: str) -> None:
            seen.append(key)

        await ctx.once("audit", effect)
        return result((await ctx.elicit(who())).name)

    key = new_call_key()
    for given, x in (key, 1), (key, 1), (key, 2), (new_call_key(), 1), (None, 1), (None, 1):
        await deliver(tool, key=given, x=x)
    assert len(set(seen)) == 5
    assert seen[0] == seen[1]
