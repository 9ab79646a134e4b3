"""Mutant of J: a computation that fails is recorded as the value None.

Seen in caches that keep errors, to spare the destination: here the record is kept for the whole call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcp_types import CallToolResult

from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text

T = TypeVar("T")


async def memo(
    ctx: ReplayContext[weather.Desk], key: str, compute: Callable[[], Awaitable[T]]
) -> T | None:
    """`ctx.memo`, which takes a failure for a value."""

    async def outcome() -> T | None:
        try:
            return await compute()
        except Exception:
            return None

    return await ctx.memo(key, outcome)


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which keeps the receipt of its audit."""
    desk = ctx.lifespan_context
    location = location_of(params)

    async def audit() -> str:
        await desk.audit(location)
        return "audited"

    await memo(ctx, "receipt", audit)

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    units = await ctx.elicit(weather.which_units(place))

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(weather.report(place, units))


BREAKS = "failed-effects-are-not-done"

server = build_server("weather-j", keyed_replay(call_weather), sealed=True)
