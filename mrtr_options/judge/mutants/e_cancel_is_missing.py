"""Mutant of E: a cancelled question counts as unanswered and is asked again, for ever.

Seen in handlers that ask whenever there is nothing accepted.
"""

from __future__ import annotations

from mcp_types import ElicitResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which asks until it is answered."""
    answers = {
        key: answer
        for key, answer in (params.input_responses or {}).items()
        if not (isinstance(answer, ElicitResult) and answer.action == "cancel")
    }
    return await option_e.call_weather(ctx, params.model_copy(update={"input_responses": answers}))


BREAKS = "cancel-ends-the-call"

server = build_server("weather-e", call_weather)
