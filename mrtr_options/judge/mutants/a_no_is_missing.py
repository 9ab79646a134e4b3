"""Mutant of A: the shim takes a declined question for an unanswered one and pushes it again.

Seen in shims that keep only accepted answers for the next call of the handler.
"""

from __future__ import annotations

from dataclasses import replace

import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options import option_a_sse_shim as option_a
from mrtr_options.sdk.legacy_shim import MAX_ROUNDS
from mrtr_options.sdk.push import can_push, push_request
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, in a shim that hears only yes."""
    if not can_push(ctx):
        return await option_a.call_weather(ctx, params)
    as_modern = replace(ctx, protocol_version=LATEST_MODERN_VERSION)
    for _ in range(MAX_ROUNDS):
        result = await option_a.call_weather(as_modern, params)
        if isinstance(result, types.CallToolResult):
            return result
        answers: types.InputResponses = {}
        for key, request in (result.input_requests or {}).items():
            answer = await push_request(ctx, request)
            if isinstance(answer, types.ElicitResult) and answer.action == "accept":
                answers[key] = answer
        update = {"input_responses": answers, "request_state": result.request_state}
        params = params.model_copy(update=update)
    raise MCPError(types.INTERNAL_ERROR, f"The tool still asks after {MAX_ROUNDS} rounds.")


BREAKS = "old-clients-may-decline"

server = build_server("weather-a", call_weather)
