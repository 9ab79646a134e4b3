"""Mutant of H: a round of a call that is not waiting any more begins a new one.

Seen in stores that are kind to lost sessions. The client sends the last round again, and the user is
asked everything again and billed twice.
"""

from __future__ import annotations

from mcp import MCPError

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import Context, Params, Result, build_server

store = ContinuationStore(max_finished=0)
suspended = store.linear(option_h.call_weather)


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which always has a call to go on with."""
    try:
        return await suspended(ctx, params)
    except MCPError as error:
        if error.data != {"reason": "unknown_continuation"}:
            raise
        return await suspended(ctx, params.model_copy(update={"request_state": None}))


BREAKS = "bill-once-lost-final"

server = build_server("weather-h", call_weather, resources=[store])
