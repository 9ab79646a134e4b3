"""Mutant of G: an effect stands in a step, which is entered until its question is answered.

Seen in builders that let a step do anything: it reads as though it ran once.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options import option_g_tool_builder as option_g
from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, build_server, location_of, text
from mrtr_options.tool.weather import PlaceAnswer, Question, UnitsAnswer


async def place_step(
    ctx: Context, params: Params, values: Values
) -> Question[PlaceAnswer] | PlaceAnswer:
    """Which place is meant, and the audit that the end step would come too late for."""
    await ctx.lifespan_context.audit(location_of(params))
    return option_g.place_step(ctx, params, values)


async def end_step(ctx: Context, params: Params, values: Values) -> CallToolResult:
    """The weather tool, once there is nothing left to ask."""
    place = values.get("place", PlaceAnswer).place
    await ctx.lifespan_context.bill(place)
    return text(weather.report(place, values.get("units", UnitsAnswer)))


call_weather = (
    ToolBuilder[weather.Desk]()
    .step("place", place_step)
    .step("units", option_g.units_step)
    .end(end_step)
    .build()
)

BREAKS = "modern-clean-springfield-counts"

server = build_server("weather-g", call_weather)
