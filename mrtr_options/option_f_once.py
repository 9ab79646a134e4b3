"""Option F, once: E's code, with every effect wrapped in a marker.

What the author writes: E's handler, with `once` around each effect. The author names each effect.

What the SDK does: keeps the markers in the state and skips an effect whose marker has come back.

When to reach for it: a stateless fleet and an effect that has to stand above a question. One line
per effect, and a reviewer can see which lines are not wrapped.

When not: the effect must never happen twice. The marker travels in a response; when that response
is lost, the effect runs again. A call that is made again runs its effects again: see E.
"""

from __future__ import annotations

from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(Markers):
    """What a later round needs, and the markers of the effects that have run."""

    place: str | None = None


async def call_weather(ctx: Context, params: Params) -> Result:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)

    # Skipped once its marker came back.
    await state.once("audit", lambda: desk.audit(location))

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

    await state.once("bill", lambda: desk.bill(place))
    return text(weather.report(place, units))


server = build_server("weather-f", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
