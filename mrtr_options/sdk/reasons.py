"""The reasons why a server refuses a request, for programs: `reason` in a JSON-RPC error's data.

One word for one thing, whichever stand-in says it. A client decides by the word and by what stands
beside it in the data (`data_of`); the text of the error is for people and models.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import mcp_types as types


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a refusal says.

    Attributes:
        word: The reason, for programs.
        known: What is known of the call.
        then: What to do.
        may_have_happened: Whether an effect of the call may have happened, now or before.
        retry_after: The seconds after which the same request may be sent again; None: not at all.
        code: The code of JSON-RPC.
    """

    word: str
    known: str
    then: str
    may_have_happened: bool = True
    retry_after: float | None = None
    code: int = types.INVALID_PARAMS


_LOOK = "Its effects may have happened. Look before you call the tool again."


class Reason(StrEnum):
    """The reasons of all stand-ins, each with its meaning."""

    meaning: Meaning

    def __new__(cls, meaning: Meaning) -> Reason:
        """Make a reason that equals its word."""
        reason = str.__new__(cls, meaning.word)
        reason._value_ = meaning.word
        reason.meaning = meaning
        return reason

    INVALID_STATE = Meaning(
        "invalid_request_state",
        "The state is not of this server, caller, tool and arguments.",
        "Call again: a named call goes on.",
    )
    STATE_EXPIRED = Meaning(
        "request_state_expired",
        "The state is the caller's own, and too old; or the clocks of two instances differ.",
        "Call again: a named call goes on.",
    )
    INVALID_ANSWER = Meaning(
        "invalid_answer",
        "The answer does not fit its question, and nothing was done.",
        "Answer the same question again.",
        may_have_happened=False,
        retry_after=0,
    )
    ANSWERED_DIFFERENTLY = Meaning(
        "answered_differently",
        "This question has been answered differently before, and the first answer counts.",
        "Send that answer again to get what became of it.",
    )
    STILL_AT_WORK = Meaning(
        "still_at_work",
        "This round started and may still be at work.",
        "Send the same request again later.",
        retry_after=5,
        code=types.REQUEST_TIMEOUT,
    )
    INDETERMINATE = Meaning(
        "indeterminate",
        "Nobody knows whether this was done.",
        "Look where it would be done, or ask the user, before you call the tool for it under "
        "another name.",
        code=types.INTERNAL_ERROR,
    )
    NOTHING_DONE = Meaning(
        "nothing_done",
        "This request failed, and none of the effects that its tool records was done.",
        "It may be sent again.",
        may_have_happened=False,
        retry_after=0,
        code=types.INTERNAL_ERROR,
    )
    RESULT_TOO_LONG = Meaning(
        "result_too_long",
        "This round has ended, and its response was sent once; it is too long to be repeated.",
        "Look where it was done. Do not call again for it.",
        code=types.INTERNAL_ERROR,
    )
    STORE_UNUSABLE = Meaning(
        "store_unusable",
        "This server cannot record calls now, and has not begun this request.",
        "Send the same request again later.",
        retry_after=5,
        code=types.INTERNAL_ERROR,
    )
    STORE_FULL = Meaning(
        "store_full",
        "This server remembers as many calls as it may, of all callers or of this one, and has "
        "not begun this request.",
        "Send the same request again later, or tell who runs the server.",
        may_have_happened=False,
        retry_after=60,
        code=types.INTERNAL_ERROR,
    )
    TOO_LONG = Meaning(
        "too_long",
        "An answer, a state or the call is too long.",
        "Send shorter answers, or ask the user. What was done before stays done.",
    )
    BAD_CALL_KEY = Meaning(
        "bad_call_key",
        "The call key is not a UUID of version 7 in lower case, and nothing was done.",
        "Make a new key.",
        may_have_happened=False,
    )
    CALL_KEY_EXPIRED = Meaning(
        "call_key_expired",
        "This call key is too old, or the clock that it was made by is wrong. This request did "
        "nothing; an earlier one with the key may have.",
        "Look, or ask the user, before you make a new key.",
    )
    CALL_REUSED = Meaning(
        "call_reused",
        "The call's name was used with other arguments before. Nothing was done now.",
        "To get the result of that call, call again with its arguments. Take another name only if "
        "the user wants it done once more.",
    )
    CALLER_UNKNOWN = Meaning(
        "caller_unknown",
        "Each caller of this tool has names of their own for calls, and this server does not know "
        "who calls. Nothing was done.",
        "Say who calls, as this server asks for it, or send a call key.",
        may_have_happened=False,
        code=types.INVALID_REQUEST,
    )
    NOT_OF_THIS_VERSION = Meaning(
        "not_of_this_version",
        "A request with a state or answers came under an old version of the protocol, and nothing "
        "was done.",
        "Use version 2026-07-28 or later.",
        may_have_happened=False,
    )
    NOT_UNICODE = Meaning(
        "not_unicode",
        "A text of the request is cut within a character (it has half of a surrogate pair), and "
        "nothing was done.",
        "Send another text.",
        may_have_happened=False,
    )
    NUMBER_OUT_OF_RANGE = Meaning(
        "number_out_of_range",
        "A number of the request is not finite, and nothing was done.",
        "Send another number.",
        may_have_happened=False,
    )
    STATE_NOT_PROTECTED = Meaning(
        "state_not_protected",
        "This server does not protect the state of its calls.",
        "Tell its author.",
        code=types.INTERNAL_ERROR,
    )
    LEDGER_UNUSABLE = Meaning(
        "ledger_unusable",
        "This server cannot do effects now, so the call ends here.",
        _LOOK,
        code=types.INTERNAL_ERROR,
    )
    UNKNOWN_CALL = Meaning(
        "unknown_call",
        "This call is not waiting for an answer: it was given up after too long a pause, was "
        "cancelled, or is kept elsewhere.",
        _LOOK,
    )
    UNKNOWN_CONTINUATION = Meaning(
        "unknown_continuation",
        "This call is not waiting on this server: it ended, was given up after too long a pause, "
        "or lives on another instance.",
        _LOOK,
    )
    UNKNOWN_TASK = Meaning(
        "unknown_task",
        "This task is not known here, or not any more.",
        _LOOK,
    )
    GAVE_UP = Meaning(
        "gave_up",
        "This call was given up: the servers that worked at it ended in the middle, several "
        "times, or its tool did something else when it began again.",
        _LOOK,
    )
    STOPPED = Meaning(
        "stopped",
        "The user stopped the call while it worked.",
        _LOOK,
        code=types.INVALID_REQUEST,
    )
    NAME_LOST = Meaning(
        "name_lost",
        "Another process took the name of this one and goes on with its calls.",
        "Send the same request again later.",
        retry_after=5,
    )
    OTHER_VERSION = Meaning(
        "other_version",
        "No server is left of the version of the tool with which the call began.",
        _LOOK,
    )
    CALL_ENDED = Meaning(
        "call_ended",
        "The server ended the call without a result.",
        _LOOK,
        code=types.INTERNAL_ERROR,
    )
    STORE_NOT_ENTERED = Meaning(
        "store_not_entered",
        "This server's author must open its store while it serves (`async with store`, or "
        "resources=[store]), and nothing was done.",
        "Tell its author.",
        may_have_happened=False,
        code=types.INTERNAL_ERROR,
    )
    TOO_MANY_CONTINUATIONS = Meaning(
        "too_many_continuations",
        "The server holds no more calls now, and has not begun this one.",
        "Send the same request again later.",
        may_have_happened=False,
        retry_after=60,
        code=types.INTERNAL_ERROR,
    )


def data_of(reason: Reason, **more: object) -> dict[str, Any]:
    """Return the data of a refusal.

    It has `reason`, `may_have_happened`, and `retry_after` where the same request may be sent
    again. An error that is handed out again has `repeat`, too, with the time of the first.
    """
    meaning = reason.meaning
    data: dict[str, Any] = {"reason": reason, "may_have_happened": meaning.may_have_happened}
    if meaning.retry_after is not None:
        data["retry_after"] = meaning.retry_after
    return {**data, **more}
