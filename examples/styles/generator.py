"""A generator: `answer = yield question`. Behaves like M, since questions are known by their order.

What the author writes: an async generator that yields its questions, and its result at the end.

What the SDK does: runs the generator again in every round and sends it the answers so far, the
first to the first `yield`. It is M's replay; with `exception_shim` in its place, the question's key
decides, as in B, and with `continuation_store` the generator itself is kept, as in H.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from mcp_types import CallToolResult

from mrtr_options.sdk.positional_replay import ReplayContext, positional_replay
from mrtr_options.sdk.questions import Question
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of, text

Asking = AsyncGenerator[Question[Any] | CallToolResult, Any]


async def ask_weather(ctx: ReplayContext[weather.Desk], params: Params) -> Asking:
    desk = ctx.lifespan_context
    location = location_of(params)

    # The hazard above the question: once per round, unseen.
    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = yield weather.which_place(location, unasked="error")
        place = answer.place

    units = yield weather.which_units(place, unasked="metric")

    await desk.bill(place)
    yield text(weather.report(place, units))


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """Send each answer to the `yield` of its question, as an SDK would have to do."""
    async with aclosing(ask_weather(ctx, params)) as asking:
        step = await anext(asking)
        while isinstance(step, Question):
            step = await asking.asend(await ctx.elicit(step))
        return step


server = build_server("weather-generator", positional_replay(call_weather))
