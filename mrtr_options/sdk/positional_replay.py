"""Option M: B's replay, in which a question is known by its position and by nothing else.

The first question that the handler asks has the key "1" on the wire and in the state, the second "2".
What the author calls a question is not looked at. Everything else is B's: `elicit` raises out of the
handler, the answers so far travel in the state, and the next round begins at the first line. An answer
is held against the form of whatever question has its position now. An old client is pushed the
questions, and nothing is counted.

Seen in php-sdk and tmcp, where the author gives no key, and in LangGraph's `interrupt`.

Knows `exception_shim` and `questions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import mcp_types as types
from mcp.server import ServerRequestContext

from mrtr_options.sdk.exception_shim import ReplayContext as KeyedContext
from mrtr_options.sdk.exception_shim import exception_shim
from mrtr_options.sdk.questions import AnswerT, Question, is_modern

DeskT = TypeVar("DeskT")


class ReplayContext(Generic[DeskT]):
    """What the handler gets in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(self, replay: KeyedContext[DeskT], numbers: bool) -> None:
        self.lifespan_context = replay.lifespan_context
        self._replay = replay
        self._numbers = numbers
        self._asked = 0

    async def elicit(self, question: Question[AnswerT]) -> AnswerT:
        """Ask the user; replays the handler from the top on the modern era.

        Raises:
            Declined, Cancelled, BadAnswer, CannotAsk: See `questions`; they name the position.
        """
        self._asked += 1
        if self._numbers:
            question = replace(question, key=str(self._asked))
        return await self._replay.elicit(question)


def positional_replay(
    handler: Callable[
        [ReplayContext[DeskT], types.CallToolRequestParams], Awaitable[types.CallToolResult]
    ],
) -> Callable[
    [ServerRequestContext[DeskT, Any], types.CallToolRequestParams],
    Awaitable[types.CallToolResult | types.InputRequiredResult],
]:
    """Turn a handler that elicits into one that returns its questions, numbered, by replay."""

    async def numbered(
        ctx: ServerRequestContext[DeskT, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        async def counting(
            replay: KeyedContext[DeskT], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            return await handler(ReplayContext(replay, is_modern(ctx)), params)

        return await exception_shim(counting)(ctx, params)

    return numbered
