"""Option C, version branch: one handler, and an `if` on the era.

What the author writes: one handler with an `if` on the era: E's rounds, and the pushed questions of
old.

What the SDK does: says which era the request belongs to, and pushes a question to an old client.

When to reach for it: few tools, old clients that must be asked, and the wish to see every path in
one place.

When not: there are many tools. Everything about asking is written twice in each of them.
"""

from __future__ import annotations

from pydantic import BaseModel

from mrtr_options.sdk.era import era
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

    if era(ctx) == "legacy":
        place = weather.only_place(location)
        if place is None:
            answer = await push(ctx, weather.which_place(location))
            place = answer.place

        units = await push(ctx, weather.which_units(place))
    else:
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


server = build_server("weather-c", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
