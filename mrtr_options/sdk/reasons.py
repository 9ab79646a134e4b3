"""The reasons why a server refuses a request, for programs: `reason` in a JSON-RPC error's data.

One word for one thing, whichever stand-in says it. A client decides by the word and by what stands
beside it in the data (`data_of`); the text of the error is for people and models.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import mcp_types as types


class Reason(StrEnum):
    """The reasons of all stand-ins; `MEANINGS` says what is known then, and what to do."""

    INVALID_STATE = "invalid_request_state"
    STATE_EXPIRED = "request_state_expired"
    INVALID_ANSWER = "invalid_answer"
    ANSWERED_DIFFERENTLY = "answered_differently"
    STILL_AT_WORK = "still_at_work"
    INDETERMINATE = "indeterminate"
    NOTHING_DONE = "nothing_done"
    RESULT_TOO_LONG = "result_too_long"
    STORE_UNUSABLE = "store_unusable"
    STORE_FULL = "store_full"
    TOO_LONG = "too_long"
    BAD_CALL_KEY = "bad_call_key"
    CALL_KEY_EXPIRED = "call_key_expired"
    CALL_REUSED = "call_reused"
    CALLER_UNKNOWN = "caller_unknown"
    NOT_OF_THIS_VERSION = "not_of_this_version"
    NOT_UNICODE = "not_unicode"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    STATE_NOT_PROTECTED = "state_not_protected"
    LEDGER_UNUSABLE = "ledger_unusable"
    UNKNOWN_CALL = "unknown_call"
    UNKNOWN_CONTINUATION = "unknown_continuation"
    UNKNOWN_TASK = "unknown_task"
    GAVE_UP = "gave_up"
    STOPPED = "stopped"
    NAME_LOST = "name_lost"
    OTHER_VERSION = "other_version"
    CALL_ENDED = "call_ended"
    STORE_NOT_ENTERED = "store_not_entered"
    TOO_MANY_CONTINUATIONS = "too_many_continuations"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a refusal says.

    Attributes:
        known: What is known of the call.
        then: What to do.
        may_have_happened: Whether an effect of the call may have happened, now or before.
        retry_after: The seconds after which the same request may be sent again; None: not at all.
        code: The code of JSON-RPC.
    """

    known: str
    then: str
    may_have_happened: bool
    retry_after: float | None = None
    code: int = types.INVALID_PARAMS


_LOOK = "Its effects may have happened. Look before you call the tool again."

MEANINGS = {
    Reason.INVALID_STATE: Meaning(
        "The state is not of this server, caller, tool and arguments.",
        "Call again: a named call goes on.",
        may_have_happened=True,
    ),
    Reason.STATE_EXPIRED: Meaning(
        "The state is the caller's own, and too old; or the clocks of two instances differ.",
        "Call again: a named call goes on.",
        may_have_happened=True,
    ),
    Reason.INVALID_ANSWER: Meaning(
        "The answer does not fit its question, and nothing was done.",
        "Answer the same question again.",
        may_have_happened=False,
        retry_after=0,
    ),
    Reason.ANSWERED_DIFFERENTLY: Meaning(
        "This question has been answered differently before, and the first answer counts.",
        "Send that answer again to get what became of it.",
        may_have_happened=True,
    ),
    Reason.STILL_AT_WORK: Meaning(
        "This round started and may still be at work.",
        "Send the same request again later.",
        may_have_happened=True,
        retry_after=5,
        code=types.REQUEST_TIMEOUT,
    ),
    Reason.INDETERMINATE: Meaning(
        "Nobody knows whether this was done.",
        "Look where it would be done, or ask the user, before you call the tool for it under "
        "another name.",
        may_have_happened=True,
        code=types.INTERNAL_ERROR,
    ),
    Reason.NOTHING_DONE: Meaning(
        "This request failed, and none of the effects that its tool records was done.",
        "It may be sent again.",
        may_have_happened=False,
        retry_after=0,
        code=types.INTERNAL_ERROR,
    ),
    Reason.RESULT_TOO_LONG: Meaning(
        "This round has ended, and its response was sent once; it is too long to be repeated.",
        "Look where it was done. Do not call again for it.",
        may_have_happened=True,
        code=types.INTERNAL_ERROR,
    ),
    Reason.STORE_UNUSABLE: Meaning(
        "This server cannot record calls now, and has not begun this request.",
        "Send the same request again later.",
        may_have_happened=False,
        retry_after=5,
        code=types.INTERNAL_ERROR,
    ),
    Reason.STORE_FULL: Meaning(
        "This server remembers as many calls as it may, of all callers or of this one, and has not "
        "begun this request.",
        "Send the same request again later, or tell who runs the server.",
        may_have_happened=False,
        retry_after=60,
        code=types.INTERNAL_ERROR,
    ),
    Reason.TOO_LONG: Meaning(
        "An answer, a state or the call is too long.",
        "Send shorter answers, or ask the user. What was done before stays done.",
        may_have_happened=True,
    ),
    Reason.BAD_CALL_KEY: Meaning(
        "The call key is not a UUID of version 7 in lower case, and nothing was done.",
        "Make a new key.",
        may_have_happened=False,
    ),
    Reason.CALL_KEY_EXPIRED: Meaning(
        "This call key is too old, or the clock that it was made by is wrong. This request did "
        "nothing; an earlier one with the key may have.",
        "Look, or ask the user, before you make a new key.",
        may_have_happened=True,
    ),
    Reason.CALL_REUSED: Meaning(
        "The call's name was used with other arguments before. Nothing was done now.",
        "To get the result of that call, call again with its arguments. Take another name only if "
        "the user wants it done once more.",
        may_have_happened=True,
    ),
    Reason.CALLER_UNKNOWN: Meaning(
        "Each caller of this tool has names of their own for calls, and this server does not know "
        "who calls. Nothing was done.",
        "Say who calls, as this server asks for it, or send a call key.",
        may_have_happened=False,
        code=types.INVALID_REQUEST,
    ),
    Reason.NOT_OF_THIS_VERSION: Meaning(
        "A request with a state or answers came under an old version of the protocol, and nothing "
        "was done.",
        "Use version 2026-07-28 or later.",
        may_have_happened=False,
    ),
    Reason.NOT_UNICODE: Meaning(
        "A text of the request is cut within a character (it has half of a surrogate pair), and "
        "nothing was done.",
        "Send another text.",
        may_have_happened=False,
    ),
    Reason.NUMBER_OUT_OF_RANGE: Meaning(
        "A number of the request is not finite, and nothing was done.",
        "Send another number.",
        may_have_happened=False,
    ),
    Reason.STATE_NOT_PROTECTED: Meaning(
        "This server does not protect the state of its calls.",
        "Tell its author.",
        may_have_happened=True,
        code=types.INTERNAL_ERROR,
    ),
    Reason.LEDGER_UNUSABLE: Meaning(
        "This server cannot do effects now, so the call ends here.",
        _LOOK,
        may_have_happened=True,
        code=types.INTERNAL_ERROR,
    ),
    Reason.UNKNOWN_CALL: Meaning(
        "This call is not waiting for an answer: it was given up after too long a pause, was "
        "cancelled, or is kept elsewhere.",
        _LOOK,
        may_have_happened=True,
    ),
    Reason.UNKNOWN_CONTINUATION: Meaning(
        "This call is not waiting on this server: it ended, was given up after too long a pause, "
        "or lives on another instance.",
        _LOOK,
        may_have_happened=True,
    ),
    Reason.UNKNOWN_TASK: Meaning(
        "This task is not known here, or not any more.",
        _LOOK,
        may_have_happened=True,
    ),
    Reason.GAVE_UP: Meaning(
        "This call was given up: the servers that worked at it ended in the middle, several times, "
        "or its tool did something else when it began again.",
        _LOOK,
        may_have_happened=True,
    ),
    Reason.STOPPED: Meaning(
        "The user stopped the call while it worked.",
        _LOOK,
        may_have_happened=True,
        code=types.INVALID_REQUEST,
    ),
    Reason.NAME_LOST: Meaning(
        "Another process took the name of this one and goes on with its calls.",
        "Send the same request again later.",
        may_have_happened=True,
        retry_after=5,
    ),
    Reason.OTHER_VERSION: Meaning(
        "No server is left of the version of the tool with which the call began.",
        _LOOK,
        may_have_happened=True,
    ),
    Reason.CALL_ENDED: Meaning(
        "The server ended the call without a result.",
        _LOOK,
        may_have_happened=True,
        code=types.INTERNAL_ERROR,
    ),
    Reason.STORE_NOT_ENTERED: Meaning(
        "This server's author must open its store while it serves (`async with store`, or "
        "resources=[store]), and nothing was done.",
        "Tell its author.",
        may_have_happened=False,
        code=types.INTERNAL_ERROR,
    ),
    Reason.TOO_MANY_CONTINUATIONS: Meaning(
        "The server holds no more calls now, and has not begun this one.",
        "Send the same request again later.",
        may_have_happened=False,
        retry_after=60,
        code=types.INTERNAL_ERROR,
    ),
}
"""The meaning of each reason."""


def data_of(reason: Reason, **more: object) -> dict[str, Any]:
    """Return the data of a refusal.

    It has `reason`, `may_have_happened`, and `retry_after` where the same request may be sent
    again. An error that is handed out again has `repeat`, too, with the time of the first.
    """
    meaning = MEANINGS[reason]
    data: dict[str, Any] = {"reason": reason, "may_have_happened": meaning.may_have_happened}
    if meaning.retry_after is not None:
        data["retry_after"] = meaning.retry_after
    return {**data, **more}
