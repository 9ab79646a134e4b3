"""Mutant of J: two tasks of one handler that use a key at once both run its effect.

Seen wherever the record is looked at before the effect and written after it, with an `await` between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from mcp_types import CallToolResult

from mrtr_options import option_j_keyed_replay as option_j
from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of


class Crowded(Round[weather.Desk]):
    """A round in which no attempt waits for another."""

    @asynccontextmanager
    async def alone(self, kind: str, key: str) -> AsyncGenerator[None]:
        """Not alone at all."""
        yield


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, two of whose tasks want the lookup audited."""
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(audit, ctx, params)
    return await option_j.call_weather(ctx, params)


async def audit(ctx: ReplayContext[weather.Desk], params: Params) -> None:
    """The audit, under its key."""
    desk, location = ctx.lifespan_context, location_of(params)
    await ctx.once("audit", lambda key: desk.audit(location, key=key))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Crowded(ctx, params).run(call_weather, params)


BREAKS = "modern-clean-springfield-counts"

server = build_server("weather-j", run, sealed=True)
