"""The ends of a call without a result. Knows `open_calls`."""

from __future__ import annotations

from mcp import MCPError

from mrtr_options.sdk.resuming.open_calls import KeptCall


class Unanswered(Exception):
    """A call that has not ended: a round got no response, or the server has forgotten the call.

    The text is one line.

    Attributes:
        call: How the call stands. `resume` goes on with it.
    """

    def __init__(self, text: str, call: KeptCall) -> None:
        super().__init__(text)
        self.call = call


class TooManyRounds(Unanswered):
    """The server has asked, or has put off its result, too often; it may still be at work."""


class StateRefused(MCPError):
    """The server takes the state of the call no more. The code and the data are the server's.

    Attributes:
        call: How the call stood.
        is_over: Whether no server will ever take the state, since it is too old. The call is kept
            no longer. Otherwise it is kept, marked as refused: another instance may have the key.
    """

    def __init__(self, refusal: MCPError, call: KeptCall, *, is_over: bool) -> None:
        told = refusal.error
        super().__init__(
            told.code,
            f"{told.message}: the call of {call.tool!r} cannot go on, and its effects so far may"
            " have happened",
            told.data,
        )
        self.call = call
        self.is_over = is_over
