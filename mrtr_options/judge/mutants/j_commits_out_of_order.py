"""Mutant of J: effects after success run last in, first out, and stop at the first that fails.

Seen in exit stacks, which are made for undoing: the bill goes out for a lookup that was never audited.
"""

from __future__ import annotations

from mcp_types import CallToolResult
from mcp_types import Result as AnyResult

from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Stacked(Round[weather.Desk]):
    """A round that commits from the last effect to the first."""

    async def commit(self, result: AnyResult) -> None:
        """Do what was to be done after success, backwards."""
        self.commits = dict(reversed(self.commits.items()))
        await super().commit(result)


class Unaudited(Exception):
    """A bill came without its audit."""


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, whose desk bills only what was audited."""
    desk = ctx.lifespan_context
    location = location_of(params)
    audited: list[str] = []

    async def audit(key: str) -> None:
        await desk.audit(location, key=key)
        audited.append(location)

    async def bill(key: str) -> None:
        if not audited:
            raise Unaudited
        await desk.bill(location, key=key)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))

    ctx.on_commit(audit, key="audit")
    ctx.on_commit(bill, key="bill")
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Stacked(ctx, params).run(call_weather, params)


BREAKS = "clean-tokyo"

server = build_server("weather-j", run, sealed=True)
