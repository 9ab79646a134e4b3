"""The errors that a round of a durable call can end in, each with a reason for programs.

Knows MCP's errors, and of `sealing` how long a call may be.
"""

from __future__ import annotations

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.durable.sealing import MAX_BYTES
from mrtr_options.sdk.handler import refusal
from mrtr_options.sdk.reasons import Reason, data_of

_WHY = {
    "unknown_call": "This call is not waiting for an answer: it was given up after too long a"
    " pause, was cancelled, or is kept elsewhere. Its effects may have happened. Look before you"
    " call the tool again.",
    "gave_up": "This call was given up: the servers that worked at it ended in the middle, several "
    "times, or its tool did not do the same when it began again. Its effects may have happened. "
    "Look before you call the tool again.",
    "other_version": "This call began on another version of this tool, and no server of that"
    " version is left to finish it. Its effects may have happened. Look before you call the tool"
    " again.",
    "answered_differently": "The question {question!r} of this call has been answered differently "
    "before.",
    "name_lost": "Another server has taken the name of this one, and goes on with its calls. Send"
    " the same request with the same state there.",
    "unknown_task": "There is no such task.",
    "number_out_of_range": "This request has a number that JSON cannot carry: one that is"
    " not finite. Send another one.",
    "too_long": f"A call is {MAX_BYTES} bytes at most with its answers. Send shorter ones.",
}


def refused(reason: str, **more: str) -> MCPError:
    """Return the refusal of a round: an error with a reason of `_WHY` and its text."""
    data = data_of(Reason(reason), **more)
    return MCPError(types.INVALID_PARAMS, _WHY[reason].format(**more), data)


def still_at_work(seconds: float) -> MCPError:
    return refusal(
        Reason.STILL_AT_WORK,
        f"This call is still at work after {seconds:g} s of waiting, and goes on. Send the same"
        " request with the same state to wait further. A call without a state would begin another"
        " one.",
        code=types.REQUEST_TIMEOUT,
    )


def stopped() -> MCPError:
    """Return the end of a call whose user does not want to wait for it."""
    return refusal(
        Reason.STOPPED,
        "This call was stopped, as its user did not want to wait further. Its effects may have "
        "happened. Look before you call the tool again.",
        code=types.INVALID_REQUEST,
    )


def reason_of(error: MCPError) -> str | None:
    """Return the reason of a refusal, if the error has one."""
    match error.data:
        case {"reason": str(reason)}:
            return reason
        case _:
            return None
