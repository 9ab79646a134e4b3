"""The errors of the guard, as clients see them. Knows MCP's types, `handler` and `reasons`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.effects import in_doubt
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.single_use.reservations import Unusable

_logger = logging.getLogger(__name__)


def answered_differently() -> MCPError:
    """Return the refusal of a round that has run with other answers."""
    return refusal(Reason.ANSWERED_DIFFERENTLY)


def store_full(caller: str | None) -> MCPError:
    """Return the refusal of a round for which the store has no room; the log has what to change."""
    _logger.error(
        "a round of the caller %r was refused: the store is full; raise max_rounds, or"
        " max_rounds_per_caller where many users are one caller",
        caller,
    )
    return refusal(Reason.STORE_FULL, code=types.INTERNAL_ERROR)


def store_unusable(error: Unusable | str, consequence: str) -> MCPError:
    """Return the refusal of a round that cannot be recorded; the log has why."""
    _logger.error("a round was refused: %s", error)
    return refusal(
        Reason.STORE_UNUSABLE,
        f"This server cannot record rounds now, {consequence}. Send the same request again later.",
        code=types.INTERNAL_ERROR,
    )


def still_at_work() -> MCPError:
    """Return the error for a round that has begun and not ended."""
    return refusal(Reason.STILL_AT_WORK, code=types.REQUEST_TIMEOUT)


def nothing_done(before: Sequence[str]) -> MCPError:
    """Return the error for a round that failed before it did anything; it is not recorded.

    Args:
        before: The effects of its call in earlier rounds.
    """
    if not before:
        return refusal(Reason.NOTHING_DONE, code=types.INTERNAL_ERROR)
    known = ", ".join(map(repr, before))
    return refusal(
        Reason.NOTHING_DONE,
        f"This request failed before it did anything. Its call has done something before, or may"
        f" have: {known}. It may be sent again.",
        code=types.INTERNAL_ERROR,
        may_have_happened=True,
    )


def indeterminate(*, may_run_again: bool = False) -> MCPError:
    """Return the error for a round that has begun and has no recorded outcome.

    Args:
        may_run_again: Whether the same request may be sent again.
    """
    return in_doubt(may_run_again=may_run_again)


def result_too_long() -> MCPError:
    """Return the error that replaces a response which was too long to be recorded."""
    return refusal(Reason.RESULT_TOO_LONG, code=types.INTERNAL_ERROR)


def state_too_long() -> MCPError:
    """Return the error for a call whose state is too long for the wire."""
    return refusal(
        Reason.TOO_LONG,
        "The state of this call is too long to travel, so the call ends here. Its effects may have"
        " happened.",
        code=types.INTERNAL_ERROR,
    )
