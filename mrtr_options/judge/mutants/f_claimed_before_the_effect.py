"""Mutant of F: a marker is claimed in a shared table before its effect, and stays when that fails.

Seen in the usual remedy for duplicates (insert the key first, then act): the client's second try finds
the key and is told that all is well.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from pydantic import Field

from mrtr_options import option_f_once as option_f
from mrtr_options.judge.mutants import CLAIMED
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(option_f.State):
    """Markers in a table, under the name of the call."""

    call: str = Field(default_factory=secrets.token_hex)

    async def once(self, key: str, effect: Callable[[], Awaitable[None]]) -> None:
        """Claim an effect, and then run it."""
        if f"{self.call}/{key}" in CLAIMED:
            return
        CLAIMED.add(f"{self.call}/{key}")
        await effect()


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, whose effects are claimed first."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)

    await state.once("audit", lambda: desk.audit(location))

    place = state.place or weather.only_place(location)
    if place is None:
        which_place = weather.which_place(location)
        answer = answer_to(which_place, ctx, params)
        if answer is None:
            return ask(which_place, state)
        place = answer.place

    which_units = weather.which_units(place)
    units = answer_to(which_units, ctx, params)
    if units is None:
        state.place = place
        return ask(which_units, state)

    await state.once("bill", lambda: desk.bill(place))
    return text(weather.report(place, units))


BREAKS = "failed-effects-are-not-done"

server = build_server("weather-f", call_weather)
