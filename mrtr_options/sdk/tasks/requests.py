"""The checks of a request that is about a task. Knows MCP and the wire types; nothing of the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import require_client_extension
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import TypeAdapter, ValidationError

from mrtr_options.sdk.questions import BadAnswer, is_modern
from mrtr_options.sdk.tasks.wire import IDENTIFIER, TaskParams

ParamsT = TypeVar("ParamsT", bound=TaskParams)

_RESPONSE: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)


def takes_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request declares the extension."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return is_modern(ctx) and extensions is not None and IDENTIFIER in extensions


def for_takers(
    method: Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]],
) -> Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]]:
    """A method of the extension, for requests that may call it."""

    async def guarded(ctx: ServerRequestContext[Any, Any], params: ParamsT) -> types.Result:
        if not is_modern(ctx):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        _check_name(ctx, params.task_id)
        require_client_extension(ctx, IDENTIFIER)
        return await method(ctx, params)

    return guarded


def _check_name(ctx: ServerRequestContext[Any, Any], task: str) -> None:
    """Hold the routing header against the body, as the SDK does for the methods that it knows.

    Raises:
        MCPError: -32020. SEP-2663: clients MUST send the header with the task's id.
    """
    if ctx.request is None:  # not over HTTP
        return
    header = ctx.request.headers.get(MCP_NAME_HEADER)
    if header is None:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{ctx.method} needs the HTTP header Mcp-Name with the task's id, which a balancer routes on"
            " (SEP-2663); this client does not send it",
        )
    if decode_header_value(header) != task:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter",
        )


def parsed(key: str, response: Any) -> types.InputResponse:
    try:
        return _RESPONSE.validate_python(response, by_name=False)
    except ValidationError:
        raise BadAnswer(key, "it is not an answer of any kind") from None
