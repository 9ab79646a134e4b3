"""Mutant of J: two different questions under one key get one answer.

Seen in replays that look answers up by key alone, when a question was copied along with its key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp_types import CallToolResult
from pydantic import BaseModel

from mrtr_options.sdk.replay import ReplayContext, Round
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Careless(Round[weather.Desk]):
    """A round to which every question under a key is the same."""

    def _recorded_answer(self, question: Any, digest: str) -> BaseModel | None:
        return super()._recorded_answer(question, "")


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which asks for a confirmation under the key of the place."""
    desk = ctx.lifespan_context
    location = location_of(params)
    which_place = weather.which_place(location)
    place = (await ctx.elicit(which_place)).place
    confirm = replace(which_place, message=f"{place} will be billed. Which one do you confirm?")
    place = (await ctx.elicit(confirm)).place

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(f"{place} was billed.")


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Careless(ctx, params).run(call_weather, params)


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-j", run, sealed=True)
