"""Option G, ToolBuilder: named steps that ask, and an end step that acts.

What the author writes: one function per question, and an end step for everything else. A function
returns its question, or the value that makes it needless.

What the SDK does: keeps the finished steps' values in the state, enters each step until it is
finished, and the end step last.

When to reach for it: a stateless fleet and three questions or more. There is no line above a
question for an effect to stand on.

When not: something must be recorded before the user answers. The end step is the only place for it,
so a call that is abandoned leaves no trace. An effect in a step that asks runs twice: the step is
entered again with its answer. A call that is made again runs its effects again: see E.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, build_server, location_of, text
from mrtr_options.tool.weather import PlaceAnswer, Question, UnitsAnswer


def place_step(ctx: Context, params: Params, values: Values) -> Question[PlaceAnswer] | PlaceAnswer:
    """Which place is meant; no question if there is only one."""
    location = location_of(params)
    place = weather.only_place(location)
    return PlaceAnswer(place=place) if place else weather.which_place(location, unasked="error")


def units_step(ctx: Context, params: Params, values: Values) -> Question[UnitsAnswer]:
    """Which units to report in."""
    place = values.get("place", PlaceAnswer).place
    return weather.which_units(place, unasked="metric")


async def end_step(ctx: Context, params: Params, values: Values) -> CallToolResult:
    """Report the weather, once there is nothing left to ask."""
    desk = ctx.lifespan_context
    location = location_of(params)
    place = values.get("place", PlaceAnswer).place
    units = values.get("units", UnitsAnswer)

    # No hazard: but an abandoned call is never audited.
    await desk.audit(location)

    await desk.bill(place)
    return text(weather.report(place, units))


call_weather = (
    ToolBuilder[weather.Desk]()
    .step("place", place_step)
    .step("units", units_step)
    .end(end_step)
    .build()
)

server = build_server("weather-g", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
