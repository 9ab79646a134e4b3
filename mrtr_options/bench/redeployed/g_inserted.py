"""Option G, with a question inserted before the units."""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.bench.redeploys import Consent, may_bill
from mrtr_options.sdk.tool_builder import ToolBuilder, Values
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, build_server, location_of, text
from mrtr_options.tool.weather import PlaceAnswer, Question, UnitsAnswer


def place_step(ctx: Context, params: Params, values: Values) -> Question[PlaceAnswer] | PlaceAnswer:
    """Which place is meant; no question if there is only one."""
    location = location_of(params)
    place = weather.only_place(location)
    return weather.which_place(location) if place is None else PlaceAnswer(place=place)


def consent_step(ctx: Context, params: Params, values: Values) -> Question[Consent]:
    """Whether it may be billed."""
    return may_bill(values.get("place", PlaceAnswer).place)


def units_step(ctx: Context, params: Params, values: Values) -> Question[UnitsAnswer]:
    """Which units to report in."""
    place = values.get("place", PlaceAnswer).place
    return weather.which_units(place)


async def end_step(ctx: Context, params: Params, values: Values) -> CallToolResult:
    """The weather tool, once there is nothing left to ask."""
    desk = ctx.lifespan_context
    location = location_of(params)
    place = values.get("place", PlaceAnswer).place
    units = values.get("units", UnitsAnswer)

    await desk.audit(location)

    await desk.bill(place)
    return text(weather.report(place, units))


call_weather = (
    ToolBuilder[weather.Desk]()
    .step("place", place_step)
    .step("consent", consent_step)
    .step("units", units_step)
    .end(end_step)
    .build()
)

server = build_server("weather-g", call_weather)
