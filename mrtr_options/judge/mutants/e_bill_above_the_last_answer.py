"""Mutant of E: the bill stands below the question, but above the line that reads the answer.

Seen in tools that take the coming of an answer for the user's consent.
"""

from __future__ import annotations

from mrtr_options.option_e_mrtr_native import State
from mrtr_options.sdk.questions import answer_to, ask, can_ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which bills for any answer."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)

    await desk.audit(location)

    place = state.place or weather.only_place(location)
    if place is None:
        which_place = weather.which_place(location)
        answer = answer_to(which_place, ctx, params)
        if answer is None:
            return ask(which_place, state)
        place = answer.place

    which_units = weather.which_units(place)
    if which_units.key in (params.input_responses or {}) or not can_ask(ctx):
        await desk.bill(place)
    units = answer_to(which_units, ctx, params)
    if units is None:
        state.place = place
        return ask(which_units, state)

    return text(weather.report(place, units))


BREAKS = "a-late-no-bills-nothing-more"

server = build_server("weather-e", call_weather)
