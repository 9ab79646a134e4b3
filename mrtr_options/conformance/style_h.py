"""The fixtures in the style of option H: linear, and the frame stays in memory."""

from __future__ import annotations

from mcp.server import Server

from mrtr_options.conformance.linear import linear_server
from mrtr_options.sdk.suspended import ContinuationStore


def server() -> Server[None]:
    """A fresh server."""
    store = ContinuationStore()
    return linear_server("h", store.linear, resource=lambda: store)
