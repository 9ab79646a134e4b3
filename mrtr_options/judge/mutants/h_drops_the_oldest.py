"""Mutant of H: a full store drops the oldest call instead of refusing the newest.

Seen in stores built on a cache with a size: one busy client ends the calls of all the others. The
cache here holds one.
"""

from __future__ import annotations

from typing import Any

from mcp.server import ServerRequestContext
from mcp_types import Result

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.sdk.suspended.store import Handler, Params
from mrtr_options.tool.server import build_server


class Store(ContinuationStore):
    """A store of one call: the latest."""

    async def _begin(
        self, handler: Handler[Any], ctx: ServerRequestContext[Any, Any], params: Params
    ) -> Result:
        for oldest in list(self._live.values()):
            oldest.abandon()
        return await super()._begin(handler, ctx, params)


store = Store()

BREAKS = "parallel-calls-stay-two"

server = build_server("weather-h", store.linear(option_h.call_weather), resources=[store])
