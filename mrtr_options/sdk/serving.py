"""Serving a server: over stdio, or over streamable HTTP with both eras on one endpoint.

For a demonstration on this machine. What a public server needs besides (slow clients, many
connections, TLS) is for a proxy in front of it; `docs/OPERATIONS.md` has one. Knows the SDK's
transports, uvicorn and whether a server's state is protected.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio
import uvicorn
from mcp.server import MCPServer, ServerRequestContext
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import authenticated_principal
from mcp.server.stdio import stdio_server
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrtr_options.errors import UsageError, in_one_line
from mrtr_options.sdk.handler import AnyServer, Principal, check_server, needed_by
from mrtr_options.sdk.protection import KEYS_VARIABLE, ProtectedRounds

_logger = logging.getLogger(__name__)

PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
"""The longest body of a request; a longer one gets status 413 before it is parsed."""
GRACE_SECONDS = 12
"""The time that requests at work get to end after the signal.

K, L and the guard hold a request for a shorter time.
"""
MAX_CONNECTIONS = 1000
"""The most connections at once; requests on more of them get status 503."""
MAX_SESSIONS = 1000
"""The most sessions of old clients at once; one more gets status 503. Each takes about 60 kB."""
SESSION_IDLE_SECONDS = 600.0
"""The time for which a session without a request at work is kept: as long as a state.

While a user is asked, a request is at work.
"""


class CannotListen(UsageError):
    """The address cannot be served on. The text is one line that says what to do."""


def listen(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Make a listening socket; port 0 takes any free one.

    Raises:
        CannotListen: The port is taken or not allowed, or the host is not an address of this
            machine.
    """
    # asyncio sets TCP_NODELAY only where the protocol is named; without it a response takes 40 ms
    # more.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListen(
            f"cannot listen on {host}:{port} ({reason}); name another port or host"
        ) from error
    return listener


LEGACY_UNLESS_TOLD = (
    "these clients speak 2025-11-25 unless configured:"
    " TypeScript v2 (set versionNegotiation: { mode: 'auto' }) and the Inspector"
)


def serve(server: AnyServer, port: int = 8000, host: str = "127.0.0.1") -> None:
    """Serve over streamable HTTP until Ctrl-C or SIGTERM; in the main thread, where signals arrive.

    Prints the URL on standard error.

    A port that is taken, or a database that cannot be used, ends the process with one line and exit
    code 2.

    Args:
        server: Of either tier.
        port: Where; 0 takes any free one.
        host: The address to listen on.

    Raises:
        TypeError: The server is not of the package mcp.
    """
    check_server(server)
    with in_one_line(), closing(listen(port, host)) as listener:
        try_databases(server)
        serve_http(server, listener)


def serve_http(server: AnyServer, listener: socket.socket) -> None:
    """Serve as `serve` does, on a socket that listens; the endpoint is `PATH`."""
    if any(isinstance(each, ProtectedRounds) and each.is_ephemeral for each in server.middleware):
        print(
            f"warning: {KEYS_VARIABLE} is not set: states are refused after a restart, and by other"
            " processes",
            file=sys.stderr,
        )
    address, number = listener.getsockname()[:2]
    # uvicorn stops in order on SIGINT and SIGTERM, and then raises the signal again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        print(f"http://{address}:{number}{PATH}", file=sys.stderr)
        print(LEGACY_UNLESS_TOLD, file=sys.stderr, flush=True)
        web_server(server, listener).run(sockets=[listener])


def web_server(server: AnyServer, listener: socket.socket) -> uvicorn.Server:
    """Make the HTTP server of a server, for an event loop that runs already."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=listener.getsockname()[0],
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_SECONDS,
    )
    principals = [
        each.principal
        for each in server.middleware
        if isinstance(each, ProtectedRounds) and each.principal is not authenticated_principal
    ]
    app.add_middleware(_WholeRequests, principals=principals)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            log_level="warning",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


@dataclass
class _WholeRequests:
    """A middleware that hands on requests once they are here, each with its caller.

    The SDK binds a session of an old client to the user of the request that begins it.
    """

    app: ASGIApp
    principals: Sequence[Principal]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        read: list[Message] = []
        size = 0
        while not read or (read[-1].get("more_body") and size <= MAX_BODY_BYTES):
            read.append(await receive())
            size += len(read[-1].get("body", b""))
        if read[-1]["type"] == "http.disconnect":
            return _logger.info("a client left before its request was whole")
        if not isinstance(scope.get("user"), AuthenticatedUser):
            self._name_caller(scope)

        async def receive_again() -> Message:
            return read.pop(0) if read else await receive()

        return await self.app(scope, receive_again, send)

    def _name_caller(self, scope: Scope) -> None:
        nobody: Any = None
        asking = ServerRequestContext[Any, Any](
            session=nobody,
            lifespan_context=None,
            protocol_version="",
            method="",
            request=Request(scope),
        )
        for principal in self.principals:
            with suppress(Exception):  # a round refuses a caller whom it cannot name
                token = AccessToken(token="", client_id=f"{principal(asking)}", scopes=[])
                scope["user"] = AuthenticatedUser(token)


def serve_stdio(server: AnyServer) -> None:
    """Serve one client over standard input and output until it closes them."""

    async def run() -> None:
        if isinstance(server, MCPServer):
            await server.run_stdio_async()
            return
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


def try_databases(server: AnyServer) -> None:
    """Try the databases of its stores, while a signal can still end the wait.

    It does not end uvicorn's.

    Raises:
        UsageError: A database cannot be used.
    """
    if (try_each := needed_by(getattr(server, "lifespan", None))) is not None:
        cast("Any", try_each)()
