"""An operator's view of a round: the name of its call on the span, and one line in the log.

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

Knows `handler` and `current_request`, and nothing of any option.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Self

from mcp import MCPError
from mcp.server.context import HandlerResult
from mcp_types import INVALID_PARAMS, CallToolResult
from mcp_types.methods import is_input_required
from opentelemetry import trace
from pydantic import ValidationError

from mrtr_options.sdk.current_request import Request
from mrtr_options.sdk.handler import Crashed

CALL_ATTRIBUTE = "mrtr.call"
ROUND_ATTRIBUTE = "mrtr.round"

logger = logging.getLogger("mrtr_options.rounds")

_NAMED = re.compile(rb"call:(?P<call>[\w-]{22})\.(?P<number>\d{1,9}):")


class RoundLog:
    """A block in which a round runs. When it ends the round is logged.

    Args:
        server: The server's name, for the log.
        method: What was requested.
        this: The request.

    Attributes:
        result: What the client gets; None where it gets an error, or has left.
    """

    def __init__(self, server: str | None, method: str, this: Request) -> None:
        self._server = server
        self._method = method
        self._this = this
        self.result: HandlerResult | None = None

    def __enter__(self) -> Self:
        # Not the wall clock: the time between two readings of that may be anything.
        self._begins = time.perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        span = trace.get_current_span()
        if self._this.call is not None and span.is_recording():
            span.set_attributes(
                {CALL_ATTRIBUTE: self._this.call, ROUND_ATTRIBUTE: self._this.number}
            )
        if logger.isEnabledFor(logging.INFO):
            outcome = _outcome(self.result) if error is None else _failure(error)
            self._log(outcome, (time.perf_counter() - self._begins) * 1000)

    def _log(self, outcome: str, milliseconds: float) -> None:
        this = self._this
        logger.info(
            "%s %s call %s round %s: %s in %.1f ms",
            self._server,
            self._method,
            this.call or "unknown",
            this.number or "unknown",
            outcome,
            milliseconds,
            extra={
                "option": self._server,
                "method": self._method,
                "call": this.call,
                "round": this.number or None,
                "outcome": outcome,
                "duration_ms": round(milliseconds, 3),
            },
        )


def with_name(payload: bytes, this: Request) -> bytes:
    """Put the name of a request's call in front of what a codec is to protect."""
    return b"call:%b.%d:%b" % ((this.call or "").encode(), this.number, payload)


def take_name(payload: bytes, this: Request) -> bytes:
    """Remove the call's name from an unprotected payload, and set it on the request."""
    match, rest = _parted(payload)
    if match is not None:
        this.call = match["call"].decode()
        this.number = int(match["number"]) + 1
    return rest


def without_name(payload: bytes) -> bytes:
    """Return a payload without the call's name."""
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


def _outcome(result: HandlerResult | None) -> str:
    if is_input_required(result):
        return "input_required"
    match result:
        case {"resultType": "task"}:
            return "task"
        case CallToolResult(is_error=True) | {"isError": True}:
            return "tool_error"
        case _:
            return "complete"


def _failure(error: BaseException) -> str:
    match error:
        case Crashed():
            return "crashed"
        case MCPError():
            return str(error.code)
        case ValidationError():
            return str(INVALID_PARAMS)
        case Exception():  # which code the client is told differs between the eras
            return "crashed"
        case _:
            return "cancelled"
