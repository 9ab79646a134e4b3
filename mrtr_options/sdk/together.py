"""Asking several questions in one round, and progress, for handlers that await their answers.

Knows `questions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from pydantic import BaseModel

from mrtr_options.sdk.capabilities import Kinds
from mrtr_options.sdk.questions import AnswerT, Inquiry, Question, assume_answer, kind_of

A = TypeVar("A", bound=BaseModel)
B = TypeVar("B", bound=BaseModel)
C = TypeVar("C", bound=BaseModel)


class AsksTogether(ABC):
    """The methods that all contexts of linear handlers have: `elicit_all`, `report_progress`."""

    __slots__ = ()

    async def report_progress(  # noqa: B027 - it does nothing but in J
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Take how far a call is, and tell nobody: a call of H, K or L outlives its requests.

        A task of K has `status`. In J the client is told; see `ReplayContext.report_progress`.
        """

    @overload
    async def elicit_all(
        self, one: Question[A] | Inquiry[A], two: Question[B] | Inquiry[B], /
    ) -> tuple[A, B]: ...
    @overload
    async def elicit_all(
        self,
        one: Question[A] | Inquiry[A],
        two: Question[B] | Inquiry[B],
        three: Question[C] | Inquiry[C],
        /,
    ) -> tuple[A, B, C]: ...
    @overload
    async def elicit_all(
        self, *questions: Question[AnswerT] | Inquiry[AnswerT]
    ) -> tuple[AnswerT, ...]: ...
    async def elicit_all(self, *questions: Question[Any] | Inquiry[Any]) -> tuple[Any, ...]:
        """Ask several questions in one round. They may be answered one by one and in any order.

        A decline or cancel of one is raised even if others have no answer yet.

        Returns:
            The answers, in the order of the questions.

        Raises:
            What `elicit` raises.
            ValueError: Two of them have one key, and the stand-in cannot tell them apart.
        """
        return await self._answers_to(questions)

    @abstractmethod
    async def _answers_to(
        self, questions: Sequence[Question[Any] | Inquiry[Any]]
    ) -> tuple[Any, ...]:
        """Return their answers, in order; each key is one question's."""


def assumed(
    questions: Sequence[Question[Any] | Inquiry[Any]], askable: Kinds
) -> dict[str, BaseModel]:
    """Return what is assumed for questions of a kind that the client cannot be asked, by key.

    Raises:
        ValueError: Two of the questions have one key.
        CannotAsk: See `without_asking`.
    """
    keys = [question.key for question in questions]
    if len(set(keys)) < len(keys):
        raise ValueError(f"two questions have one key, and each needs its own: {', '.join(keys)}")
    return {
        question.key: assume_answer(question)
        for question in questions
        if kind_of(question) not in askable
    }
