"""My option: the rounds by hand."""

from pydantic import BaseModel

from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(BaseModel):
    place: str | None = None


async def call_weather(ctx: Context, params: Params) -> Result:
    desk = ctx.lifespan_context
    location = location_of(params)
    state = load_state(params, State)
    await desk.audit(location)
    place = state.place or weather.only_place(location)
    if place is None:
        answer = answer_to(weather.which_place(location), ctx, params)
        if answer is None:
            return ask(weather.which_place(location), state)
        place = answer.place
    units = answer_to(weather.which_units(place), ctx, params)
    if units is None:
        return ask(weather.which_units(place), State(place=place))
    await desk.bill(place)
    return text(weather.report(place, units))


server = build_server("weather-mine", call_weather)
