"""The fixtures in the style of option J: keyed replay."""

from __future__ import annotations

from mcp.server import Server

from mrtr_options.conformance.linear import linear_server
from mrtr_options.sdk.replay import keyed_replay


def server() -> Server[None]:
    """A fresh server."""
    return linear_server("j", keyed_replay, sealed=True)
