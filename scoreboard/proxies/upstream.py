"""An instance of a server that breaks one response; it stands behind the proxy under test.

It passes requests on to the server unchanged, and records each delivery of the last round. Knows
HTTP/1.1 and JSON-RPC; nothing of proxies or options.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import anyio
import anyio.abc
import h11
import httpx2
import mcp_types as types

Fault = Literal["reset-before", "reset-after", "503", "502", "no-response", "cut", "gone"]

FAULTS: dict[Fault, str] = {
    "gone": "one instance does not listen",
    "reset-before": "reset, not processed",
    "503": "503, not processed",
    "reset-after": "processed, reset",
    "502": "processed, 502",
    "no-response": "processed, no response in 2 s",
    "cut": "processed, cut in the middle",
}
"""The faults of the last round of a call, in the words of the table. A fault happens once."""

LONG_SECONDS = 30.0
CALLS = "tools/call"
_WORKS = ("reset-after", "502", "no-response", "cut")


@dataclass(frozen=True)
class Delivery:
    """A delivery of the last round.

    Attributes:
        instance: The instance that got it.
        same: The content of the round, and its state.
    """

    instance: str
    same: str


@dataclass(frozen=True)
class Round:
    """The parts of a round that a proxy must not change.

    Attributes:
        content: The digest of `Mcp-Method`, the arguments and the answers.
        state: The state.
        version: The protocol version in its header; empty without one.
    """

    content: str
    state: str | None
    version: str = ""


@dataclass
class Breaking:
    """The data that the instances of one call share.

    Attributes:
        fault: The fault of the first delivery of the last round; None for a call without a fault.
        rounds: The rounds that have arrived, in order.
        issued: The states in responses of the instances.
        can_ask: Whether a request has declared that its client can be asked.
        deliveries: The deliveries of the last round, in order.
        happened: Whether the fault has happened.
    """

    fault: Fault | None
    rounds: list[Round] = field(default_factory=list[Round])
    issued: list[str] = field(default_factory=list[str])
    can_ask: bool = False
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    happened: bool = False

    def due(self, instance: str, request: h11.Request, body: bytes) -> bool:
        """Record a delivery of a round, and return whether the fault happens to it."""
        message = message_in(body)
        self.can_ask = self.can_ask or "elicitation" in capabilities_in(message)
        arrived = arrived_in(request, message)
        if arrived is not None:
            self.rounds.append(arrived)
        if arrived is None or not is_last_round(message):
            return False
        self.deliveries.append(Delivery(instance, f"{arrived.content} {arrived.state}"))
        if self.happened or self.fault in (None, "gone"):
            return False
        self.happened = True
        return True


def message_in(body: bytes) -> dict[str, Any]:
    """Return the JSON-RPC message of a request; an empty one for a request without a message."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _params(message: dict[str, Any]) -> dict[str, Any]:
    return message.get("params") or {}


def is_last_round(message: dict[str, Any]) -> bool:
    """Return whether a message answers the last question of the weather tool."""
    return "units" in (_params(message).get("inputResponses") or {})


def capabilities_in(message: dict[str, Any]) -> dict[str, Any]:
    """Return the client's capabilities that a message declares, in either era."""
    params = _params(message)
    meta: dict[str, Any] = params.get("_meta") or {}
    return meta.get(types.CLIENT_CAPABILITIES_META_KEY) or params.get("capabilities") or {}


def arrived_in(request: h11.Request, message: dict[str, Any]) -> Round | None:
    """Return the round in a request; None if the request calls no tool."""
    if message.get("method") != CALLS:
        return None
    params = _params(message)
    headers = dict(request.headers)
    method = headers.get(b"mcp-method", b"").decode()
    return Round(
        digest(method, params["arguments"], params.get("inputResponses")),
        params.get("requestState"),
        headers.get(b"mcp-protocol-version", b"").decode(),
    )


def digest(method: str, arguments: Any, answers: Any) -> str:
    """Return a digest of the content of a round."""
    parts = [method, arguments, answers]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


@asynccontextmanager
async def instance(name: str, origin: str, shared: Breaking) -> AsyncGenerator[int]:
    """Run an instance in front of the server at an origin for the block, and yield its port."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx2.AsyncClient(timeout=LONG_SECONDS, trust_env=False)
        )
        listener = await stack.enter_async_context(
            await anyio.create_tcp_listener(local_host="127.0.0.1")
        )
        group = await stack.enter_async_context(anyio.create_task_group())

        async def serve(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                with suppress(
                    anyio.BrokenResourceError,
                    anyio.ClosedResourceError,
                    h11.RemoteProtocolError,
                    h11.LocalProtocolError,
                ):
                    await _Connection(name, origin, shared, http, stream).serve()

        group.start_soon(listener.serve, serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


class _Connection:
    """A connection from the proxy."""

    def __init__(
        self,
        name: str,
        origin: str,
        shared: Breaking,
        http: httpx2.AsyncClient,
        stream: anyio.abc.SocketStream,
    ) -> None:
        self._name = name
        self._origin = origin
        self._shared = shared
        self._http = http
        self._stream = stream
        self._h11 = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        while (found := await self._request()) is not None:
            request, body = found
            if self._shared.due(self._name, request, body):
                if not await self._break(request, body):
                    return
            else:
                response = await self._passed_on(request, body)
                await self._respond(response.status_code, response.headers, response.content)
            if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                return
            self._h11.start_next_cycle()

    async def _request(self) -> tuple[h11.Request, bytes] | None:
        request: h11.Request | None = None
        body = b""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                try:
                    self._h11.receive_data(await self._stream.receive())
                except anyio.EndOfStream:
                    return None
            elif isinstance(event, h11.Request):
                request = event
                if self._h11.they_are_waiting_for_100_continue:
                    go_on = h11.InformationalResponse(status_code=100, headers=[])
                    await self._stream.send(self._h11.send(go_on) or b"")
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                return request, body
            else:
                return None

    async def _passed_on(self, request: h11.Request, body: bytes) -> httpx2.Response:
        own = (
            b"host",
            b"content-length",
            b"connection",
            b"transfer-encoding",
            b"expect",
            b"origin",
        )
        headers = [(key, value) for key, value in request.headers if key not in own]
        url = self._origin + request.target.decode()
        method = request.method.decode()
        response = await self._http.request(method, url, headers=headers, content=body)
        result: dict[str, Any] = message_in(response.content).get("result") or {}
        if "requestState" in result:
            self._shared.issued.append(result["requestState"])
        return response

    async def _respond(self, status: int, headers: Any, body: bytes) -> None:
        kept = [
            (key, value)
            for key, value in headers.items()
            if key.lower().startswith("mcp-") or key.lower() == "content-type"
        ]
        await self._send(
            h11.Response(status_code=status, headers=[*kept, ("content-length", str(len(body)))])
        )
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        await self._stream.send(self._h11.send(event) or b"")

    async def _break(self, request: h11.Request, body: bytes) -> bool:
        """Cause the fault, and return whether the connection goes on."""
        fault = self._shared.fault
        if fault in _WORKS:
            response = await self._passed_on(request, body)
            if fault == "cut":
                head = [("content-type", response.headers["content-type"])]
                size = ("content-length", str(len(response.content)))
                await self._send(h11.Response(status_code=200, headers=[*head, size]))
                await self._send(h11.Data(data=response.content[: len(response.content) // 2]))
        if fault in ("502", "503"):
            await self._respond(int(fault), {"content-type": "text/plain"}, b"not now")
            return True
        if fault == "no-response":
            await anyio.sleep(LONG_SECONDS)
        raw = self._stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
