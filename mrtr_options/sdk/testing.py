"""Trying a server: it serves in this process, and a client loses responses on purpose.

    async with served(server) as url, ResumingClient(lambda: client(url, user)) as caller:
        ...

Clients differ in what they do when a response is lost. `call_as_client` does as each of them does:

    for policy in POLICIES:
        connect = lambda: client(url, user, losing)
        said = await call_as_client(policy, connect, "book", {"guest": "Ada"})

Knows `serving`, `resuming` and the SDK's client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, closing
from typing import Any, Literal, get_args

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from mrtr_options.sdk.handler import AnyServer, JsonObject
from mrtr_options.sdk.resuming import ResumingClient, Unanswered
from mrtr_options.sdk.serving import PATH, listen, web_server

Policy = Literal["stops", "calls again", "resends"]
"""A client's policy after a lost response.

It tells its user of the error and does no more; it, or its model, calls the tool again from
scratch; or it sends the same request again.
"""
POLICIES: tuple[Policy, ...] = get_args(Policy)

NO_RESPONSE = "error: no response"
"""The text that the user of a client gets if a response is lost and nothing more is done."""


@asynccontextmanager
async def served(server: AnyServer) -> AsyncGenerator[str]:
    """Serve over HTTP on a free port of 127.0.0.1 while the block lasts. Yields the URL.

    What the block raises comes out as it is, when the server has ended.
    """
    raised: BaseException | None = None
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
                raised = error
            finally:
                web.should_exit = True
    if raised is not None:
        raise raised


class Losing:
    """The way to a server, on which responses of `tools/call` are lost.

    The server has sent a response, and the connection breaks.

    Args:
        lose: Which responses are lost, from 1, counted over all connections that share this.
        turns: The URLs that requests of `tools/call` go to, one after another, as a balancer sends
            them to the instances of one server. Those after the last go to the client's own URL.
    """

    def __init__(self, lose: Collection[int] = (), turns: Iterable[str] = ()) -> None:
        self._lose = lose
        self._turns = iter(turns)
        self._seen = 0

    async def route(self, request: httpx2.Request) -> None:
        """Send a request where it is to go next."""
        if _is_call(request) and (url := next(self._turns, None)) is not None:
            request.url = httpx2.URL(url)
            request.headers["host"] = request.url.netloc.decode()

    def loses_next(self) -> bool:
        """Count one response more, and return whether it is lost."""
        self._seen += 1
        return self._seen in self._lose

    async def lose(self, response: httpx2.Response) -> None:
        """Count a response, and raise an error in its place if it is lost.

        Raises:
            ReadError: It is lost.
        """
        if _is_call(response.request) and self.loses_next():
            await response.aread()
            raise httpx2.ReadError("the response was lost", request=response.request)


def _is_call(request: httpx2.Request) -> bool:
    return request.headers.get("mcp-method") == "tools/call"


@asynccontextmanager
async def _streams(url: str, losing: Losing, token: str | None) -> AsyncGenerator[Any]:
    """Open a connection that closes its sockets.

    The SDK's leaves that to who made the HTTP client.
    """
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    http = httpx2.AsyncClient(
        transport=httpx2.AsyncHTTPTransport(),
        headers=headers,
        timeout=30,
        event_hooks={"request": [losing.route], "response": [losing.lose]},
    )
    async with (
        http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def client(
    url: str, user: ElicitationFnT, losing: Losing | None = None, *, token: str | None = None
) -> Client:
    """Make a client of the SDK's, of the modern era, that may lose responses.

    Args:
        url: The server's.
        user: Answers its questions.
        losing: Shared by all clients of one test.
        token: Says who calls: sent as `Authorization: Bearer TOKEN`.
    """
    streams = _streams(url, losing or Losing(), token)
    return Client(streams, mode="2026-07-28", elicitation_callback=user)


async def call_as_client(
    policy: Policy,
    connect: Callable[[], Client],
    tool: str,
    arguments: JsonObject,
) -> str:
    """Make a call as a client of this policy does. Return the text that its user gets at last.

    That is the text of the result. An error begins with "error: "; a lost response that the client
    does nothing about is `NO_RESPONSE`.

    Args:
        policy: What the client does when a response is lost.
        connect: Makes a client of the SDK's.
        tool: The tool's name.
        arguments: The arguments of the call.
    """
    if policy == "resends":
        return await _call_resending(connect, tool, arguments)
    said = await _call_once(connect, tool, arguments)
    if policy == "calls again" and said == NO_RESPONSE:
        return await _call_once(connect, tool, arguments)
    return said


async def _call_resending(connect: Callable[[], Client], tool: str, arguments: JsonObject) -> str:
    try:
        async with ResumingClient(connect) as caller:
            return _text_of(await caller.call_tool(tool, arguments))
    except Unanswered:
        return NO_RESPONSE
    except MCPError as error:
        return f"error: {error}"


async def _call_once(connect: Callable[[], Client], tool: str, arguments: JsonObject) -> str:
    said = NO_RESPONSE
    try:
        async with connect() as caller:
            try:
                said = _text_of(await caller.call_tool(tool, arguments))
            except MCPError as error:
                said = f"error: {error}"
    except* httpx2.HTTPError:
        pass  # the connection broke, and with it the SDK's client
    return said


def _text_of(result: CallToolResult) -> str:
    texts = (each.text for each in result.content if isinstance(each, TextContent))
    said = "\n".join(texts)
    return f"error: {said}" if result.is_error else said
