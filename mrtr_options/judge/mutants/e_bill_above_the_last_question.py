"""Mutant of E: the bill stands above the last question.

Seen in tools that were moved over from the back-channel line by line: there, above and below a
question made no difference once the user had answered.
"""

from __future__ import annotations

from mrtr_options.option_e_mrtr_native import State
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which bills as soon as it knows the place."""
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

    if state.place is None:
        await desk.bill(place)

    which_units = weather.which_units(place)
    units = answer_to(which_units, ctx, params)
    if units is None:
        state.place = place
        return ask(which_units, state)

    return text(weather.report(place, units))


BREAKS = "no-bill-without-an-answer"

server = build_server("weather-e", call_weather)
