"""Mutant of E: an answer with content counts as accepted, whatever its action says.

Seen in handlers that look whether there is content and never at the action.
"""

from __future__ import annotations

from mcp_types import ElicitResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which reads the content first."""
    answers = {
        key: ElicitResult(action="accept", content=answer.content)
        if isinstance(answer, ElicitResult) and answer.content
        else answer
        for key, answer in (params.input_responses or {}).items()
    }
    return await option_e.call_weather(ctx, params.model_copy(update={"input_responses": answers}))


BREAKS = "content-does-not-undo-a-decline"

server = build_server("weather-e", call_weather)
