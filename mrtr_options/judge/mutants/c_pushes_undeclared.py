"""Mutant of C: pushes a question to an old client that never declared elicitation.

Seen in tools that look at the era and not at the capability.
"""

from __future__ import annotations

from dataclasses import replace

from mrtr_options import option_c_version_branch as option_c
from mrtr_options.judge.mutants import WillingSession
from mrtr_options.sdk.era import era
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, which takes every old client for one that can be asked."""
    if era(ctx) == "legacy":
        ctx = replace(ctx, session=WillingSession(ctx.session))
    return await option_c.call_weather(ctx, params)


BREAKS = "tokyo-without-asking"

server = build_server("weather-c", call_weather)
