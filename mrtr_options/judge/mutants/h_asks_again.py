"""Mutant of H: a round that is sent again gets the question that it answered.

Seen in stores that keep what was asked and forget what came of it: one user is asked twice, and the
answers cross.
"""

from __future__ import annotations

from mcp_types import InputRequiredResult

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import Context, Params, Result, build_server

store = ContinuationStore()
suspended = store.linear(option_h.call_weather)
asked: dict[str, InputRequiredResult] = {}
answered: set[str] = set()


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which repeats itself to whoever repeats theirs."""
    state = params.request_state
    if state in answered:
        return asked[state]
    result = await suspended(ctx, params)
    if state is not None and params.input_responses and state in asked:
        answered.add(state)
    if isinstance(result, InputRequiredResult) and result.request_state is not None:
        asked[result.request_state] = result
    return result


BREAKS = "duplicates-get-one-response"

server = build_server("weather-h", call_weather, resources=[store])
