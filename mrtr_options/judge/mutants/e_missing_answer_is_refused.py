"""Mutant of E: a round without the answer is an error, not asked again.

Seen in servers that check a request against what the state says is open.
"""

from __future__ import annotations

from mcp import MCPError
from mcp_types import INVALID_PARAMS

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, for clients that never come too early."""
    if params.request_state is not None and not params.input_responses:
        raise MCPError(INVALID_PARAMS, "This round brings no answer.")
    return await option_e.call_weather(ctx, params)


BREAKS = "missing-answers-are-asked-again"

server = build_server("weather-e", call_weather)
