"""Mutant of J: what was to be done after success is done for an error result too.

Seen in frameworks in which every handler that returns has succeeded, and `isError` is a return value.
"""

from __future__ import annotations

from mcp_types import CallToolResult
from mcp_types import Result as AnyResult

from mrtr_options.sdk.questions import CannotAsk
from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Hasty(Round[weather.Desk]):
    """A round to which every result is a success."""

    async def commit(self, result: AnyResult) -> None:
        """Do what was to be done after success."""
        await super().commit(AnyResult())


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which says early on what it will bill."""
    desk = ctx.lifespan_context
    location = location_of(params)
    ctx.on_commit(lambda key: desk.bill(location, key=key), key="early")
    try:
        place = (await ctx.elicit(weather.which_place(location))).place
        units = await ctx.elicit(weather.which_units(place))
    except CannotAsk as outcome:
        return text(str(outcome), is_error=True)
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Hasty(ctx, params).run(call_weather, params)


BREAKS = "cannot-ask-is-not-a-yes"

server = build_server("weather-j", run, sealed=True)
