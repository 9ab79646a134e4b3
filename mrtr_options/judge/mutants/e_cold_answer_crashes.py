"""Mutant of E: answers without a state end in an internal error.

Seen in servers that look an answer's question up in the state before anything else.
"""

from __future__ import annotations

import json

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which looks up what was asked."""
    if params.input_responses:
        json.loads(params.request_state or "")
    return await option_e.call_weather(ctx, params)


BREAKS = "cold-answers-do-no-harm"

server = build_server("weather-e", call_weather)
