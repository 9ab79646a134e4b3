"""Option A, SSE shim: E's code, and a wrapper that asks old clients for it.

What the author writes: E's handler, without an old client's error or default.

What the SDK does: plays the modern client for a legacy one. It calls the handler again and again
inside the one legacy request, and pushes each question to the client in between.

When to reach for it: old clients must get the whole conversation, and the deployment can hold their
connections open. The re-entry is hidden, but the guards that make it safe are visible.

When not: the fleet has no back-channel (stateless HTTP). The shim then cannot ask, and nothing near
the tool says so: it shows on the day an old client connects.
"""

from __future__ import annotations

from pydantic import BaseModel

from mrtr_options.sdk.legacy_shim import legacy_shim
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


server = build_server("weather-a", legacy_shim(call_weather))

if __name__ == "__main__":
    from mrtr_options.demo.option import demo

    demo(server, __file__)
