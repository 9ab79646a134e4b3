"""An extension of the protocol on a lowlevel server, which has no `add_extension` of its own.

Knows the `mcp` SDK only.
"""

from __future__ import annotations

from typing import Any

from mcp.server import Server
from mcp.server.extension import Extension


def add_extension(server: Server[Any], extension: Extension) -> None:
    """Declare an extension (MCP 2026-07-28, `extensions` of the server's capabilities) and serve its
    methods."""
    server.extensions[extension.identifier] = extension.settings()
    for method in extension.methods():
        server.add_request_handler(method.method, method.params_type, method.handler)
