"""Mutant of E: where the client cannot be asked, the first place of that name is taken.

Seen in tools whose questions all got a default, so that they work with every client.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.sdk.questions import CannotAsk
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which guesses."""
    try:
        return await option_e.call_weather(ctx, params)
    except CannotAsk:
        first = weather.places_named(location_of(params))[0]
        guess = params.model_copy(update={"arguments": {"location": first}})
        return await option_e.call_weather(ctx, guess)


BREAKS = "cannot-ask-is-not-a-yes"

server = build_server("weather-e", call_weather)
