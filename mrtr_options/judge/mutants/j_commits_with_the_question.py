"""Mutant of J: what was to be done after success is done whenever the handler is left.

Seen in frameworks that run deferred effects in a `finally`: a question leaves the handler as well.
"""

from __future__ import annotations

from mcp_types import CallToolResult, InputRequiredResult
from mcp_types import Result as AnyResult

from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Eager(Round[weather.Desk]):
    """A round that commits however it ends."""

    async def end(self) -> InputRequiredResult:
        """Commit, and ask."""
        await self.commit(AnyResult())
        return await super().end()


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which says early on what it will bill."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await ctx.once("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    units = await ctx.elicit(weather.which_units(place))
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Eager(ctx, params).run(call_weather, params)


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-j", run, sealed=True)
