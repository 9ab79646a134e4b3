"""What a call costs over HTTP: one uvicorn process with every server in it, and 1 to 128 callers.

The callers speak HTTP themselves, as little of it as will do: the SDK's client takes longer over a
request than the server does, and would be what is measured. Knows options only as servers.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from anyio.abc import SocketStream
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from mrtr_options.bench.client import MODES
from mrtr_options.bench.processes import START_SECONDS, belong_to_the_bench
from mrtr_options.cost.calls import servers_of
from mrtr_options.cost.floor import FLOOR
from mrtr_options.cost.timing import Progress, Row, percentiles, ratio
from mrtr_options.tool.catalogue import Option
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.serving import listen

CALLERS = (1, 16, 128)
TURNS = 3
CALLS = 128
"""Calls of one turn, by all callers together."""

_spawn = multiprocessing.get_context("spawn")


# --- the server process -------------------------------------------------------------------------


@contextmanager
def served(options: Sequence[Option]) -> Generator[tuple[int, list[str]]]:
    """A process that serves the floor and these options, each under `/<its name>`.

    Yields:
        Its port, and the names.
    """
    names = [FLOOR, *(option.letter for option in options)]
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-", ignore_cleanup_errors=True) as folder:
        with listen(0) as listener:
            port: int = listener.getsockname()[1]
            # Bound here: the port is known at once, and a request waits until the process comes up.
            process = _spawn.Process(target=_serve, args=(list(options), folder, listener), daemon=True)
            process.start()
        try:
            yield port, names
        finally:
            process.kill()
            process.join()


def _serve(options: list[Option], folder: str, listener: socket.socket) -> None:
    belong_to_the_bench()
    apps = {
        name: server.streamable_http_app(streamable_http_path=f"/{name}", host="0.0.0.0")
        for name, server in servers_of(options, f"sqlite:///{Path(folder) / 'calls.sqlite'}").items()
    }
    config = uvicorn.Config(_one_app(list(apps.values())), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])


def _one_app(apps: Sequence[Starlette]) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in apps:
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    routes: list[BaseRoute] = [route for app in apps for route in app.routes]
    return Starlette(routes=routes, lifespan=lifespan)


# --- the callers --------------------------------------------------------------------------------


async def load_of(options: Sequence[Option], progress: Progress) -> list[Row]:
    """Call each option over HTTP beside the floor, from 1, 16 and 128 callers. A call has two rounds.

    The rate is of all callers together, the ratio of the time for a turn's calls.

    Args:
        options: Those that keep no database; see `durable` for the others.
        progress: Called `TURNS` times for each number of callers.
    """
    with served(options) as (port, names):
        async with _callers(port, max(CALLERS)) as callers:
            with anyio.fail_after(START_SECONDS):
                for name in names:
                    await callers[0].call(name)
            return [row for number in CALLERS for row in await _load(names, callers[:number], progress)]


async def _load(names: Sequence[str], callers: Sequence[Caller], progress: Progress) -> list[Row]:
    walls: dict[str, list[float]] = {name: [] for name in names}
    latencies: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-1, TURNS):  # the first is not counted
        for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
            begins = time.perf_counter()
            took = await calls_at_once(callers, name, CALLS)
            wall = time.perf_counter() - begins
            if turn >= 0:
                latencies[name] += took
                walls[name].append(wall)
        if turn >= 0:
            progress()
    return [
        Row(
            name,
            {
                "callers": len(callers),
                "calls_per_second": CALLS / statistics.median(walls[name]),
                "ratio": ratio(walls[name], walls[FLOOR]),
                **percentiles(latencies[name]),
            },
        )
        for name in names
    ]


async def calls_at_once(callers: Sequence[Caller], name: str, calls: int) -> list[float]:
    """Spread so many calls over the callers; how long each call took, in seconds."""
    took: list[float] = []

    async def some(caller: Caller, number: int) -> None:
        for _ in range(number):
            begins = time.perf_counter()
            await caller.call(name)
            took.append(time.perf_counter() - begins)

    async with anyio.create_task_group() as tasks:
        for place, caller in enumerate(callers):
            tasks.start_soon(some, caller, len(range(place, calls, len(callers))))
    return took


@asynccontextmanager
async def _callers(port: int, number: int) -> AsyncGenerator[list[Caller]]:
    async with AsyncExitStack() as stack:
        streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(number)]
        for stream in streams:
            await stack.enter_async_context(stream)
        yield [Caller(stream) for stream in streams]


class Caller:
    """A client of the modern era on one connection, that answers every question about units."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def call(self, name: str) -> None:
        """One call.

        Args:
            name: The server's.
        """
        asked = await self._post(name, {})
        while asked.get("resultType") == "input_required":
            answers = {
                key: {"action": "accept", "content": {"units": "metric"}}
                for key in asked.get("inputRequests", {})
            }
            brought = {"inputResponses": answers, "requestState": asked["requestState"]}
            asked = await self._post(name, brought)
        assert not asked.get("isError"), asked

    async def _post(self, name: str, brought: dict[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = {
            "name": TOOL,
            "arguments": {"location": "Tokyo"},
            "_meta": _META,
            **brought,
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(request).encode()
        await self._stream.send(f"POST /{name} HTTP/1.1\r\n{_HEAD}{len(body)}\r\n\r\n".encode() + body)
        response = json.loads(await self._response())
        return response["result"]

    async def _response(self) -> bytes:
        while (found := _LENGTH.search(self._received)) is None:
            self._received += await self._stream.receive()
        end = found.end() + int(found[1])
        while len(self._received) < end:
            self._received += await self._stream.receive()
        body, self._received = self._received[found.end() : end], self._received[end:]
        return body


_HEAD = (
    "host: 127.0.0.1:80\r\naccept: application/json, text/event-stream\r\n"
    "content-type: application/json\r\n"
    f"mcp-protocol-version: {MODES['modern']}\r\nmcp-method: tools/call\r\nmcp-name: {TOOL}\r\n"
    "content-length: "
)
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODES["modern"],
    "io.modelcontextprotocol/clientInfo": {"name": "cost", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
_LENGTH = re.compile(rb"content-length: (\d+)\r\n(?:.+\r\n)*\r\n", re.IGNORECASE)
