"""Mutant of E: a state is bound to its tool and not to the tool's arguments.

Seen in servers that sign the state by itself. A place that was chosen for one call is then billed in
another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateBoundary

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server

Context = ServerRequestContext[Any, Any]


class AnyArguments(RequestStateBoundary):
    """A boundary that does not get to see the arguments."""

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Hide them on the way in, and put them back behind the check."""
        arguments = (ctx.params or {}).get("arguments")

        async def with_arguments(inner: Context) -> HandlerResult:
            return await call_next(
                replace(inner, params={**(inner.params or {}), "arguments": arguments})
            )

        return await super().__call__(
            replace(ctx, params={**(ctx.params or {}), "arguments": None}), with_arguments
        )


BREAKS = "state-is-bound-to-its-call"

server = build_server("weather-e", option_e.call_weather)
protect(server, boundary=AnyArguments)
