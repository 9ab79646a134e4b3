"""Why a server refuses a request, for programs: `reason` in the data of a JSON-RPC error.

One word for one thing, whichever stand-in says it. A client decides by the word; the text of the
error is for people.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The reasons of the single-use guard, and of all that honours a call's name."""

    INVALID_STATE = "invalid_request_state"
    """The state is not this server's, not for this request, or not this caller's."""
    STATE_EXPIRED = "request_state_expired"
    """The state is the caller's own, and too old."""
    INVALID_ANSWER = "invalid_answer"
    """The answer does not fit its question. It may be corrected."""
    ANSWERED_DIFFERENTLY = "answered_differently"
    """This question has been answered before, with something else."""
    STILL_AT_WORK = "still_at_work"
    """The outcome is not known yet. The same request may be sent again later."""
    INDETERMINATE = "indeterminate"
    """The outcome is not known and will not be: effects may have happened."""
    STORE_UNUSABLE = "store_unusable"
    """The server cannot record calls now. The request did nothing and may be sent again later."""
    STORE_FULL = "store_full"
    """The server records no more calls now. The request did nothing and may be sent again later."""
    TOO_LONG = "too_long"
    """An answer or a state is longer than the server takes or hands out."""
    BAD_CALL_KEY = "bad_call_key"
    """The call key is not a UUID of version 7."""
    CALL_KEY_EXPIRED = "call_key_expired"
    """The call key was made longer ago than the server remembers keys."""
    CALL_REUSED = "call_reused"
    """The call's name was used with other arguments before."""
    CALLER_UNKNOWN = "caller_unknown"
    """The call is named for its caller, and nothing says who that is."""
