"""Option C: the era as a value that the author branches on. Knows `questions`."""

from __future__ import annotations

from typing import Literal

from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.handler import Context

Era = Literal["legacy", "modern"]


def era(ctx: Context) -> Era:
    """Return the era of this request, from the protocol version it was made under."""
    return "modern" if is_modern(ctx) else "legacy"
