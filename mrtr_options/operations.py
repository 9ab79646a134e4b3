"""What an operator sees of a round: the name of its call on the span, and one line in the log.

The rounds of one call are requests of their own, perhaps on different instances and, with a client
that traces each request by itself, in different traces. What they share is the state, so the name of
the call travels there: put in front of the author's state inside the boundary, which seals it, and
taken off again before the handler. The handler sees what it wrote; a client can read the name of a
signed state, and can change none.

- *Trace*: `mrtr.call` and `mrtr.round` on the current span, which is the SDK's own
  (`OpenTelemetryMiddleware` is on by default and keeps the client's `traceparent`).
- *Log*: a line at INFO of the logger `mrtr_options.rounds` after each round, with the same as fields.
  The outcome is `input_required`, `complete`, `task`, `tool_error`, the code of an error, `crashed` or
  `cancelled`. Never an answer, an argument, or a state.

A question that is returned without a state ends the name: its next round is a new call. A round that
is sent again has the same call and the same number, which is how a duplicate shows.

Knows the SDK's middleware and nothing of any option.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp_types import INVALID_PARAMS, CallToolResult
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required
from opentelemetry import trace
from pydantic import ValidationError

CALL_ATTRIBUTE = "mrtr.call"
ROUND_ATTRIBUTE = "mrtr.round"

logger = logging.getLogger("mrtr_options.rounds")

_NAMED = re.compile(r"call:(?P<call>[\w-]{22})\.(?P<number>\d{1,9}):(?P<state>.*)", re.ASCII | re.DOTALL)


@dataclass
class Round:
    """One request of a call.

    Attributes:
        call: The call's name; None where the request's state was refused, so that nobody knows.
        number: 1 for the first, one more than the round that asked for every other.
    """

    call: str | None = None
    number: int = 0


class Rounds:
    """Server middleware in place of a state boundary: names each call, and tells of each round.

    Args:
        option: The server's name, for the log.
        boundary: Seals and verifies states.
    """

    def __init__(self, option: str, boundary: ServerMiddleware[Any]) -> None:
        self._option = option
        self._boundary = boundary

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method not in INPUT_REQUIRED_METHODS:
            return await call_next(ctx)
        this = Round()

        async def named(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
            return _with_name(this, await call_next(_without_name(this, ctx)))

        if not logger.isEnabledFor(logging.INFO):
            return await self._boundary(ctx, named)
        # Not the wall clock: the time between two readings of that may be anything.
        begins = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await self._boundary(ctx, named)
            outcome = _outcome(result)
            return result
        except Exception as error:
            outcome = _failure(error)
            raise
        finally:
            self._log(ctx.method, this, outcome, (time.perf_counter() - begins) * 1000)

    def _log(self, method: str, this: Round, outcome: str, milliseconds: float) -> None:
        logger.info(
            "%s %s call %s round %s: %s in %.1f ms",
            self._option,
            method,
            this.call or "unknown",
            this.number or "unknown",
            outcome,
            milliseconds,
            extra={
                "option": self._option,
                "method": method,
                "call": this.call,
                "round": this.number or None,
                "outcome": outcome,
                "duration_ms": round(milliseconds, 3),
            },
        )


def authors_part(state: str) -> str:
    """A state as the handler wrote it, without the call's name."""
    match = _NAMED.fullmatch(state)
    return match["state"] if match else state


def log_to_standard_error() -> None:
    """Turn the log of rounds on, for a process that configures no logging of its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _without_name(this: Round, ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any]:
    state = (ctx.params or {}).get("requestState")
    # A state of this server's from before it named calls has none; its call gets one here.
    match = None if state is None else _NAMED.fullmatch(state)
    if match is None:
        this.call, this.number = secrets.token_urlsafe(16), 1
    else:
        this.call, this.number = match["call"], int(match["number"]) + 1
        ctx = replace(ctx, params={**(ctx.params or {}), "requestState": match["state"]})
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attributes({CALL_ATTRIBUTE: this.call, ROUND_ATTRIBUTE: this.number})
    return ctx


def _with_name(this: Round, result: HandlerResult) -> HandlerResult:
    if not is_input_required(result):
        return result
    state = result.get("requestState") if isinstance(result, Mapping) else result.request_state
    if not isinstance(state, str):
        return result
    state = f"call:{this.call}.{this.number}:{state}"
    if isinstance(result, Mapping):
        return {**result, "requestState": state}
    return result.model_copy(update={"request_state": state})


def _outcome(result: HandlerResult) -> str:
    if is_input_required(result):
        return "input_required"
    match result:
        case {"resultType": "task"}:
            return "task"
        case CallToolResult(is_error=True) | {"isError": True}:
            return "tool_error"
        case _:
            return "complete"


def _failure(error: Exception) -> str:
    match error:
        case MCPError():
            return str(error.code)
        case ValidationError():
            return str(INVALID_PARAMS)
        case _:  # which code the client is told differs between the eras
            return "crashed"
