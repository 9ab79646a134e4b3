"""Mutant of J: an answer is used for its question as it is worded now, not as it was asked.

Seen in replays that look answers up by key alone, after a new version was deployed between two rounds.
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
    """The weather tool, whose first round is still served by the version before."""
    desk = ctx.lifespan_context
    location = location_of(params)
    which_place = weather.which_place(location)
    if params.request_state is not None:
        which_place = replace(which_place, message=f"{which_place.message} It will be billed at once.")
    place = (await ctx.elicit(which_place)).place

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(f"{place} was billed.")


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Careless(ctx, params).run(call_weather, params)


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-j", run, sealed=True)
