"""Mutant of H: `await ctx.elicit()` is not a suspension but a jump to the top.

Seen in every stateless `await` of the field: the source is H's, the effects are B's.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, as in H."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))

    await desk.bill(place)
    return text(weather.report(place, units))


BREAKS = "re-execution-never"

server = build_server("weather-h", exception_shim(call_weather))
