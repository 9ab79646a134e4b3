"""What a request may hold, checked before anything of it is validated.

Validating an answer takes a hundred times as long as reading it, on the event loop of all clients, so a
request with more of them than any tool asks for is refused unread. So is a request of an older protocol
version that carries a modern round. Knows the SDK's middleware and nothing of any option.

Source: MCP 2026-07-28, multi round-trip requests (`inputResponses`, `requestState`).
"""

from __future__ import annotations

import json
from typing import Any, cast

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_types import INVALID_PARAMS

from mrtr_options.sdk.questions import is_modern

MAX_ANSWERS = 64
"""How many entries the `inputResponses` of one request may have."""
MAX_ANSWER_BYTES = 128 * 1024
"""How many bytes they may have together, as JSON."""


class Limits:
    """Server middleware, the outermost: refuses a request with -32602 that is beyond the limits."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        answers = params.get("inputResponses")
        if answers is not None or params.get("requestState") is not None:
            if not is_modern(ctx):
                raise MCPError(
                    INVALID_PARAMS,
                    "requestState and inputResponses need protocol version 2026-07-28 or later;"
                    f" this request is of {ctx.protocol_version}.",
                    {"reason": "not_of_this_version"},
                )
            if isinstance(answers, dict):
                _check_size(cast("dict[str, Any]", answers))
        return await call_next(ctx)


def _check_size(answers: dict[str, Any]) -> None:
    if len(answers) > MAX_ANSWERS:
        problem = f"{len(answers)} answers; the most is {MAX_ANSWERS}"
    elif (size := len(json.dumps(answers))) > MAX_ANSWER_BYTES:
        problem = f"{size} bytes of answers; the most is {MAX_ANSWER_BYTES}"
    else:
        return
    raise MCPError(
        INVALID_PARAMS,
        f"This request has {problem}. Answer only what was asked.",
        {"reason": "too_large"},
    )
