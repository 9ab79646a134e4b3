"""What a connection may take: its request is there in time, and there are only so many at once."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mrtr_options.tool import connections
from mrtr_options.tool.serving import PATH, listen, web_server
from tests.bounds import SECONDS
from tests.rounds import instance, settings
from tests.warm import python

pytestmark = pytest.mark.anyio

HEADERS = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
MODERN = "mcp-protocol-version: 2026-07-28\r\n"


@asynccontextmanager
async def serving() -> AsyncGenerator[int]:
    """The port of a server in this process."""
    with anyio.fail_after(SECONDS), closing(listen(0)) as listener:
        port = listener.getsockname()[1]
        async with anyio.create_task_group() as group:
            web = web_server(instance("E", settings()), listener)
            group.start_soon(web.serve, [listener])
            yield port
            web.should_exit = True


async def all_of(stream: ByteStream) -> bytes:
    """What a server sends until it closes the connection."""
    received = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            received += await stream.receive()
    return received


WHOLE = "GET /nowhere HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
POST = "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n" + HEADERS


@pytest.mark.parametrize(
    ("before", "half"),
    [
        ((), ""),
        ((), POST),
        ((), POST + "content-length: 9\r\n\r\n1"),
        ((), POST + MODERN + "content-length: 9\r\n\r\n1"),
        ((WHOLE,), POST),
    ],
    ids=["nothing", "headers", "legacy-body", "modern-body", "second-request"],
)
async def test_a_connection_whose_request_does_not_come_in_whole_is_closed_without_a_word(
    before: tuple[str, ...],
    half: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    async with serving() as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        for request in before:
            await stream.send(request.format(port=port).encode())
            assert (await stream.receive()).startswith(b"HTTP/1.1 404 ")
        if half:
            await stream.send(half.format(port=port).encode())
        await all_of(stream)
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_connection_too_many_is_told_so_and_one_that_ends_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 2)
    async with serving() as port, AsyncExitStack() as stack:
        url = f"http://127.0.0.1:{port}/nowhere"
        first, second = [
            await stack.enter_async_context(httpx2.AsyncClient(timeout=SECONDS)) for _ in range(2)
        ]
        assert [(await each.get(url)).status_code for each in (first, second)] == [404, 404]
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            assert (await all_of(stream)).startswith(b"HTTP/1.1 503 ")
        await first.aclose()
        async with httpx2.AsyncClient(timeout=SECONDS) as third:
            while (response := await third.get(url)).status_code == 503:
                assert response.headers["retry-after"] == "5"
            assert response.status_code == 404


SERVE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from mrtr_options.tool import connections
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.serving import listen, serve_http
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
connections.MAX_CONNECTIONS = 10_000
if sys.argv[1] == "unbounded":
    connections.max_connections = lambda: 10_000
listener = listen(0)
print(listener.getsockname()[1], flush=True)
serve_http(load(option_named("E").path, Settings(MemoryLedger())), listener)
"""


@pytest.mark.slow
@pytest.mark.parametrize("connections_are", ["bounded", "unbounded"])
async def test_a_server_that_has_no_file_left_refuses_connections_without_a_word_and_serves_on(
    connections_are: str,
) -> None:
    command = [*python(), "-c", SERVE, connections_are]
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process(command) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                lines = BufferedByteReceiveStream(process.stdout)
                port = int(await lines.receive_until(b"\n", 100))
                await _crowd(port, 200)
                async with httpx2.AsyncClient(timeout=SECONDS) as client:
                    serves_on = False
                    while not serves_on:
                        with suppress(httpx2.RemoteProtocolError):  # the crowd is not all gone
                            answer = await client.get(f"http://127.0.0.1:{port}{PATH}")
                            serves_on = answer.status_code != 503
            finally:
                process.kill()
            assert b"".join([chunk async for chunk in process.stderr]) == b""


async def _crowd(port: int, number: int) -> None:
    """Have so many connections at once until the server has closed half of them."""
    closed = 0

    async with AsyncExitStack() as stack, anyio.create_task_group() as group:

        async def wait(stream: ByteStream) -> None:
            nonlocal closed
            await all_of(stream)
            closed += 1
            if closed == number // 2:
                group.cancel_scope.cancel()

        for _ in range(number):
            raw = socket.create_connection(("127.0.0.1", port), SECONDS)
            stream = await stack.enter_async_context(await anyio.abc.SocketStream.from_socket(raw))
            group.start_soon(wait, stream)
