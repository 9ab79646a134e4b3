"""Option E with one change: a declined question counts as agreed, with the form's first choice.

Seen in adapters that take every answer for an accepted one and read defaults where content is
missing. For the page "What the official suite cannot see".
"""

from __future__ import annotations

from mcp_types import ElicitResult
from pydantic import BaseModel

from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of, text


class State(BaseModel):
    """The facts that a later round needs: the client sends only the latest round's answers."""

    place: str | None = None


def all_accepted(params: Params, defaults: dict[str, str]) -> Params:
    """Return the request, with each declined form accepted with its default."""
    answers = {
        key: ElicitResult(action="accept", content={key: defaults[key]})
        if isinstance(answer, ElicitResult) and answer.action == "decline"
        else answer
        for key, answer in (params.input_responses or {}).items()
    }
    return params.model_copy(update={"input_responses": answers})


async def call_weather(ctx: Context, params: Params) -> Result:
    desk = ctx.lifespan_context
    location = location_of(params)
    params = all_accepted(params, {"place": weather.places_named(location)[0], "units": "metric"})
    state = load_state(params, State)

    await desk.audit(location)  # the hazard above the question: once per round

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


server = build_server("weather-e", call_weather)
