"""Mutant of A: the shim calls the handler again without the state that it returned.

Seen in shims that were tried on a tool with one question, where nothing has to be kept.
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
    """The weather tool, in a shim that hands on answers only."""
    if not can_push(ctx):
        return await option_a.call_weather(ctx, params)
    as_modern = replace(ctx, protocol_version=LATEST_MODERN_VERSION)
    for _ in range(MAX_ROUNDS):
        result = await option_a.call_weather(as_modern, params)
        if isinstance(result, types.CallToolResult):
            return result
        answers: types.InputResponses = {}
        for key, request in (result.input_requests or {}).items():
            answers[key] = await push_request(ctx, request)
        params = params.model_copy(update={"input_responses": answers})
    raise MCPError(types.INTERNAL_ERROR, f"The tool still asks after {MAX_ROUNDS} rounds.")


BREAKS = "old-clients-are-asked"

server = build_server("weather-a", call_weather)
