"""Mutant of E: an answer that was not asked for is an error.

Seen in servers that validate the answers with a closed schema.
"""

from __future__ import annotations

from mcp import MCPError
from mcp_types import INVALID_PARAMS

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which takes no answers but its own."""
    for key in params.input_responses or {}:
        if key not in ("place", "units"):
            raise MCPError(INVALID_PARAMS, f"{key!r} was not asked.")
    return await option_e.call_weather(ctx, params)


BREAKS = "extra-answers-are-ignored"

server = build_server("weather-e", call_weather)
