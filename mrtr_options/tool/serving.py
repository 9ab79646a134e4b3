"""Serving a server: over stdio, or over streamable HTTP with both eras on one endpoint.

Knows the SDK's transports and uvicorn; nothing of the tool.
"""

from __future__ import annotations

import asyncio
import socket
from types import FrameType
from typing import Any, cast

import anyio
import uvicorn
from mcp.server import MCPServer, Server
from mcp.server.stdio import stdio_server
from sse_starlette.sse import AppStatus

from mrtr_options.tool import shutdown
from mrtr_options.tool.connections import Connection, Listener, max_connections, whole_requests

PATH = "/mcp"
MAX_BODY_BYTES = 256 * 1024
"""The longest body of a request; a longer one gets status 413. More than `limits` allows answers."""


class CannotListen(Exception):
    """The address cannot be served on. The text is one line that says what to do."""


def listen(port: int, host: str = "127.0.0.1") -> socket.socket:
    """A listening socket; port 0 takes any free one.

    Raises:
        CannotListen: The port is taken or not allowed, or the host is not an address of this machine.
    """
    # asyncio sets TCP_NODELAY only where the protocol is named; without it a response takes 40 ms more.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListen(f"cannot listen on {host}:{port} ({reason}); name another port") from error
    return listener


def serve_http(server: Server[Any] | MCPServer[Any], listener: socket.socket) -> None:
    """Serve over streamable HTTP until interrupted; the endpoint is `PATH`.

    After the signal, requests at work have `shutdown.GRACE_SECONDS` to end, and the process
    `shutdown.EXIT_SECONDS`.
    """
    web_server(server, listener).run(sockets=[listener])


def web_server(server: Server[Any] | MCPServer[Any], listener: socket.socket) -> uvicorn.Server:
    """The HTTP server of a server, for an event loop that runs already."""
    # Otherwise every open stream is cut at once at the end, and the calls of legacy clients with them.
    AppStatus.disable_automatic_graceful_drain()
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=listener.getsockname()[0],
        max_request_body_size=MAX_BODY_BYTES,
    )
    requests = shutdown.Requests()
    server.middleware.insert(0, requests)
    config = uvicorn.Config(
        whole_requests(app),
        http=Connection,
        ws="none",
        log_level="warning",
        backlog=max(1, max_connections() // 4),  # so many are accepted before the first is counted
        timeout_graceful_shutdown=int(shutdown.GRACE_SECONDS + _ANSWER_SECONDS) + 1,
    )
    return _WebServer(config, requests)


_ANSWER_SECONDS = 1.0
"""How long the answers to requests that were ended may take to be written."""


class _WebServer(uvicorn.Server):
    """uvicorn's server, with a bounded shutdown that answers the requests at work."""

    def __init__(self, config: uvicorn.Config, requests: shutdown.Requests) -> None:
        super().__init__(config)
        self._requests = requests
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve([Listener(each) for each in sockets or []])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit and self._loop is not None:
            shutdown.end_process_in(shutdown.EXIT_SECONDS, self._requests, self._loop)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_requests)
            await super().shutdown(sockets)
            group.cancel_scope.cancel()

    async def _end_requests(self) -> None:
        connections = cast("set[Connection]", self.server_state.connections)
        for connection in list(connections):
            if connection.is_stream:
                connection.transport.close()
        with anyio.move_on_after(shutdown.GRACE_SECONDS):
            await self._requests.all_done()
        self._requests.end()
        await anyio.sleep(_ANSWER_SECONDS)  # ends early when all connections have closed
        for connection in list(connections):
            connection.transport.abort()


def serve_stdio(server: Server[Any] | MCPServer[Any]) -> None:
    """Serve one client over standard input and output until it closes them."""

    async def run() -> None:
        if isinstance(server, MCPServer):
            await server.run_stdio_async()
            return
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
