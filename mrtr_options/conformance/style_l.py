"""The fixtures in the style of option L: linear, on a durable engine."""

from __future__ import annotations

from mcp.server import Server

from mrtr_options.conformance.linear import linear_server
from mrtr_options.sdk.durable import DurableStore
from mrtr_options.tool.settings import database_url


def server() -> Server[None]:
    """A fresh server."""
    store, database = DurableStore(), database_url()
    return linear_server(
        "l", store.linear, sealed=True, resource=lambda: store.serving(None, database=database)
    )
