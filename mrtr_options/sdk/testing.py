"""Trying a server: it serves in this process, and a client loses responses on purpose.

    async with served(server) as url, ResumingClient(lambda: client(url, user)) as caller:
        ...

Knows `serving` and the SDK's client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server

from mrtr_options.sdk.serving import PATH, listen, web_server


@asynccontextmanager
async def served(server: Server[Any] | MCPServer[Any]) -> AsyncGenerator[str]:
    """Serve over HTTP on a free port of 127.0.0.1 while the block lasts; the URL.

    What the block raises comes out as it is, when the server has ended.
    """
    raised: Exception | None = None
    with closing(listen(0)) as listener:
        host, port = listener.getsockname()
        web = web_server(server, listener)

        async def serve() -> None:
            # It ends in order, also where the block is cancelled.
            with anyio.CancelScope(shield=True):
                await web.serve([listener])

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            try:
                yield f"http://{host}:{port}{PATH}"
            except BaseException as error:
                web.config.timeout_graceful_shutdown = 1  # what is at work is cut short
                if not isinstance(error, Exception):
                    raise
                raised = error
            finally:
                web.should_exit = True
    if raised is not None:
        raise raised


class Losing:
    """Loses responses of `tools/call`: the server has sent them, and the connection breaks.

    Args:
        lose: Which ones, from 1, counted over all connections that share this.
    """

    def __init__(self, lose: Collection[int]) -> None:
        self._lose = lose
        self._seen = 0

    def takes_next(self) -> bool:
        """Count one more response; whether it is lost."""
        self._seen += 1
        return self._seen in self._lose


class _Transport(httpx2.AsyncHTTPTransport):
    """One connection's."""

    def __init__(self, losing: Losing | None) -> None:
        super().__init__()
        self._losing = losing

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.headers.get("mcp-method") != "tools/call" or self._losing is None:
            return response
        if self._losing.takes_next():
            await response.aread()
            raise httpx2.ReadError("the response was lost", request=request)
        return response


@asynccontextmanager
async def _streams(url: str, losing: Losing | None) -> AsyncGenerator[Any]:
    """Open a connection that closes its sockets.

    The SDK's leaves that to who made the HTTP client.
    """
    async with (
        httpx2.AsyncClient(transport=_Transport(losing), timeout=30) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def client(url: str, user: ElicitationFnT, losing: Losing | None = None) -> Client:
    """Make a client of the SDK's, of the modern era, that may lose responses.

    Args:
        url: The server's.
        user: Answers its questions.
        losing: Shared by all clients of one test.
    """
    return Client(_streams(url, losing), mode="2026-07-28", elicitation_callback=user)
