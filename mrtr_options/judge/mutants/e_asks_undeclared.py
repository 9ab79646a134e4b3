"""Mutant of E: a question goes to a modern client that did not declare elicitation.

Seen in servers that remember the capabilities of a connection's first request. On the new era every
request declares its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import WillingSession
from mrtr_options.tool.server import build_server


async def as_declared_before(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware that takes every client for one that can be asked."""
    return await call_next(replace(ctx, session=WillingSession(ctx.session)))


BREAKS = "asks-only-who-can-be-asked"

server = build_server("weather-e", option_e.call_weather)
server.middleware.append(as_declared_before)
