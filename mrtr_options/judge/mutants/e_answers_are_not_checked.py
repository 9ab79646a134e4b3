"""Mutant of E: the answer about units is used as it came.

Seen in handlers that trust the client to hold the user to the form's schema.
"""

from __future__ import annotations

from mcp_types import ElicitResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.sdk.questions import load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which believes what it is told about units."""
    desk = ctx.lifespan_context
    place = load_state(params, option_e.State).place
    answer = (params.input_responses or {}).get("units")
    if place and isinstance(answer, ElicitResult) and answer.action == "accept" and answer.content:
        await desk.audit(location_of(params))
        await desk.bill(place)
        return text(weather.report(place, weather.UnitsAnswer.model_construct(None, **answer.content)))
    return await option_e.call_weather(ctx, params)


BREAKS = "answers-are-checked"

server = build_server("weather-e", call_weather)
