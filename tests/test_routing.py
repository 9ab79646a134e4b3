"""Tests of states that name their instance, and of the balancer's configuration in OPERATIONS."""

import select
import shutil
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from mcp import MCPError
from mcp.server.request_state import InvalidRequestState
from mcp_types import InputRequiredResult

from mrtr_options.sdk.protection import instance_from_environment, make_codec
from mrtr_options.sdk.serving import MAX_BODY_BYTES, PATH
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from scoreboard.servers.peers import free_port, listening
from tests.bounds import KEY, SECONDS
from tests.sending import answer, connected, instance, over_http, send, text_of

pytestmark = pytest.mark.anyio

NAMES = ("one", "two")
OPERATIONS = Path(__file__).parents[1] / "docs" / "OPERATIONS.md"


@pytest.mark.parametrize("sealed", [False, True], ids=["signed", "sealed"])
def test_a_state_names_its_instance_and_has_one_spelling(sealed: bool) -> None:
    names = ("one", "two", None)
    one, two, plain = (make_codec([KEY.encode()], sealed=sealed, instance=name) for name in names)
    state = one.seal(b"{}")
    assert state.startswith("one~")
    assert two.unseal(state) == plain.unseal(state) == b"{}"
    assert one.unseal(plain.seal(b"{}")) == b"{}"  # a state made before instances had names
    token = state.removeprefix("one~")
    for other in (
        f"two~{token}",
        f"~{token}",
        token,
        f"one~{plain.seal(b'{}')}",
        f"one~one~{token}",
    ):
        with pytest.raises(InvalidRequestState):
            one.unseal(other)


def test_a_name_that_a_balancer_could_misread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("web-1", ""):
        monkeypatch.setenv("MRTR_INSTANCE", name)
        assert instance_from_environment() == (name or None)
    for name in ("a~b", "a b", "x" * 33):
        monkeypatch.setenv("MRTR_INSTANCE", name)
        with pytest.raises(ValueError, match="MRTR_INSTANCE must be 1 to 32 letters"):
            instance_from_environment()
        with pytest.raises(ValueError, match="must be 1 to 32 letters"):
            Settings(MemoryLedger(), instance=name)


needs_haproxy = pytest.mark.skipif(
    shutil.which("haproxy") is None, reason="needs haproxy: apt-get install haproxy"
)


@asynccontextmanager
async def haproxy(folder: Path, *changes: tuple[str, str]) -> AsyncGenerator[int]:
    """Run HAProxy as OPERATIONS configures it, with free ports and these changes.

    Yields:
        Its port.
    """
    config = OPERATIONS.read_text(encoding="utf-8").partition("```haproxy\n")[2].partition("```")[0]
    port = free_port()
    for written, ours in (("127.0.0.1:8000", f"127.0.0.1:{port}"), *changes):
        assert config.count(written) == 1
        config = config.replace(written, ours)
    file = folder / "haproxy.cfg"
    file.write_text(config, encoding="utf-8")
    command = ["haproxy", "-db", "-q", "-f", file.name]
    balancer = listening(command, folder, {}, folder / "log", f"http://127.0.0.1:{port}")
    with anyio.fail_after(SECONDS):
        async with balancer:
            yield port


async def closed(stream: ByteStream) -> bytes:
    """Receive until the connection is closed, and return the bytes."""
    received = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            received += await stream.receive()
    return received


def one_too_many(port: int, most: int) -> bytes:
    """Open one connection too many, and return the first bytes of whichever is closed."""
    with ExitStack() as stack, suppress(ConnectionError):  # a connection may be refused at once
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(most + 1)
        ]
        closing, _, _ = select.select(opened, [], [], SECONDS)
        return closing[0].recv(1)
    return b""


@needs_haproxy
async def test_haproxy_routes_by_state_and_bounds_bodies_and_connections(tmp_path: Path) -> None:
    fleet = [Settings(MemoryLedger(), keys=[KEY.encode()], instance=name) for name in NAMES]
    async with (
        over_http(*(instance("H", each) for each in fleet)) as urls,
        AsyncExitStack() as stack,
    ):
        at = [
            (f"127.0.0.1:{8001 + place}", httpx2.URL(urls[place]).netloc.decode())
            for place in (0, 1)
        ]
        port = await stack.enter_async_context(haproxy(tmp_path, *at))
        async with connected(f"http://127.0.0.1:{port}{PATH}") as client:
            asked = [await send(client, "Tokyo") for _ in range(8)]
            states = [
                got.request_state or "" for got in asked if isinstance(got, InputRequiredResult)
            ]
            assert {state.partition("~")[0] for state in states} == set(NAMES)
            for each in asked:
                assert text_of(await answer(client, "Tokyo", each)).startswith("Tokyo, Japan")
        for place in (0, 1):  # without the balancer's routing, half of them would be refused
            async with connected(urls[place]) as one, connected(urls[1 - place]) as other:
                with pytest.raises(MCPError, match="is not waiting on this server"):
                    await answer(other, "Tokyo", await send(one, "Tokyo"))
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            long = b"x" * (MAX_BODY_BYTES + 1)
            response = await http.post(f"http://127.0.0.1:{port}{PATH}", content=long)
            assert response.status_code == 413
            assert response.headers.get("server") != "uvicorn"
        assert await anyio.to_thread.run_sync(one_too_many, port, 50) == b""


@needs_haproxy
async def test_haproxy_ends_a_request_that_does_not_come_in_time(tmp_path: Path) -> None:
    async with haproxy(tmp_path, ("http-request 20s", "http-request 1s")) as port:
        half = f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n1"
        async with await anyio.connect_tcp("127.0.0.1", port) as slow:
            await slow.send(half.encode())
            assert (await closed(slow)).startswith(b"HTTP/1.1 408 ")
