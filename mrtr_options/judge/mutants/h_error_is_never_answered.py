"""Mutant of H: a handler that raises ends its own task, and the request waits for ever.

Seen wherever a handler runs in a task of its own: the error goes to the log, and no one tells the
request.
"""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp_types import Result

from mrtr_options import option_h_continuation_store as option_h
from mrtr_options.sdk.suspended import ContinuationStore
from mrtr_options.tool.server import build_server


class Store(ContinuationStore):
    """A store that tells requests of results only."""

    def _finish(self, frame: Any, output: Result | BaseException) -> None:
        if isinstance(output, Exception) and not isinstance(output, MCPError):
            del self._live[frame.name]
        else:
            super()._finish(frame, output)


store = Store()

BREAKS = "every-request-is-answered"

server = build_server("weather-h", store.linear(option_h.call_weather), resources=[store])
