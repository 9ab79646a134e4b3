"""Mutant of F: two effects have one marker, so the second never happens.

Seen wherever a key is copied along with the line below it. Keys are API, and nothing checks them.
"""

from __future__ import annotations

from mrtr_options.option_f_once import State
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, with a key used twice."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)

    await state.once("lookup", lambda: desk.audit(location))

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

    await state.once("lookup", lambda: desk.bill(place))
    return text(weather.report(place, units))


BREAKS = "clean-tokyo"

server = build_server("weather-f", call_weather)
