"""Mutant of E: what a later round needs is kept in a module's dictionary, by the arguments.

Seen in servers that were written for one user at a time. It claims to survive nothing; two equal
calls at once are enough.
"""

from __future__ import annotations

from mrtr_options.sdk.questions import answer_to, ask
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text

chosen: dict[str, str] = {}


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, with one memory for all of its calls."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = chosen.get(location) or weather.only_place(location)
    if place is None:
        which_place = weather.which_place(location)
        answer = answer_to(which_place, ctx, params)
        if answer is None:
            return ask(which_place)
        place = chosen[location] = answer.place

    which_units = weather.which_units(place)
    units = answer_to(which_units, ctx, params)
    if units is None:
        return ask(which_units)

    chosen.pop(location, None)
    await desk.bill(place)
    return text(weather.report(place, units))


BREAKS = "parallel-calls-stay-two"

server = build_server("weather-e", call_weather)
