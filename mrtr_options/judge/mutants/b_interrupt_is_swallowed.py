"""Mutant of B: the author's `except Exception` around a question swallows the interrupt.

Seen wherever the replay is driven by an ordinary exception and the author guards a question with a
default, as one does around anything that talks to a client.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.exception_shim import ReplayContext, exception_shim
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which can do without an answer about units."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    try:
        units = await ctx.elicit(weather.which_units(place))
    except Exception:
        units = weather.UnitsAnswer(units="metric")

    await desk.bill(place)
    return text(weather.report(place, units))


BREAKS = "clean-tokyo"

server = build_server("weather-b", exception_shim(call_weather))
