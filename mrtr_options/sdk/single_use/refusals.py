"""The errors of the guard, as clients see them. Knows MCP's types and `reasons`."""

from __future__ import annotations

import logging

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.single_use.reservations import Unusable

_logger = logging.getLogger(__name__)


def answered_differently() -> MCPError:
    """Return the refusal of a round that has run with other answers."""
    return MCPError(
        types.INVALID_PARAMS,
        "This round has been answered differently before.",
        {"reason": Reason.ANSWERED_DIFFERENTLY},
    )


def store_full() -> MCPError:
    """Return the refusal of a round for which the store has no room."""
    return MCPError(
        types.INTERNAL_ERROR,
        "This server remembers as many rounds as it may, of all callers or of you. Try again"
        " later.",
        {"reason": Reason.STORE_FULL},
    )


def store_unusable(error: Unusable | str, consequence: str) -> MCPError:
    """Return the refusal of a round that cannot be recorded; the log has why."""
    _logger.error("a round was refused: %s", error)
    return MCPError(
        types.INTERNAL_ERROR,
        f"This server cannot record rounds now, {consequence}. Try again later.",
        {"reason": Reason.STORE_UNUSABLE},
    )


def still_at_work() -> MCPError:
    """Return the error for a round that has begun and not ended."""
    return MCPError(
        types.REQUEST_TIMEOUT,
        "Outcome not known yet: this round started and may still be at work. Send the same request"
        " again later.",
        {"reason": Reason.STILL_AT_WORK},
    )


def nothing_done() -> MCPError:
    """Return the error for a round that failed before it did anything; it is not recorded."""
    return MCPError(
        types.INTERNAL_ERROR,
        "This request failed, and nothing was done for it. It may be sent again.",
        {"reason": Reason.NOTHING_DONE, "may_have_happened": False, "repeat": True},
    )


def indeterminate(*, may_run_again: bool = False) -> MCPError:
    """Return the error for a round that has begun and has no recorded outcome.

    Args:
        may_run_again: Whether the same request may be sent again.
    """
    then = "Send it again later." if may_run_again else "It will not be retried."
    return MCPError(
        types.INTERNAL_ERROR,
        f"Outcome unknown: this round started but no result was recorded. {then}",
        {"reason": Reason.INDETERMINATE},
    )


def result_too_long() -> MCPError:
    """Return the error that replaces a response which was too long to be recorded."""
    return MCPError(
        types.INTERNAL_ERROR,
        "This round has ended, and its response was sent once. It is too long to be repeated.",
        {"reason": Reason.RESULT_TOO_LONG},
    )


def state_too_long() -> MCPError:
    """Return the error for a call whose state is too long for the wire."""
    return MCPError(
        types.INTERNAL_ERROR,
        "The state of this call is too long to travel, so the call ends here. Its effects may have"
        " happened.",
        {"reason": Reason.TOO_LONG},
    )
