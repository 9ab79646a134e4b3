"""The methods that the contexts of all handlers share that await their answers (H, J, K, L).

Knows `effects`, `questions` and `waiting`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar, overload

import mcp_types as types
from pydantic import BaseModel

from mrtr_options.checks import check_numbers
from mrtr_options.sdk.capabilities import Kinds
from mrtr_options.sdk.effects import at_destination
from mrtr_options.sdk.handler import Action, T
from mrtr_options.sdk.questions import AnswerT, AnyQuestion, Inquiry, assume_answer, kind_of
from mrtr_options.sdk.waiting import POLL_SECONDS, NotInTime

A = TypeVar("A", bound=BaseModel)
B = TypeVar("B", bound=BaseModel)
C = TypeVar("C", bound=BaseModel)


class AsksTogether(ABC):
    """The methods that all contexts of linear handlers have."""

    __slots__ = ()

    async def report_progress(  # noqa: B027 - it does nothing but in J
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Take how far a call is, and tell nobody: a call of H, K or L outlives its requests.

        A task of K has `status`. In J the client is told; see `ReplayContext.report_progress`.
        """

    async def elicit(self, question: AnyQuestion[AnswerT]) -> AnswerT:
        """Ask the user, or the client.

        Where the client cannot be asked, what the question assumes takes the answer's place. H, K
        and L wait here for as long as it takes. J ends the round unless the answer is recorded.

        Raises:
            Declined, Cancelled, CannotAsk: See there.
            RoundOver: In J. The question goes out. An answer that does not fit ends the round as
                well, with -32602 for the client. It is not an `Exception`; let it pass.
            CallAbandoned: In H, K and L. There was no answer in time, or the call was given up. It
                is not an `Exception`; let it pass.
            RuntimeError: An effect asks (J), or a step (K, L). In H, K and L: another task of this
                handler waits for an answer, or the call has ended.
        """
        (answer,) = await self._answers_to((question,))
        return answer

    @overload
    async def elicit_all(self, one: AnyQuestion[A], two: AnyQuestion[B], /) -> tuple[A, B]: ...
    @overload
    async def elicit_all(
        self, one: AnyQuestion[A], two: AnyQuestion[B], three: AnyQuestion[C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def elicit_all(self, *questions: AnyQuestion[AnswerT]) -> tuple[AnswerT, ...]: ...
    async def elicit_all(self, *questions: AnyQuestion[Any]) -> tuple[Any, ...]:
        """Ask several questions in one round. They may be answered one by one and in any order.

        A decline or cancel of one is raised even if others have no answer yet.

        Returns:
            The answers, in the order of the questions.

        Raises:
            What `elicit` raises.
            ValueError: Two of them have one key, and the stand-in cannot tell them apart.
        """
        return await self._answers_to(questions)

    async def until(
        self,
        key: str,
        check: Action[T | None],
        *,
        seconds: float,
        link: Inquiry[types.ElicitResult] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> T:
        """Wait for something that is done elsewhere.

        The link is shown once. The time counts from the user's consent to it. K and L wait on any
        process that runs the call, across restarts; H for as long as its process lives. The round
        is held meanwhile; a client that gives up sends it once more, and waits further. A round of
        J waits for `ROUND_WAIT_SECONDS`, and then asks the user whether to go on.

        Args:
            key: The author's name for it, as a step's.
            check: Looks whether it is there; async or not. What it returns is recorded as JSON. It
                is called any number of times, so it does nothing else.
            seconds: How long to wait.
            link: Where the user does it, from `sdk.link(...)`.
            poll_seconds: How often to look.

        Raises:
            NotInTime: It did not come in time, or the user does not go on.
            Declined, Cancelled, CannotAsk: The user does not open the link.
        """
        check_numbers("until", seconds, poll_seconds)
        if link is not None:
            await self.elicit(link)
        look = partial(at_destination, check)
        found = await self._look_until(key, look, seconds, poll_seconds)
        if found is None:
            raise NotInTime(key, seconds)
        return found

    @abstractmethod
    async def _answers_to(self, questions: Sequence[AnyQuestion[Any]]) -> tuple[Any, ...]:
        """Return their answers, in order; each key is one question's."""

    @abstractmethod
    async def _look_until(
        self, key: str, check: Action[T | None], seconds: float, poll_seconds: float
    ) -> T | None:
        """Return what the author's function finds; None if nothing came in time."""


def assumed(questions: Sequence[AnyQuestion[Any]], askable: Kinds) -> dict[str, BaseModel]:
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
