"""Mutant of D: the handler for old clients was left behind when the bill came in.

Seen wherever two handlers tell one story and are changed by different people.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options import option_d_dual_handlers as option_d
from mrtr_options.sdk.dispatcher import by_era
from mrtr_options.sdk.push import push
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, build_server, location_of, text


async def call_weather_legacy(ctx: Context, params: Params) -> CallToolResult:
    """The weather tool, for old clients, as it was."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await push(ctx, weather.which_place(location))
        place = answer.place

    units = await push(ctx, weather.which_units(place))

    return text(weather.report(place, units))


BREAKS = "legacy-clean-springfield-counts"

server = build_server("weather-d", by_era(modern=option_d.call_weather, legacy=call_weather_legacy))
