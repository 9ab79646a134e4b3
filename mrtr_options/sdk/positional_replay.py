"""Option M: B's replay, in which a question is known by its position and by nothing else.

The first question that the handler asks has the key "1" on the wire and in the state, the second
"2". What the author calls a question is not looked at. Everything else is B's: `elicit` raises out
of the handler, the answers so far travel in the state, and the next round begins at the first line.
An answer is held against the form of whatever question has its position now. An old client is
pushed the questions, and nothing is counted.

Seen in php-sdk and tmcp, where the author gives no key, and in LangGraph's `interrupt`.

Knows `exception_shim`, `handler`, `capabilities` and `questions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import mcp_types as types

from mrtr_options.sdk import exception_shim
from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.exception_shim import replayed
from mrtr_options.sdk.handler import DeskT, Handler, Params
from mrtr_options.sdk.questions import AnswerT, Question


class ReplayContext(exception_shim.ReplayContext[DeskT]):
    """The handler's context, in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    _asked = 0

    async def elicit(self, question: Question[AnswerT]) -> AnswerT:
        """Ask the user; replays the handler from the top on the modern era.

        Raises:
            Declined, Cancelled, BadAnswer, CannotAsk: See `questions`; they name the position.
        """
        self._asked += 1
        if is_modern(self._ctx):
            question = replace(question, key=str(self._asked))
        return await super().elicit(question)


def positional_replay(
    handler: Callable[[ReplayContext[DeskT], Params], Awaitable[types.CallToolResult]],
) -> Handler:
    """Turn a handler that elicits into one that returns its questions, numbered, by replay."""
    return replayed(ReplayContext, handler)
