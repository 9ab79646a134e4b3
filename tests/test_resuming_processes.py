"""The client's half against a server in a process of its own: broken connections, and its own death."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
import pytest
from mcp import Client

from mrtr_options.bench.ledger import effects_after
from mrtr_options.bench.subjects import subject_named
from mrtr_options.sdk.resuming import Call, CallFolder, ResumingClient
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import EffectKind, count
from scoreboard.clients.play import Server, serving
from scoreboard.clients.proxy import Break, How, Proxy
from tests.bounds import SECONDS
from tests.rounds import text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KEPT = 7
"""How often a call with two questions is kept: as begun, as asked, and as answered, until its result."""
KILLED = 10
"""How many clients are killed: one at each of those times, and again from the first."""


async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    (name,) = params.requested_schema["properties"]
    choices: list[str] = params.requested_schema["properties"][name]["enum"]
    return types.ElicitResult(action="accept", content={name: choices[0]})


def client_of(origin: str, calls: CallFolder | None = None) -> ResumingClient:
    return ResumingClient(
        lambda: Client(origin + PATH, elicitation_callback=fill_in),
        server=origin,
        principal="",
        calls=calls,
        honours_keys=True,
        pause_seconds=0.01,
    )


@asynccontextmanager
async def served() -> AsyncGenerator[Server]:
    """F inside the guard, which honours call keys."""
    with anyio.fail_after(10 * SECONDS):
        async with serving(subject_named("F¹"), 10) as server:
            async with Client(server.origin + PATH) as client:
                await client.list_tools()  # it is up: a key that is older than its store is too old
            yield server


def counts(server: Server) -> dict[EffectKind, int]:
    return count(effects_after(server.ledger, 0))


async def test_every_broken_response_is_made_good() -> None:
    broken: list[tuple[How, int]] = [
        ("cut", 1),
        ("cut", 2),
        ("reset", 3),
        ("half-json", 3),
        ("502", 1),
        ("empty", 2),
    ]
    async with served() as server:
        for how, at in broken:
            proxy = Proxy(server.origin, Break(how, at))
            async with proxy.running() as origin, client_of(origin) as client:
                result = await client.call_tool(TOOL, {"location": "Springfield 1"})
            assert text_of(result).startswith("Springfield 1, Illinois")
            assert proxy.happened
            assert len({sent.id for sent in proxy.sent}) == len(proxy.sent) == 4, f"{how} {at}"
        assert counts(server) == {"audit": len(broken), "bill": len(broken)}


class Deadly(CallFolder):
    """Ends its process when it has kept a call so often."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__(path)
        self._times = times

    def keep(self, call: Call) -> None:
        super().keep(call)
        self._times -= 1
        if self._times == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def begin_and_die(origin: str, folder: Path, city: str, times: int) -> None:
    """A client's process."""

    async def call() -> None:
        async with client_of(origin, Deadly(folder, times)) as client:
            await client.call_tool(TOOL, {"location": city})

    anyio.run(call)


async def test_a_client_that_is_killed_between_rounds_goes_on(shared_folder: Path) -> None:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    async with served() as server:
        for turn in range(KILLED):
            city, folder = f"Springfield {turn}", shared_folder / str(turn)
            calls = CallFolder(folder)
            process = processes.Process(
                target=begin_and_die, args=(server.origin, folder, city, 1 + turn % KEPT)
            )
            process.start()
            await anyio.to_thread.run_sync(process.join, SECONDS)
            assert process.exitcode == -signal.SIGKILL
            (kept,) = calls
            async with client_of(server.origin, calls) as client:
                result = await client.resume(kept)
            assert text_of(result).startswith(f"{city}, Illinois")
            assert list(calls) == []
            assert counts(server) == {"audit": turn + 1, "bill": turn + 1}
