"""Mutant of J: an effect that fails is recorded as done.

Seen in replays that write the record first, so that a crash cannot run the effect twice.
"""

from __future__ import annotations

import contextlib

from mcp_types import CallToolResult

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.sdk.replay import Effect, ReplayContext, keyed_replay
from mrtr_options.tool import weather
from mrtr_options.tool.server import Params, build_server, location_of


def best_effort(effect: Effect) -> Effect:
    """An effect that is done whatever happens."""

    async def do(key: str) -> None:
        with contextlib.suppress(Exception):
            await effect(key)

    return do


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which shrugs a failed audit off."""
    desk = ctx.lifespan_context
    location = location_of(params)
    await ctx.once("audit", best_effort(lambda key: desk.audit(location, key=key)))
    return await option_j.call_weather(ctx, params)


BREAKS = "failed-effects-are-not-done"

server = build_server("weather-j", keyed_replay(call_weather), sealed=True)
