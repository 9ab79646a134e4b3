"""What an operator sees of a round: the name of its call on the span, and one line in the log.

The rounds of one call are requests of their own, perhaps on different instances and, with a client
that traces each request by itself, in different traces. What they share is the state, so the name
of the call travels there: the codec that protects the state protects the name with it. The handler
sees what it wrote; a client can read the name in a signed state, and can change none.

- *Trace*: `mrtr.call` and `mrtr.round` on the current span, which is the SDK's own
  (`OpenTelemetryMiddleware` is on by default and keeps the client's `traceparent`).
- *Log*: a line at INFO of the logger `mrtr_options.rounds` after each round, with the same as
  fields. The outcome is `input_required`, `complete`, `task`, `tool_error`, the code of an error,
  `crashed` or `cancelled`. Never an answer, an argument, or a state.

A question that is returned without a state ends the name: its next round is a new call. A round
that is sent again has the same call and the same number, which is how a duplicate shows.

Knows the SDK's middleware, `handlers`, and nothing of any option.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import RequestStateCodec
from mcp_types import INVALID_PARAMS, CallToolResult
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required, validate_client_request
from opentelemetry import trace
from pydantic import ValidationError

from mrtr_options.sdk.handlers import Crashed

CALL_ATTRIBUTE = "mrtr.call"
ROUND_ATTRIBUTE = "mrtr.round"

logger = logging.getLogger("mrtr_options.rounds")

_NAMED = re.compile(rb"call:(?P<call>[\w-]{22})\.(?P<number>\d{1,9}):")


@dataclass(slots=True)
class _Round:
    """One request of a call.

    Attributes:
        call: The call's name; None where the request's state is not this server's.
        number: 1 for the first, one more than the round that asked for every other.
    """

    call: str | None = None
    number: int = 0

    def begin_call(self) -> None:
        self.call, self.number = secrets.token_urlsafe(16), 1


_round: ContextVar[_Round | None] = ContextVar("round", default=None)


class NamingCodec:
    """Puts the name of the round's call in front of what a codec protects.

    Args:
        codec: Protects both.
    """

    def __init__(self, codec: RequestStateCodec) -> None:
        self._codec = codec

    def seal(self, payload: bytes) -> str:
        if (this := _round.get()) is not None:
            payload = b"call:%b.%d:%b" % ((this.call or "").encode(), this.number, payload)
        return self._codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        payload = self._codec.unseal(token)
        match, rest = _parted(payload)
        if (this := _round.get()) is not None and match is not None:
            this.call, this.number = match["call"].decode(), int(match["number"]) + 1
        return rest


class Rounds:
    """Server middleware around a state boundary with a `NamingCodec`: tells of each round.

    Args:
        option: The server's name, for the log.
    """

    def __init__(self, option: str) -> None:
        self._option = option

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.method not in INPUT_REQUIRED_METHODS:
            return await call_next(ctx)
        this = _Round()
        if (ctx.params or {}).get("requestState") is None:
            this.begin_call()
        token = _round.set(this)
        # Not the wall clock: the time between two readings of that may be anything.
        begins = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await call_next(ctx)
            outcome = _outcome(result)
            return result
        except Exception as error:
            outcome = _failure(error)
            if isinstance(error, ValidationError):
                validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
                # The parameters fit, so it is of the author's own data. The SDK would blame the
                # client.
                outcome = "crashed"
                raise RuntimeError("the author's code raised a ValidationError") from error
            raise
        finally:
            _round.reset(token)
            _trace(this)
            if logger.isEnabledFor(logging.INFO):
                self._log(ctx.method, this, outcome, (time.perf_counter() - begins) * 1000)

    def _log(self, method: str, this: _Round, outcome: str, milliseconds: float) -> None:
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


def without_name(payload: bytes) -> bytes:
    """Return what a codec was given to protect, without the call's name."""
    return _parted(payload)[1]


def _parted(payload: bytes) -> tuple[re.Match[bytes] | None, bytes]:
    match = _NAMED.match(payload)
    return match, payload if match is None else payload[match.end() :]


def log_to_standard_error() -> None:
    """Turn the log of rounds on, for a process that configures no logging of its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # an MCPServer has the root logger write, too


def _trace(this: _Round) -> None:
    span = trace.get_current_span()
    if this.call is not None and span.is_recording():
        span.set_attributes({CALL_ATTRIBUTE: this.call, ROUND_ATTRIBUTE: this.number})


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
        case Crashed():
            return "crashed"
        case MCPError():
            return str(error.code)
        case ValidationError():
            return str(INVALID_PARAMS)
        case _:  # which code the client is told differs between the eras
            return "crashed"
