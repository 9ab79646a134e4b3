"""Option D, dual handlers: one for each era, under one tool name.

What the author writes: two handlers, one per era. E's for modern clients, and one that pushes its
questions for old ones.

What the SDK does: picks the handler by the era of the request.

When to reach for it: as C, with each path readable on its own, and the old one easy to delete when
its clients are gone.

When not: the two will be changed by different people. Nothing keeps them telling the same story.
"""

from __future__ import annotations

from mcp_types import CallToolResult
from pydantic import BaseModel

from mrtr_options.sdk.dispatcher import by_era
from mrtr_options.sdk.push import push
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(BaseModel):
    """What a later round needs: the client sends only the latest round's answers."""

    place: str | None = None


async def call_weather(ctx: Context, params: Params) -> Result:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)

    # The hazard above the question: once per round.
    await desk.audit(location)

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

    await desk.bill(place)
    return text(weather.report(place, units))


async def call_weather_legacy(ctx: Context, params: Params) -> CallToolResult:
    """Report the weather to a client of the old era."""
    desk = ctx.lifespan_context
    location = location_of(params)

    await desk.audit(location)

    place = weather.only_place(location)
    if place is None:
        answer = await push(ctx, weather.which_place(location))
        place = answer.place

    units = await push(ctx, weather.which_units(place))

    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-d", by_era(modern=call_weather, legacy=call_weather_legacy))

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
