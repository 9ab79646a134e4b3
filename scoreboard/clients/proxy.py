"""A proxy on loopback that breaks one response of one call, or makes responses up.

It stands between any client and any MCP server over streamable HTTP, records the client's requests,
and passes everything else on unchanged. Knows HTTP/1.1 and JSON-RPC; nothing of options or SDKs.

The *messages of a call* are its questions and its result. A modern client gets one message with
each response; a legacy client gets all messages on one stream. A fault happens at the first, at a
later (interim) or at the last message.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import anyio.abc
import h11
import httpx2

from scoreboard.clients.hostile import Answer

How = Literal[
    "cut",
    "reset",
    "half-json",
    "empty",
    "stream-cut",
    "stream-end",
    "stream-id-cut",
    "half-event",
    "slow",
    "502",
    "503",
]
"""The kinds of faults.

- "cut", "reset": the connection is closed, or reset, before the response.
- "half-json", "empty": the JSON is cut off, or the body is empty.
- "stream-cut", "stream-end": the event stream is cut off, or ends cleanly, before the response.
- "stream-id-cut": the event stream has an event id, and is cut off before the response.
- "half-event": the event stream is cut off in the middle of the response.
- "slow": the response is late.
- "502", "503": a gateway answers. With 502 the server did the work, with 503 it was not reached.
"""

SLOW_SECONDS = 75.0
"""The delay of a slow response."""

BROKEN: dict[How, str] = {
    "cut": "the connection is closed before the response",
    "reset": "the connection is reset before the response",
    "half-json": "the connection is closed in the middle of the response",
    "empty": "the response has an empty body",
    "stream-cut": "the event stream is cut off before the response",
    "stream-end": "the event stream ends before the response",
    "stream-id-cut": "the event stream, which has event ids, is cut off before the response",
    "half-event": "the event stream is cut off in the middle of the response",
    "slow": f"the response is {SLOW_SECONDS:.0f} s late",
    "502": "a gateway answers 502; the server did the work",
    "503": "a gateway answers 503; the server was not reached",
}
"""What a history says of each fault."""

_HEAD_BYTES = 64 * 1024
_OF_THE_CONNECTION = (
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept-encoding",
)
"""Headers of a request that are not passed on: the proxy's own connection has its own."""

_PRIMING = {
    "stream-cut": b": open\n\n",
    "stream-end": b": open\n\n",
    "stream-id-cut": b"id: 1\ndata: \n\n",
}


@dataclass(frozen=True)
class Break:
    """A fault that breaks one response.

    Attributes:
        how: The kind of the fault.
        at: The number of the broken message of the call, counted from 1.
    """

    how: How
    at: int


@dataclass(frozen=True)
class Sent:
    """A `tools/call` as the client sent it.

    Attributes:
        id: The id of the request.
        params: The params without `_meta`, which may differ every time.
    """

    id: Any
    params: dict[str, Any]

    @property
    def begins(self) -> bool:
        """Return whether it is the first round of a call."""
        return self.params.keys().isdisjoint(("requestState", "inputResponses"))


@dataclass
class Proxy:
    """A proxy for one call. Enter `running` to use it.

    Args:
        upstream: The server's origin, as in "http://127.0.0.1:8000".
        fault: The fault, which happens once.
        answer: Makes up the results of `tools/call`; the requests then do not reach the server.
        as_stream: Whether made-up results are sent as event streams.

    Attributes:
        sent: The `tools/call` requests of the client.
        resumed: How often the client asked for the rest of a broken event stream.
        happened: Whether the fault has happened.
        history: The requests and the responses of the call, in words.
    """

    upstream: str
    fault: Break | None = None
    answer: Answer | None = None
    as_stream: bool = False
    sent: list[Sent] = field(default_factory=list[Sent])
    resumed: int = 0
    happened: bool = False
    history: list[str] = field(default_factory=list[str])
    _messages: int = 0

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[str]:
        """Listen on a free port, and yield the origin. All connections close with the block."""
        async with (
            httpx2.AsyncClient(timeout=None, trust_env=False) as self._http,
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as group,
        ):
            group.start_soon(listener.serve, self._serve)
            yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
            group.cancel_scope.cancel()

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        connection = _Connection(stream)
        async with stream:
            try:
                while (request := await connection.request()) is not None:
                    with suppress(_Answered):
                        await self._respond(connection, *request)
                    if not connection.goes_on():
                        return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, h11.ProtocolError):
                return  # the client has gone
            except (_Ended, httpx2.TransportError):
                return  # the connection ends with the fault, or with the server

    async def _respond(self, connection: _Connection, request: h11.Request, body: bytes) -> None:
        headers = {name.decode(): value.decode() for name, value in request.headers}
        if request.method == b"GET" and "last-event-id" in headers:
            self.resumed += 1
            self.history.append("the client asks for the rest of the event stream")
        message = _message(body) if request.method == b"POST" else {}
        is_call = message.get("method") == "tools/call"
        if is_call:
            params = {name: value for name, value in message["params"].items() if name != "_meta"}
            sent = Sent(message["id"], params)
            self.sent.append(sent)
            self.history.append(f"request {len(self.sent)}: {_round(sent)}")
            if self.answer is not None:
                await self._make_up(connection, message["id"])
                return
            if self.fault is not None and self.fault.how == "503" and self._is_due():
                await self._break(connection, self.fault.how, b"")
        for name in _OF_THE_CONNECTION:
            headers.pop(name, None)
        url = self.upstream + request.target.decode()
        method = request.method.decode()
        async with self._http.stream(method, url, headers=headers, content=body) as response:
            await self._pass_on(connection, response, message.get("id") if is_call else None)

    async def _make_up(self, connection: _Connection, request: Any) -> None:
        assert self.answer is not None
        result = self.answer(len(self.sent))
        message = json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode()
        if self.as_stream:
            await connection.send_whole(200, "text/event-stream", _event(message))
        else:
            await connection.send_whole(200, "application/json", message)

    async def _pass_on(
        self, connection: _Connection, response: httpx2.Response, call: Any | None
    ) -> None:
        """Send the server's response to the client. `call` is the id of the call, or None."""
        head = [
            (name, value)
            for name, value in response.headers.items()
            if name in ("content-type", "mcp-session-id", "cache-control", "allow")
        ]
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            body = await response.aread()
            if call is not None:
                await self._message(connection, body)
            await connection.send_head(
                response.status_code, [*head, ("content-length", str(len(body)))]
            )
            await connection.send_body(body)
            await connection.send_end()
            return
        # The head goes with the first event, so that a response can be lost as a whole.
        open_ = call is None
        if open_:
            await connection.send_head(response.status_code, head)
        async for event in _events(response):
            data = _data(event)
            if call is not None and _is_message(data, call):
                await self._message(connection, data)
            if not open_:
                await connection.send_head(response.status_code, head)
                open_ = True
            await connection.send_body(event)
        if not open_:
            await connection.send_head(response.status_code, head)
        await connection.send_end()

    def _is_due(self) -> bool:
        return self.fault is not None and not self.happened and self._messages + 1 == self.fault.at

    async def _message(self, connection: _Connection, message: bytes) -> None:
        """Count the next message of the call; if the fault is due, it happens here."""
        if self._is_due():
            assert self.fault is not None
            await self._break(connection, self.fault.how, message)
        self.history.append(f"response: {_kind(message)}")
        self._messages += 1

    async def _break(self, connection: _Connection, how: How, message: bytes) -> None:
        self.happened = True
        self.history.append(BROKEN[how])
        if how == "slow":
            await anyio.sleep(SLOW_SECONDS)
            return
        if how in ("502", "503"):
            await connection.send_head(
                int(how),
                [("retry-after", "1"), ("content-type", "text/plain"), ("content-length", "4")],
            )
            await connection.send_body(b"busy")
            await connection.send_end()
            raise _Answered
        if how == "empty":
            await connection.send_whole(200, "application/json", b"")
            raise _Answered
        if how == "half-json":
            length = ("content-length", str(len(message)))
            await connection.send_head(200, [("content-type", "application/json"), length])
            await connection.send_body(message[: len(message) // 2])
        elif how not in ("cut", "reset"):
            if not connection.has_begun:
                await connection.send_head(200, [("content-type", "text/event-stream")])
            event = _event(message)
            await connection.send_body(_PRIMING.get(how, event[: len(event) // 2]))
            if how == "stream-end":
                await connection.send_end()
                raise _Answered
        if how == "reset":
            connection.reset_at_end()
        raise _Ended


class _Answered(Exception):
    """The signal that the client got a whole response from the proxy; the connection stays open."""


class _Ended(Exception):
    """The signal to close the connection at once."""


class _Connection:
    """The server's side of one connection of HTTP/1.1."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)

    @property
    def has_begun(self) -> bool:
        """Return whether a part of the response has been sent."""
        return self._http.our_state not in (h11.SEND_RESPONSE, h11.IDLE)

    async def request(self) -> tuple[h11.Request, bytes] | None:
        """Return the next request and its body; None if the client has closed."""
        head: h11.Request | None = None
        body = b""
        while True:
            event = self._http.next_event()
            match event:
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                    try:
                        self._http.receive_data(await self._stream.receive())
                    except anyio.EndOfStream:
                        self._http.receive_data(b"")
                case h11.Request():
                    head = event
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage():
                    assert head is not None
                    return head, body
                case _:
                    return None

    async def _send(
        self, event: h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage
    ) -> None:
        data = self._http.send(event)  # pyright: ignore[reportUnknownMemberType]
        if data:
            await self._stream.send(data)

    async def send_head(self, status: int, headers: list[tuple[str, str]]) -> None:
        await self._send(h11.Response(status_code=status, headers=headers))

    async def send_body(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def send_end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def send_whole(self, status: int, kind: str, body: bytes) -> None:
        await self.send_head(status, [("content-type", kind), ("content-length", str(len(body)))])
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


def _round(sent: Sent) -> str:
    """Return which round of a call a request is, in words."""
    if sent.begins:
        return "begins a call"
    answers: dict[str, Any] = sent.params.get("inputResponses") or {}
    return f"goes on, answers {', '.join(answers)}" if answers else "goes on, with a state alone"


def _kind(message: bytes) -> str:
    """Return what a message of a call is, in a word."""
    found = _message(message)
    if found.get("method") == "elicitation/create":
        return "question"
    if "error" in found:
        return f"error {found['error'].get('code')}"
    result = found.get("result", {})
    if result.get("isError"):
        return "result that is an error"
    return "question" if result.get("resultType") == "input_required" else "result"


def _message(body: bytes) -> dict[str, Any]:
    message: Any = json.loads(body or b"{}")
    return message if isinstance(message, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the events of a stream. An event includes the empty line that ends it."""
    rest = b""
    async for chunk in response.aiter_bytes():
        rest = (rest + chunk).replace(b"\r\n", b"\n")
        *whole, rest = rest.split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"


def _data(event: bytes) -> bytes:
    lines = [
        line.partition(b":")[2].strip() for line in event.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines)


def _is_message(data: bytes, call: Any) -> bool:
    """Return whether an event asks the user something, or is the response to the call."""
    message = _message(data)
    return message.get("method") == "elicitation/create" or (
        message.get("id") == call and "method" not in message
    )
