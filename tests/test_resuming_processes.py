"""The client's half against a server in a process of its own, where a proxy breaks its responses."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp import Client

from mrtr_options.bench.ledger import effects_after
from mrtr_options.bench.subjects import subject_named
from mrtr_options.sdk.resuming import ResumingClient
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import count
from scoreboard.clients.play import Server, serving
from scoreboard.clients.proxy import Break, How, Proxy
from tests.bounds import SECONDS
from tests.rounds import text_of, user

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@asynccontextmanager
async def served() -> AsyncGenerator[Server]:
    """F inside the guard, which honours call keys."""
    with anyio.fail_after(10 * SECONDS):
        async with serving(subject_named("F¹"), 10) as server:
            async with Client(server.origin + PATH) as client:
                await client.list_tools()  # it is up: a key that is older than its store is too old
            yield server


async def test_every_broken_response_is_made_good() -> None:
    broken: list[tuple[How, int]] = [
        *(("cut", 1), ("cut", 2), ("reset", 3), ("half-json", 3), ("502", 1), ("empty", 2))
    ]
    async with served() as server:
        for how, at in broken:
            proxy = Proxy(server.origin, Break(how, at))
            async with proxy.running() as origin:

                def connect(origin: str = origin) -> Client:
                    return Client(origin + PATH, elicitation_callback=user)

                async with ResumingClient(
                    connect, server=origin, principal="", honours_keys=True, pause_seconds=0.01
                ) as client:
                    result = await client.call_tool(TOOL, {"location": "Springfield 1"})
            assert text_of(result).startswith("Springfield 1, Illinois")
            assert proxy.happened
            assert len({sent.id for sent in proxy.sent}) == len(proxy.sent) == 4, f"{how} {at}"
        effects = count(tuple(effects_after(server.ledger, 0).values()))
    assert effects == {"audit": len(broken), "bill": len(broken)}
