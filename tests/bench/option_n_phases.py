"""Option N, phases: F's rounds, chosen by a `match` on what the call waits for.

What the author writes: a `match` on an enum in place of the guards. A test puts this file into a
copy of the deck that has no next version of it.

What the SDK does: keeps the markers in the state and skips an effect whose marker has come back.

When to reach for it: never; it shows how the documents treat an option that was not tried under
every fault.

When not: always.
"""

from __future__ import annotations

from enum import Enum

from mrtr_options.sdk.once import Markers
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Phase(Enum):
    """The step that a call waits for."""

    PLACE = "place"
    UNITS = "units"
    DONE = "done"


class State(Markers):
    """The chosen place, and the markers of the effects that have run."""

    place: str = ""


async def call_weather(ctx: Context, params: Params) -> Result:
    """Report the weather, and ask for what is missing."""
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)
    await state.once("audit", lambda: desk.audit(location))

    place = state.place or weather.only_place(location) or ""
    if not place and (chosen := answer_to(weather.which_place(location), ctx, params)):
        place = chosen.place
    units = answer_to(weather.which_units(place), ctx, params) if place else None
    if units:
        phase = Phase.DONE
    elif place:
        phase = Phase.UNITS
    else:
        phase = Phase.PLACE

    match phase:
        case Phase.PLACE:
            return ask(weather.which_place(location), state)
        case Phase.UNITS:
            state.place = place
            return ask(weather.which_units(place), state)
        case Phase.DONE:
            assert units is not None
            await state.once("bill", lambda: desk.bill(place))
            return text(weather.report(place, units))


server = build_server("weather-n", call_weather)

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
