"""Mutant of E: a declined question counts as agreed, with the form's first choice.

Seen in clients' adapters and servers that take every answer for an accepted one and read defaults
where the content is missing.
"""

from __future__ import annotations

from mcp_types import ElicitResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which does not take no for an answer."""
    first = {"place": weather.places_named(location_of(params))[0], "units": "metric"}
    answers = {
        key: ElicitResult(action="accept", content={key: first[key]})
        if isinstance(answer, ElicitResult) and answer.action == "decline"
        else answer
        for key, answer in (params.input_responses or {}).items()
    }
    return await option_e.call_weather(ctx, params.model_copy(update={"input_responses": answers}))


BREAKS = "decline-ends-the-call"

server = build_server("weather-e", call_weather)
