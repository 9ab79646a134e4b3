"""Suspend with data, as in mastra: the handler is entered again with an answer and its payload.

Behaves like F: `python -m mrtr_options diff F examples/styles/suspend_with_data.py`.

What the author writes: the handler returns a question together with a payload, and looks at the
payload at the start. What stands above the first question is done only if there is no payload.

What the SDK does: puts the payload into the state, and hands it out again with the answer.
"""

from __future__ import annotations

from pydantic import BaseModel

from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class Payload(BaseModel):
    """The payload with which the handler was suspended."""

    begun: bool = False
    place: str | None = None


async def call_weather(ctx: Context, params: Params) -> Result:
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, Payload)

    if not state.begun:
        # Skipped once a payload came back.
        await desk.audit(location)
        state.begun = True

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


server = build_server("weather-suspend", call_weather)
