"""Mutant of J: the interrupt is an `Exception`, and the author's `except Exception` swallows it.

Seen in most replay libraries: what is meant to leave the handler is caught like any failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult

from mrtr_options.sdk.replay import ReplayContext, Round, RoundOver
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Interrupt(Exception):
    """The question has to go out."""


class Swallowable(Round[weather.Desk]):
    """A round that is ended by an exception like any other, and by nothing else."""

    def answers(self, questions: Sequence[Any]) -> tuple[Any, ...]:
        """The answers, or an exception."""
        try:
            return super().answers(questions)
        except RoundOver:
            self._questions, asked = {}, self._questions
            raise Interrupt(asked) from None

    async def run(self, handler: Any, params: Any) -> Any:
        """Ask, if the exception comes as far as this."""
        try:
            return await super().run(handler, params)
        except Interrupt as interrupt:
            (self._questions,) = interrupt.args
            return await self.end()


async def call_weather(ctx: ReplayContext[weather.Desk], params: Params) -> CallToolResult:
    """The weather tool, which can do without an answer about units."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await ctx.once("audit", lambda key: desk.audit(location, key=key))

    place = weather.only_place(location)
    if place is None:
        answer = await ctx.elicit(weather.which_place(location))
        place = answer.place

    try:
        units = await ctx.elicit(weather.which_units(place))
    except Exception:
        units = weather.UnitsAnswer(units="metric")

    ctx.on_commit(lambda key: desk.bill(place, key=key), key="bill")
    return text(weather.report(place, units))


async def run(ctx: Context, params: Params) -> Result:
    """One round of it."""
    return await Swallowable(ctx, params).run(call_weather, params)


BREAKS = "clean-tokyo"

server = build_server("weather-j", run, sealed=True)
