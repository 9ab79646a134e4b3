"""Mutant of E: an unknown place is reported as though it were weather.

Seen in tools that answer in prose: a model that calls them cannot tell a failure from a result.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which never fails."""
    try:
        return await option_e.call_weather(ctx, params)
    except weather.UnknownPlace as unknown:
        return text(str(unknown))


BREAKS = "unknown-places-are-errors"

server = build_server("weather-e", call_weather)
