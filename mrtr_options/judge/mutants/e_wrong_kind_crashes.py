"""Mutant of E: an answer of another kind ends in an internal error (-32603).

Seen in handlers that look the answer up by its key and take its type for granted.
"""

from __future__ import annotations

from typing import cast

from mcp_types import ElicitResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, to which every answer is a form."""
    for key, answer in (params.input_responses or {}).items():
        if cast("ElicitResult", answer).action == "cancel":
            return text(weather.cancelled(key))
    return await option_e.call_weather(ctx, params)


BREAKS = "answers-are-checked"

server = build_server("weather-e", call_weather)
