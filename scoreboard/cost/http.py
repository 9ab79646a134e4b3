"""The cost of a call over HTTP: one uvicorn process with every server, and 1 and 16 callers.

The server's processor time counts: it shows how many calls a core can take, and other work on the
machine hardly disturbs it. The callers speak a minimum of HTTP themselves, since each request of a
library's client takes the server longer. Knows options only as servers.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import anyio
import uvicorn
from anyio.abc import SocketStream
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from mrtr_options.demo.call import converse
from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.steps import AGREE
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.starting import START_SECONDS, end, start_server
from mrtr_options.sdk.call_key import REPEAT
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.tool.server import TOOL
from scoreboard.cost.calls import meta_for, servers_of
from scoreboard.cost.report import CALLERS, DEFAULT, FLOOR, Load
from scoreboard.cost.timing import Progress, in_turns, ratio, spread, timed

CALLS = 16
"""Calls of one subject in one turn, by all callers together."""

TURNS = 10

Bench = tuple[int, Callable[[], float]]
"""The port of a server process, and a clock that reads its processor time in seconds."""


async def time_http(subjects: Sequence[Subject], progress: Progress) -> list[Load]:
    """Call each subject over HTTP beside the floor. A call has two rounds.

    Args:
        subjects: The subjects that store no calls in a database; `engines` measures the others.
        progress: Called `TURNS` times for each number of callers.
    """
    names = [FLOOR, *(each.name for each in subjects), DEFAULT]
    found: list[Load] = []
    with served(subjects, with_default=True) as bench:
        for number in CALLERS:
            readings = await turns_of(bench, number, names, TURNS, progress)
            found += [
                Load(
                    subject=name,
                    callers=number,
                    ms=spread([seconds / CALLS * 1000 for seconds in own]),
                    ratio=ratio(own, readings[FLOOR]),
                )
                for name, own in readings.items()
            ]
    return found


async def turns_of(
    bench: Bench, number: int, names: Sequence[str], turns: int, progress: Progress
) -> dict[str, list[float]]:
    """Return the server's seconds for `CALLS` calls of each subject, by so many callers."""
    port, clock = bench
    async with callers_at(port, number) as callers:
        with anyio.fail_after(START_SECONDS):
            await callers[0].call(FLOOR)
        work = {name: timed(partial(calls_of, callers, name), clock) for name in names}
        return await in_turns(work, turns, progress)


# --- the server process -------------------------------------------------------------------------


@contextmanager
def served(subjects: Sequence[Subject], *, with_default: bool = False) -> Generator[Bench]:
    """Run a process that serves the floor and these subjects, each under `/<its name>`.

    Args:
        subjects: The subjects.
        with_default: Whether it also serves the default.
    """
    here, there = Pipe()
    process, origin = start_server(_serve, list(subjects), there, with_default)

    def clock() -> float:
        here.send("how long?")
        return here.recv()

    try:
        yield int(origin.rpartition(":")[2]), clock
    finally:
        process.terminate()  # uvicorn shuts down, and the databases are deleted
        process.join(START_SECONDS)
        end(process)


def _serve(
    subjects: list[Subject], bench: Connection, with_default: bool, listener: socket.socket
) -> None:
    threading.Thread(target=_tell_time, args=(bench,), daemon=True).start()
    # uvicorn stops in order, and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), servers_of(subjects, with_default=with_default) as servers:
        apps = [
            server.streamable_http_app(streamable_http_path=f"/{name}", host="0.0.0.0")
            for name, server in servers.items()
        ]
        config = uvicorn.Config(_one_app(apps), log_level="error")
        uvicorn.Server(config).run(sockets=[listener])


def _tell_time(bench: Connection) -> None:
    while bench.recv():
        bench.send(time.process_time())


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


async def calls_of(callers: Sequence[Caller], name: str) -> None:
    """Make `CALLS` calls, spread over the callers."""

    async def some(caller: Caller, number: int) -> None:
        for _ in range(number):
            await caller.call(name)

    async with anyio.create_task_group() as tasks:
        for place, caller in enumerate(callers):
            tasks.start_soon(some, caller, len(range(place, CALLS, len(callers))))


@asynccontextmanager
async def callers_at(port: int, number: int) -> AsyncGenerator[list[Caller]]:
    async with AsyncExitStack() as stack:
        streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(number)]
        yield [Caller(await stack.enter_async_context(stream)) for stream in streams]


class Caller:
    """A client of the modern era on one connection that answers every question about units."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._received = b""

    async def call(self, name: str) -> None:
        """Make one call of the server with this name."""
        same = {"_meta": _META | (meta_for(name) or {}), "arguments": {"location": "Tokyo"}}

        async def following(_: object, asked: JsonObject) -> JsonObject | None:
            if asked.get("resultType") != "input_required":
                return None
            answers = dict.fromkeys(asked.get("inputRequests", {}), _METRIC)
            return same | {"inputResponses": answers, "requestState": asked["requestState"]}

        _, result = await converse(same, partial(self._post, name), following)
        assert not result.get("isError"), result
        assert REPEAT not in result.get("_meta", {}), "the call is known, and was not made"

    async def _post(self, name: str, brought: JsonObject) -> JsonObject:
        params = {"name": TOOL, **brought}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = json.dumps(request).encode()
        await self._stream.send(
            f"POST /{name} HTTP/1.1\r\n{_HEAD}{len(body)}\r\n\r\n".encode() + body
        )
        response = json.loads(await self._response())
        assert "result" in response, response
        return response["result"]

    async def _response(self) -> bytes:
        while (found := _LENGTH.search(self._received)) is None:
            self._received += await self._stream.receive()
        end = found.end() + int(found[1])
        while len(self._received) < end:
            self._received += await self._stream.receive()
        body = self._received[found.end() : end]
        self._received = self._received[end:]
        return body


_HEAD = (
    "host: 127.0.0.1:80\r\naccept: application/json, text/event-stream\r\n"
    "content-type: application/json\r\n"
    f"mcp-protocol-version: {MODES['modern']}\r\nmcp-method: tools/call\r\nmcp-name: {TOOL}\r\n"
    "content-length: "
)
_METRIC = {"action": "accept", "content": {"units": AGREE["units"]}}
_META: JsonObject = {
    "io.modelcontextprotocol/protocolVersion": MODES["modern"],
    "io.modelcontextprotocol/clientInfo": {"name": "cost", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
_LENGTH = re.compile(rb"content-length: (\d+)\r\n(?:.+\r\n)*\r\n", re.IGNORECASE)
