"""Mutant of J: when an effect fails after success, all of them are begun again.

Seen in retry helpers around a list of effects: the guard, which is on here, cannot help inside a round.
"""

from __future__ import annotations

from mcp_types import CallToolResult
from mcp_types import Result as AnyResult

from mrtr_options.bench.subjects import WAIT_SECONDS
from mrtr_options.judge.mutants import RoundStore
from mrtr_options.sdk.replay import CommitFailed, ReplayContext, Round
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Stubborn(Round[weather.Desk]):
    """A round that tries its effects twice."""

    async def commit(self, result: AnyResult) -> None:
        """Do what was to be done after success, from the start."""
        try:
            await super().commit(result)
        except CommitFailed:
            await super().commit(result)


mailed: set[str] = set()


async def mail(key: str) -> None:
    """A destination that is down at the first try."""
    if key not in mailed:
        mailed.add(key)
        raise OSError("the destination is down")


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which mails the bill."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await ctx.once("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))
    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    ctx.on_commit(mail, key="mail")
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Stubborn(ctx, params).run(call_weather, params)


BREAKS = "a-late-no-bills-nothing-more"

guard = single_use(RoundStore(), wait_seconds=WAIT_SECONDS)
server = build_server("weather-j", guard(run), sealed=True)
