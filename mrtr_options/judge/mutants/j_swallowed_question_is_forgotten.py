"""Mutant of J: a question that the author's `except BaseException` swallowed is forgotten.

Seen in replays whose interrupt is no `Exception`, and which think that this is enough.
"""

from __future__ import annotations

from mcp_types import CallToolResult

from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Forgetful(Round[weather.Desk]):
    """A round that believes what the handler returns."""

    @property
    def is_over(self) -> bool:
        """Never, as long as the handler goes on."""
        return False


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which catches everything."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await ctx.once("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    try:
        units = await ctx.elicit(weather.which_units(place))
    except BaseException:
        units = weather.UnitsAnswer(units="metric")

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Forgetful(ctx, params).run(call_weather, params)


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-j", run, sealed=True)
