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
from typing import Any, Literal

import anyio
import anyio.abc
import h11
import httpx2

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
_WORKS = ("reset-after", "502", "no-response", "cut")


@dataclass(frozen=True)
class Delivery:
    """A delivery of the last round.

    Attributes:
        instance: The instance that got it.
        same: The digest of `Mcp-Method`, the arguments, the answers and the state.
    """

    instance: str
    same: str


@dataclass
class Breaking:
    """The data that the instances of one call share.

    Attributes:
        fault: The fault of the first delivery of the last round.
        deliveries: The deliveries of the last round, in order.
        happened: Whether the fault has happened.
    """

    fault: Fault
    deliveries: list[Delivery] = field(default_factory=list[Delivery])
    happened: bool = False

    def due(self, instance: str, request: h11.Request, body: bytes) -> bool:
        """Record a delivery of the last round, and return whether the fault happens to it."""
        if not is_last_round(body):
            return False
        self.deliveries.append(Delivery(instance, _digest(request, body)))
        if self.happened or self.fault == "gone":
            return False
        self.happened = True
        return True


def is_last_round(body: bytes) -> bool:
    """Return whether a request answers the last question of the weather tool."""
    try:
        message: dict[str, Any] = json.loads(body)
    except ValueError:
        return False
    params: dict[str, Any] = message.get("params") or {}
    return "units" in (params.get("inputResponses") or {})


def _digest(request: h11.Request, body: bytes) -> str:
    params: dict[str, Any] = json.loads(body)["params"]
    method = dict(request.headers).get(b"mcp-method", b"").decode()
    parts = [method, *(params.get(key) for key in ("arguments", "inputResponses", "requestState"))]
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
        return await self._http.request(request.method.decode(), url, headers=headers, content=body)

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
