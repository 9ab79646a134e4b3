"""Mutant of G: the end step runs as soon as the last step has been entered, answered or not.

Seen in builders that count the steps they have been through instead of the values they have.
"""

from __future__ import annotations

import mcp_types as types

from mrtr_options import option_g_tool_builder as option_g
from mrtr_options.sdk.tool_builder import Values
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which runs its end step with the last question."""
    result = await option_g.call_weather(ctx, params)
    if isinstance(result, types.InputRequiredResult) and "units" in (result.input_requests or {}):
        values = Values.model_validate_json(result.request_state or "{}")
        values.put("units", weather.UnitsAnswer(units="metric"))
        return await option_g.end_step(ctx, params, values)
    return result


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-g", call_weather)
