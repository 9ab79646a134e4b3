"""Mutant of E: answers an old client with a question, which it does not know.

Seen in the first ports to the new era: the SDK makes an internal error of it.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.tool.server import Context, Params, Result, build_server


async def call_weather(ctx: Context, params: Params) -> Result:
    """The weather tool, for which every client is modern."""
    return await option_e.call_weather(replace(ctx, protocol_version=LATEST_MODERN_VERSION), params)


BREAKS = "legacy-clean-tokyo-counts"

server = build_server("weather-e", call_weather)
