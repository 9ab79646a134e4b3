"""Option E, MRTR-native: write the rounds by hand, guard first.

What the author writes: a guard for each question, the state of later rounds, and an old client's
error or default.

What the SDK does: reads answers, builds questions and protects the state; every option has these
two helpers and the codec. `examples/basic.py` makes the same two moves in the protocol's own words.

When to reach for it: always, as the floor. It runs on any instance, needs nothing on the server,
and every other option is measured against it.

When not: an effect stands above a guard. That line runs once per round, and only the convention
"effects below the last guard" keeps it from doing harm. A call that is made again runs its effects
again: let their destination refuse a second one about the same thing (a unique order number).
"""

from __future__ import annotations

from pydantic import BaseModel

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
        which_place = weather.which_place(location, unasked="error")
        answer = answer_to(which_place, ctx, params)
        if answer is None:
            return ask(which_place, state)
        place = answer.place

    which_units = weather.which_units(place, unasked="metric")
    units = answer_to(which_units, ctx, params)
    if units is None:
        state.place = place
        return ask(which_units, state)

    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-e", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
