"""Option B: an `await ctx.elicit()` that runs the handler again. A cautionary tale; do not ship it.

On the modern era `elicit` raises out of the handler, the answers so far travel in the state, and
the next round replays the handler from its first line until `elicit` finds its answer recorded. The
source reads like a suspension, but every effect above a question runs once per
round. On the legacy era it pushes, and nothing is replayed, so a test against an old client hides
the fault.

The interrupt is an ordinary exception, as in the implementations that this option stands for: an
author's `except Exception` around a question swallows it.

Knows `handler`, `capabilities`, `keys`, `questions` and `push`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.handler import Context, DeskT, Handler, Params, Result
from mrtr_options.sdk.keys import Uses
from mrtr_options.sdk.push import push
from mrtr_options.sdk.questions import (
    AnswerT,
    Question,
    answer_to,
    are_same,
    ask,
    check_length,
    load_state,
    read_answer,
)


class Answers(BaseModel):
    """The state: every accepted answer so far, by its question's key."""

    accepted: dict[str, dict[str, Any]] = {}


class _Interrupt(Exception):
    def __init__(self, result: types.InputRequiredResult) -> None:
        self.result = result


class ReplayContext(Generic[DeskT]):
    """The handler's context, in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(self, ctx: Context, params: Params) -> None:
        self.lifespan_context = ctx.lifespan_context
        self._ctx = ctx
        self._params = params
        self._state = load_state(params, Answers)
        self._uses = Uses()

    async def elicit(self, question: Question[AnswerT]) -> AnswerT:
        """Ask the user; replays the handler from the top on the modern era.

        Raises:
            Declined, Cancelled, BadAnswer, CannotAsk: See `questions`.
            KeyUsedTwice: A ValueError; another question has the key in this round.
        """
        if not is_modern(self._ctx):
            return await push(self._ctx, question)
        self._uses.take("question", question.key, question, are_same)
        recorded = self._state.accepted.get(question.key)
        if recorded is not None:
            return read_answer(question, types.ElicitResult(action="accept", content=recorded))
        answer = answer_to(question, self._ctx, self._params)
        if answer is None:
            raise _Interrupt(ask(question, self._state))
        said = (self._params.input_responses or {}).get(question.key)
        if isinstance(said, types.ElicitResult):  # recorded as it came, under the form's names
            self._state.accepted[question.key] = dict(said.content or {})
            check_length(question.key, said, self._state)
        return answer


ContextT = TypeVar("ContextT", bound=ReplayContext[Any])


def replayed(
    context: Callable[[Context, Params], ContextT],
    handler: Callable[[ContextT, Params], Awaitable[types.CallToolResult]],
) -> Handler:
    """Make a handler that returns the questions which another one asks in such a context."""

    async def handle(ctx: Context, params: Params) -> Result:
        try:
            return await handler(context(ctx, params), params)
        except _Interrupt as interrupt:
            return interrupt.result

    return handle


def exception_shim(
    handler: Callable[[ReplayContext[DeskT], Params], Awaitable[types.CallToolResult]],
) -> Handler:
    """Turn a handler that elicits into one that returns its questions, by replay."""
    return replayed(ReplayContext, handler)
