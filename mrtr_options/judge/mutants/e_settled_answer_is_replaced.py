"""Mutant of E: an answer to a question that is settled replaces what was settled.

Seen in handlers that merge each round's answers over the state, the newest last.
"""

from __future__ import annotations

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.option_e_mrtr_native import State
from mrtr_options.sdk.questions import load_state, read_answer
from mrtr_options.tool import weather
from mrtr_options.tool.server import Context, Params, Result, build_server, location_of


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, where the last word on the place counts."""
    state = load_state(params, State)
    which_place = weather.which_place(location_of(params))
    newer = (params.input_responses or {}).get(which_place.key)
    if state.place is not None and newer is not None:
        state.place = read_answer(which_place, newer).place
        params = params.model_copy(update={"request_state": state.model_dump_json()})
    return await option_e.call_weather(ctx, params)


BREAKS = "settled-answers-stay"

server = build_server("weather-e", call_weather)
