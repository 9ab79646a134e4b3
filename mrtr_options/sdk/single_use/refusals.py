"""The errors of the guard, as clients see them. Knows MCP's errors and `reasons`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mcp import MCPError

from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.single_use.reservations import Unusable

_logger = logging.getLogger(__name__)


def store_full(caller: str | None) -> MCPError:
    """Return the refusal of a round for which the store has no room; the log has what to change."""
    _logger.error(
        "a round of the caller %r was refused: the store is full; raise max_rounds, or"
        " max_rounds_per_caller where many users are one caller",
        caller,
    )
    return refusal(Reason.STORE_FULL)


def store_unusable(error: Unusable | str, consequence: str) -> MCPError:
    """Return the refusal of a round that cannot be recorded; the log has why."""
    _logger.error("a round was refused: %s", error)
    known = f"This server cannot record rounds now, {consequence}."
    return refusal(Reason.STORE_UNUSABLE, known)


def nothing_done(before: Sequence[str]) -> MCPError:
    """Return the error for a round that failed before it did anything; it is not recorded.

    Args:
        before: The effects of its call in earlier rounds.
    """
    if not before:
        return refusal(Reason.NOTHING_DONE)
    known = ", ".join(map(repr, before))
    return refusal(
        Reason.NOTHING_DONE,
        f"This request failed before it did anything. Its call has done something before, or may"
        f" have: {known}.",
    )
