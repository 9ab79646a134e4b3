"""Option D: two handlers under one tool name, chosen by the era of the request.

Knows `questions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import ServerRequestContext

from mrtr_options.sdk.questions import is_modern

DeskT = TypeVar("DeskT")
ResultT = types.CallToolResult | types.InputRequiredResult


def by_era(
    *,
    modern: Callable[
        [ServerRequestContext[DeskT, Any], types.CallToolRequestParams], Awaitable[ResultT]
    ],
    legacy: Callable[
        [ServerRequestContext[DeskT, Any], types.CallToolRequestParams], Awaitable[types.CallToolResult]
    ],
) -> Callable[[ServerRequestContext[DeskT, Any], types.CallToolRequestParams], Awaitable[ResultT]]:
    """One handler out of two, each written for one era."""

    async def dispatched(
        ctx: ServerRequestContext[DeskT, Any], params: types.CallToolRequestParams
    ) -> ResultT:
        handler = modern if is_modern(ctx) else legacy
        return await handler(ctx, params)

    return dispatched
