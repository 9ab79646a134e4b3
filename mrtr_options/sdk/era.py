"""Option C: the era as a value that the author branches on. Knows `questions`."""

from __future__ import annotations

from typing import Any, Literal

from mcp.server import ServerRequestContext

from mrtr_options.sdk.capabilities import is_modern

Era = Literal["legacy", "modern"]


def era(ctx: ServerRequestContext[Any, Any]) -> Era:
    """Return the era of this request, from the protocol version it was made under."""
    return "modern" if is_modern(ctx) else "legacy"
