"""Mutant of F: the markers are not among what is written into the state.

Seen in states that are written down field by field, by a list that was not kept up.
"""

from __future__ import annotations

from pydantic import Field

from mrtr_options import option_f_once as option_f
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(option_f.State):
    """Markers that live for one round."""

    done: list[str] = Field(default_factory=list[str], exclude=True)


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, to the letter."""
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


BREAKS = "modern-clean-springfield-counts"

server = build_server("weather-f", call_weather)
