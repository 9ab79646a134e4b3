"""Option D: two handlers under one tool name, chosen by the era of the request.

Knows `handler`, `capabilities` and `questions`.
"""

from __future__ import annotations

from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.handler import Context, Handler, Params, Result


def by_era(*, modern: Handler, legacy: Handler) -> Handler:
    """Make one handler out of two, each written for one era."""

    async def dispatched(ctx: Context, params: Params) -> Result:
        return await (modern if is_modern(ctx) else legacy)(ctx, params)

    return dispatched
