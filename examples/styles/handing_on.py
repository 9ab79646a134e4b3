"""Handing on, as in Phantom: an instance hands a round to the one that holds the call's frame.

Behaves like H on one instance. On a fleet any instance takes any round, without sticky routing.

What the author writes: H's handler, and where the instances are.

What the SDK does: names the instance in the state. Another instance sends the request on to it: one
hop, in bounded time, with a proof that it comes from an instance. If the owner is gone, so is the
frame, and the round ends in one clear error.

    export MRTR_INSTANCES=one=http://10.0.0.1:8000/mcp,two=http://10.0.0.2:8000/mcp
    MRTR_INSTANCE=one python -m mrtr_options serve examples/styles/handing_on.py --http 8000
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp.server import Server
from mcp_types import CallToolResult
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.protection import instance_from_environment, keys_from_environment
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.serving import MAX_BODY_BYTES
from mrtr_options.sdk.suspended import CallParams, ContinuationStore, LinearContext
from mrtr_options.tool import weather
from mrtr_options.tool.server import build_server, location_of, text

PROOF = "mrtr-handed-on"
"""The header of a request that an instance hands on: a time, and a digest under the state key."""
PROOF_SECONDS = 60.0
"""The time for which a proof is good."""
SECONDS = 70.0
"""The most time for a round at its owner: longer than a server holds a request."""
AT_ONCE = 200
"""The most rounds that an instance hands on at once."""

# --- what the author writes -----------------------------------------------------------------------

store = ContinuationStore()


async def call_weather(ctx: LinearContext[weather.Desk], params: CallParams) -> CallToolResult:
    desk = ctx.lifespan_context
    location = location_of(params)
    await desk.audit(location)
    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location, unasked="error"))
        place = answer.place
    units = await ctx.elicit(weather.which_units(place, unasked="metric"))
    await desk.bill(place)
    return text(weather.report(place, units))


def address_of(name: str) -> str | None:
    """Return where an instance is: here from a table in the environment."""
    table = os.environ.get("MRTR_INSTANCES", "")
    return dict(each.split("=", 1) for each in table.split(",") if each).get(name)


# --- what an SDK would have to ship ---------------------------------------------------------------


@dataclass
class HandingOn:
    """A middleware that hands a round on to the instance which its state names.

    Attributes:
        app: The HTTP app of a server.
        here: The name of this instance.
        address_of: Finds an instance; None for one that is not known.
        keys: The state keys, which the instances share.
    """

    app: ASGIApp
    here: str
    address_of: Callable[[str], str | None]
    keys: list[bytes]
    free: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(AT_ONCE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                return await Response("the request is too long", 413)(scope, receive, send)
        owner = _owner_of(body)
        proof = request.headers.get(PROOF)
        if proof is None and owner not in ("", self.here):
            response = await self._hand_on(self.address_of(owner), request, body)
            return await response(scope, receive, send)
        if proof is not None and not self._is_proof(proof, body):
            return await Response("not from an instance", 403)(scope, receive, send)
        read: list[Message] = [{"type": "http.request", "body": body}]

        async def receive_again() -> Message:
            return read.pop() if read else await receive()

        return await self.app(scope, receive_again, send)

    async def _hand_on(self, address: str | None, request: Request, body: bytes) -> Response:
        if address is None:
            return _refused(body, Reason.UNKNOWN_CONTINUATION)
        at = f"{time.time():.0f}"
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        headers[PROOF] = f"{at}.{self.digest(self.keys[0], at, body)}"
        try:
            self.free.acquire_nowait()
        except anyio.WouldBlock:
            return _refused(body, Reason.TOO_MANY_CONTINUATIONS)
        try:
            async with httpx2.AsyncClient(timeout=SECONDS) as http:
                got = await http.post(address, content=body, headers=headers)
        except (httpx2.ConnectError, httpx2.RemoteProtocolError, httpx2.ReadError):
            return _refused(body, Reason.UNKNOWN_CONTINUATION)  # the owner is gone
        except httpx2.TransportError:
            return _refused(body, Reason.STILL_AT_WORK)
        finally:
            self.free.release()
        return Response(got.content, got.status_code, media_type=got.headers.get("content-type"))

    def _is_proof(self, proof: str, body: bytes) -> bool:
        at, _, digest = proof.partition(".")
        with suppress(ValueError):
            is_fresh = abs(time.time() - float(at)) <= PROOF_SECONDS
            known = [self.digest(key, at, body) for key in self.keys]
            return is_fresh and any(hmac.compare_digest(digest, each) for each in known)
        return False

    def digest(self, key: bytes, at: str, body: bytes) -> str:
        """Return the digest of a proof."""
        own = hmac.digest(key, b"mrtr-options/handed-on", "sha256")
        return hmac.new(own, f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def _owner_of(body: bytes) -> str:
    """Return the instance that the state of a request names; "" if it names none."""
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        state: Any = json.loads(body)["params"]["requestState"]
        return state.rpartition("~")[0]
    return ""


def _refused(body: bytes, reason: Reason) -> Response:
    error = refusal(reason).error
    told = {"jsonrpc": "2.0", "id": json.loads(body).get("id"), "error": error.model_dump()}
    return JSONResponse(told)


def handing_on(server: Server[Any], address_of: Callable[[str], str | None]) -> Server[Any]:
    """Return the server; its HTTP app hands rounds on where this instance has a name."""
    here = instance_from_environment()
    keys = keys_from_environment()
    make_app: Any = server.streamable_http_app

    def make(**options: Any) -> Any:
        app = make_app(**options)
        app.add_middleware(HandingOn, here=here, address_of=address_of, keys=keys)
        return app

    if here is not None and keys is not None:
        setattr(server, "streamable_http_app", make)  # noqa: B010
    return server


server = handing_on(
    build_server("weather-handing-on", store.linear(call_weather), resources=[store]), address_of
)
