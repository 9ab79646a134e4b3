"""Mutant of E: a state that does not verify counts as none, and the call starts over.

Seen in servers that want to be kind to expired states. The user is asked again and again, effects are
repeated, and an attack leaves no trace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateBoundary

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

Context = ServerRequestContext[Any, Any]


class Forgiving(RequestStateBoundary):
    """A boundary that drops what it cannot verify."""

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Try with the state, and then without."""
        try:
            return await super().__call__(ctx, call_next)
        except MCPError as error:
            if error.data != {"reason": "invalid_request_state"}:
                raise
            params = {**(ctx.params or {}), "requestState": None, "inputResponses": None}
            return await super().__call__(replace(ctx, params=params), call_next)


BREAKS = "state-is-genuine"

server = build_server("weather-e", option_e.call_weather)
protect(server, boundary=Forgiving)
