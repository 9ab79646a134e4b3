"""Option A: a wrapper that plays the modern client for a legacy one.

The handler is written for the modern era only. For a legacy client the shim calls it in a loop
inside one request: whatever the handler asks, the shim pushes to the client, and calls the handler
again with the answers and the state. The handler cannot tell the difference, so it works around
*any* handler: E's, F's, G's or H's.

The loop sits behind the state boundary, so the state it passes round never leaves the server and is
not sealed. It needs a back-channel, that is a connection held open for the whole call; without one
(stateless HTTP) the handler sees the legacy client as it is. That depends on the deployment; the
tool's code does not show it.

Knows `handlers` and `push`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import wraps

import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.sdk.handlers import Context, Handler, Params, Result, check_handler
from mrtr_options.sdk.push import can_push, push_request

MAX_ROUNDS = 10
"""How often one legacy request may call the handler."""


def legacy_shim(handler: Handler) -> Handler:
    """Give legacy clients the whole conversation of a handler written for modern ones.

    Raises (at call time):
        MCPError: -32603, the handler still asks after ten rounds.
    """
    check_handler(handler, "legacy_shim")

    @wraps(handler)
    async def shimmed(ctx: Context, params: Params) -> Result:
        if not can_push(ctx):
            return await handler(ctx, params)
        as_modern = replace(ctx, protocol_version=LATEST_MODERN_VERSION)
        for _ in range(MAX_ROUNDS):
            result = await handler(as_modern, params)
            if isinstance(result, types.CallToolResult):
                return result
            answers: types.InputResponses = {}
            for key, request in (result.input_requests or {}).items():
                answers[key] = await push_request(ctx, key, request)
            params = params.model_copy(
                update={"input_responses": answers, "request_state": result.request_state}
            )
        raise MCPError(types.INTERNAL_ERROR, f"The tool still asks after {MAX_ROUNDS} rounds.")

    return shimmed
