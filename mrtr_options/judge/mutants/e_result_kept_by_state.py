"""Mutant of E: the result is kept for repeats by the state alone, without the answers.

Seen in idempotency layers whose key is the token: the user goes back, answers otherwise, and is told
what they no longer want to know.
"""

from __future__ import annotations

import mcp_types as types

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server

kept: dict[str, types.CallToolResult] = {}


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which never says two things to one state."""
    state = params.request_state or ""
    if state in kept:
        return kept[state]
    result = await option_e.call_weather(ctx, params)
    if isinstance(result, types.CallToolResult) and state:
        kept[state] = result
    return result


BREAKS = "another-answer-is-not-the-first"

server = build_server("weather-e", call_weather)
