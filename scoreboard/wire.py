"""A faulty wire: a proxy on loopback in front of a server, which breaks responses.

A board says what breaks: it is asked about each request before it is passed on, and about each
message of a response before it is sent. Everything else passes unchanged. Knows HTTP/1.1 and how
MCP puts messages into it; nothing of clients, proxies, servers or tools.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, cast

import anyio
import anyio.abc
import h11
import httpx2

from mrtr_options.sdk.handler import JsonObject

JSON = "application/json"
STREAM = "text/event-stream"

_HEAD_BYTES = 64 * 1024
_NOT_PASSED_ON = (
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept-encoding",
    "expect",
    "origin",
)
"""Headers of a request that are not passed on: the wire's own connection has its own."""

_PASSED_BACK = ("content-type", "cache-control", "allow")
"""Headers of a response that are passed on, besides those of MCP."""


@dataclass(frozen=True)
class MadeUp:
    """A response that no server made."""

    kind: str
    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def busy(status: int) -> MadeUp:
    """Return the response of a gateway that asks to be called later."""
    return MadeUp("text/plain", b"busy", status, (("retry-after", "1"),))


@dataclass(frozen=True)
class WireFault:
    """A fault of one response.

    Attributes:
        where: Before the work (the server does not get the request), during the response, or after
            the work and before the response.
        how: The connection is cut or reset, the response ends, it is silent for a while, or it is
            this one instead.
        seconds: The time for which it is silent.
        as_stream: Whether what is sent during the response is an event stream.
        begins: What is sent of an event stream; None for half of the message.
    """

    where: Literal["before", "during", "after"]
    how: Literal["cut", "reset", "end", "silence"] | MadeUp
    seconds: float = 0.0
    as_stream: bool = False
    begins: bytes | None = None


@dataclass(frozen=True)
class Request:
    """A request from the other side of the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @cached_property
    def message(self) -> JsonObject:
        """The JSON-RPC message; empty in a request without one."""
        return message_in(self.body) if self.method == "POST" else {}


class Board:
    """What happens on a wire: nothing, unless a board says otherwise."""

    def takes(self, request: Request) -> WireFault | None:
        """Take note of a request, or return the fault that it meets before the work."""

    def sends(self, request: Request, message: bytes) -> WireFault | None:
        """Take note of a message in the response to a request, or return the fault that it meets.

        After a silence it is asked again.
        """


@asynccontextmanager
async def wire(origin: str, board: Board) -> AsyncGenerator[int]:
    """Listen in front of the server at an origin for the block, and yield the port.

    All connections close with the block.
    """
    async with (
        httpx2.AsyncClient(timeout=None, trust_env=False) as http,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, partial(_serve, origin, board, http))
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


def message_in(body: bytes) -> JsonObject:
    """Return a JSON-RPC message; an empty one if this is none."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return {}
    return cast("JsonObject", found) if isinstance(found, dict) else {}


def event(message: bytes) -> bytes:
    """Return a message as an event of a stream."""
    return b"event: message\ndata: " + message + b"\n\n"


# --- one connection -----------------------------------------------------------------------------


class _Answered(Exception):
    """The signal that the other side got a whole response from here; the connection stays open."""


class _Ended(Exception):
    """The signal to close the connection at once."""


async def _serve(
    origin: str, board: Board, http: httpx2.AsyncClient, stream: anyio.abc.SocketStream
) -> None:
    connection = _Connection(stream)
    async with stream:
        try:
            while (request := await connection.request()) is not None:
                with suppress(_Answered):
                    await _respond(origin, board, http, connection, request)
                if not connection.goes_on():
                    return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
            return  # the other side has gone
        except (_Ended, httpx2.TransportError):
            return  # the connection ends with the fault, or with the server


async def _respond(
    origin: str,
    board: Board,
    http: httpx2.AsyncClient,
    connection: _Connection,
    request: Request,
) -> None:
    found = board.takes(request)
    if found is not None:
        await _break(connection, found, b"")
    headers = {key: value for key, value in request.headers.items() if key not in _NOT_PASSED_ON}
    url = origin + request.target
    async with http.stream(request.method, url, headers=headers, content=request.body) as response:
        await _pass_on(board, connection, request, response)


async def _pass_on(
    board: Board, connection: _Connection, request: Request, response: httpx2.Response
) -> None:
    """Send the server's response."""
    head = [
        (key, value)
        for key, value in response.headers.items()
        if key in _PASSED_BACK or key.startswith("mcp-")
    ]
    if not response.headers.get("content-type", "").startswith(STREAM):
        body = await response.aread()
        await _ask(board, connection, request, body)
        await connection.send_whole(response.status_code, head, body)
        return
    # The head goes with the first event, so that a response can be lost as a whole.
    async for each in _events(response):
        await _ask(board, connection, request, _data(each))
        if not connection.has_begun:
            await connection.send_head(response.status_code, head)
        await connection.send_body(each)
    if not connection.has_begun:
        await connection.send_head(response.status_code, head)
    await connection.send_end()


async def _ask(board: Board, connection: _Connection, request: Request, message: bytes) -> None:
    while (found := board.sends(request, message)) is not None:
        await _break(connection, found, message)


async def _break(connection: _Connection, fault: WireFault, message: bytes) -> None:
    if fault.how == "silence":
        await anyio.sleep(fault.seconds)
        return
    if isinstance(fault.how, MadeUp):
        head = [("content-type", fault.how.kind), *fault.how.headers]
        await connection.send_whole(fault.how.status, head, fault.how.body)
        raise _Answered
    if fault.where == "during":
        await _begin(connection, fault, message)
    if fault.how == "end":
        await connection.send_end()
        raise _Answered
    if fault.how == "reset":
        connection.reset_at_end()
    raise _Ended


async def _begin(connection: _Connection, fault: WireFault, message: bytes) -> None:
    """Send a part of a response."""
    if not fault.as_stream:
        length = ("content-length", str(len(message)))
        await connection.send_head(200, [("content-type", JSON), length])
        await connection.send_body(message[: len(message) // 2])
        return
    if not connection.has_begun:
        await connection.send_head(200, [("content-type", STREAM)])
    whole = event(message)
    await connection.send_body(whole[: len(whole) // 2] if fault.begins is None else fault.begins)


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the events of a stream. An event includes the empty line that ends it."""
    rest = b""
    async for chunk in response.aiter_bytes():
        rest = (rest + chunk).replace(b"\r\n", b"\n")
        *whole, rest = rest.split(b"\n\n")
        for each in whole:
            yield each + b"\n\n"


def _data(each: bytes) -> bytes:
    lines = [
        line.partition(b":")[2].strip() for line in each.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines)


class _Connection:
    """The server's side of one connection of HTTP/1.1."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    @property
    def has_begun(self) -> bool:
        """Return whether a part of the response has been sent."""
        return self._http.our_state not in (h11.SEND_RESPONSE, h11.IDLE)

    async def request(self) -> Request | None:
        """Return the next request; None if the other side has closed."""
        head: h11.Request | None = None
        body = b""
        while True:
            found = self._http.next_event()
            match found:
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    try:
                        self._http.receive_data(await self._stream.receive())
                    except anyio.EndOfStream:
                        self._http.receive_data(b"")
                case h11.Request():
                    head = found
                case h11.Data():
                    body += found.data
                case h11.EndOfMessage():
                    assert head is not None
                    headers = {key.decode(): value.decode() for key, value in head.headers}
                    return Request(head.method.decode(), head.target.decode(), headers, body)
                case _:
                    return None

    async def _send(
        self, sent: h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage
    ) -> None:
        data = self._http.send(sent)  # pyright: ignore[reportUnknownMemberType]
        if data:
            await self._stream.send(data)

    async def send_head(self, status: int, headers: list[tuple[str, str]]) -> None:
        await self._send(h11.Response(status_code=status, headers=headers))

    async def send_body(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def send_end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def send_whole(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        await self.send_head(status, [*headers, ("content-length", str(len(body)))])
        await self.send_body(body)
        await self.send_end()

    def goes_on(self) -> bool:
        """Prepare for the next request; return False if the connection cannot take another."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def reset_at_end(self) -> None:
        """Make the connection end in a reset (RFC 9293, section 3.5.2)."""
        raw: socket.socket = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
