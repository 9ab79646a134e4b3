"""Option L on Temporal: workers and the server come and go, and the calls go on.

One test, so that a session starts the server once; `make evidence` plays `test_durable` on it, too.
"""

from __future__ import annotations

from contextlib import ExitStack

import anyio.to_thread
import mcp_types as types
import pytest
from mcp.server.request_state import AESGCMRequestStateCodec

from mrtr_options.sdk.durable.messages import Stepped
from scoreboard.temporal import Server
from tests.bounds import KEY
from tests.sdk.durable_calls import World, ended, said, served
from tests.sdk.fakes import key_of, named

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


async def test_a_step_that_is_begun_again_keeps_its_effect_when_its_first_run_ends() -> None:
    from mrtr_options.sdk.durable import fleet

    async def effect() -> Stepped:
        return Stepped()

    place = "run", "key"
    with ExitStack() as again:
        with fleet.under_way(place, effect, False):
            again.enter_context(fleet.under_way(place, effect, True))
        assert fleet.effects[place] == (effect, True)
    assert place not in fleet.effects


@pytest.mark.slow
async def test_a_call_outlives_its_worker_and_the_server_and_is_sealed_there(temporal: Server) -> None:
    world, url, codec = World(), temporal.apart(), AESGCMRequestStateCodec([KEY.encode()])
    async with served(url, world, codec=codec) as send:
        first = await send()
        assert key_of(first) == "one"
    async with served(url, world, codec=codec, wait_seconds=1, rounds=1000) as send:
        second = await ended(send, await send(named("Ann Abelard", "one"), first))
        assert key_of(second) == "two"
        assert await ended(send, await send(named("Ann Abelard", "one"), first)) == second
        await anyio.to_thread.run_sync(temporal.kill)
        # What comes while the server is away travels in the state: the user is not asked again.
        held = await send(named("Bob", "two"), second)
        assert isinstance(held, types.InputRequiredResult)
        assert held.input_requests is None
        await anyio.to_thread.run_sync(temporal.start)
        last = await ended(send, await send(None, held))
        assert said(last) == "Ann Abelard and Bob"
    # A step whose record the server could not take runs again, for a destination that knows its key.
    assert sorted(kind for kind, _ in {*world.effects}) == ["first", "last"]
    kept = b"".join(each.read_bytes() for each in temporal.file.parent.glob(f"{temporal.file.name}*"))
    assert b"mrtr-call" in kept
    assert b"Abelard" not in kept
