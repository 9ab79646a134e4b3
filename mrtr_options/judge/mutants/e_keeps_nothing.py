"""Mutant of E: nothing is kept in the state; the handler looks for every answer in each round.

Seen in handlers that take `inputResponses` to grow from round to round. It carries the latest round
only, and a tool with one question does not show the difference.
"""

from __future__ import annotations

from mrtr_options.sdk.questions import answer_to, ask
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, without a state."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        which_place = weather.which_place(location)
        answer = answer_to(which_place, ctx, params)
        if answer is None:
            return ask(which_place)
        place = answer.place

    which_units = weather.which_units(place)
    units = answer_to(which_units, ctx, params)
    if units is None:
        return ask(which_units)

    await desk.bill(place)
    return text(weather.report(place, units))


BREAKS = "clean-springfield"

server = build_server("weather-e", call_weather)
