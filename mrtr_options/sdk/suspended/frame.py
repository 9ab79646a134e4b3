"""A parked call of option H: its frame, and the context through which its handler asks.

Knows `detached`, `effects`, `keys` and `questions`; nothing of the rounds that wake it.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, cast

import anyio
import anyio.lowlevel
import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk.capabilities import Kinds
from mrtr_options.sdk.effects import CallEffects, Settled, Standing, effects_here, value_of
from mrtr_options.sdk.handler import Action, CallAbandoned, DeskT, T
from mrtr_options.sdk.keys import Uses
from mrtr_options.sdk.questions import (
    AnswerT,
    AnyQuestion,
    assume_answer,
    kind_of,
    read_answer,
)
from mrtr_options.sdk.suspended.detached import Parking, Task, parking, stop
from mrtr_options.sdk.together import AsksTogether, assumed
from mrtr_options.sdk.waiting import poll

Asked = tuple[AnyQuestion[BaseModel], ...]
"""The questions that a handler asks at once."""


@dataclass(slots=True, eq=False)
class Frame:
    """One call: what it asked, a digest of what it was told, and where it waits.

    Its owner is the caller; None for everybody who is not authenticated. Its bytes are those of its
    arguments, questions and answers, as JSON; `counted` says of how many of the questions. Its end
    is the handler's result or exception.
    """

    name: str
    askable: Kinds
    owner: str | None
    bytes: int = 0
    counted: int = 0
    effects: CallEffects = field(default_factory=CallEffects)
    uses: Uses = field(default_factory=Uses)
    asked: list[Asked] = field(default_factory=list[Asked])
    end: types.Result | BaseException | None = None
    answers: dict[int, dict[str, builtins.bytes]] | None = None
    parked: Parking | None = None
    waiters: list[Parking] | None = None
    task: Task | None = None
    abandoned: bool = False
    expires: float = 0.0

    def has_output(self, number: int) -> bool:
        """Return whether the handler has asked more often than this, or has ended."""
        return self.end is not None or number < len(self.asked)

    def wake_waiters(self) -> None:
        for waiter in self.waiters or ():
            waiter.wake(None)

    def tell_effects(self) -> None:
        """Tell the wrappers of this request which effects its author did by `once`.

        None of them can be tried again: the handler does not begin again.
        """
        here = effects_here()
        here.is_told |= self.effects.is_told
        here.now |= {key: Standing(each.word) for key, each in self.effects.now.items()}

    def park(self, questions: Asked) -> Frame:
        """Ask. Where the answers come is there to be waited at while this is entered."""
        if self.abandoned:  # in the turn in which it was woken, perhaps with one answer of several
            raise CallAbandoned
        if self.end is not None:
            raise RuntimeError(f"cannot ask {questions[0].key!r}: this call has ended")
        if self.parked is not None:
            raise RuntimeError(
                f"cannot ask {questions[0].key!r}: this call is waiting for another answer; "
                "ask them together with elicit_all"
            )
        self.parked = parking()
        self.asked.append(questions)
        self.wake_waiters()
        return self

    def __enter__(self) -> Parking:
        assert self.parked is not None
        return self.parked

    def __exit__(self, *_: object) -> None:
        self.parked = None

    def abandon(self) -> None:
        self.abandoned = True
        if self.parked is not None:
            # Not with the exception: it would lie where its own traceback leads, garbage in a
            # cycle.
            self.parked.wake(None)
        else:
            self.cancel()

    def cancel(self) -> None:
        if self.task is not None:
            stop(self.task)


async def _check_going_on(frame: Frame) -> None:
    """Raise `CallAbandoned` if the call is given up."""
    await anyio.lowlevel.checkpoint()  # a loop that asks again holds up no other call
    if frame.abandoned:
        raise CallAbandoned


def _unless_abandoned(responses: types.InputResponses | None) -> types.InputResponses:
    if responses is None:
        raise CallAbandoned
    return responses


class LinearContext(AsksTogether, Generic[DeskT]):
    """The handler's context, in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    __slots__ = ("_frame", "lifespan_context")

    def __init__(self, lifespan_context: DeskT, frame: Frame) -> None:
        self.lifespan_context = lifespan_context
        self._frame = frame

    @property
    def caller(self) -> str | None:
        """The name of the caller, by the settings of the server; None for an unknown one."""
        return self._frame.owner

    async def elicit(self, question: AnyQuestion[AnswerT]) -> AnswerT:
        frame = self._frame
        if frame.abandoned or kind_of(question) not in frame.askable:
            await _check_going_on(frame)
            return assume_answer(question)
        # Not by way of `elicit_all`: every parked call would hold one more coroutine.
        with frame.park((question,)) as parked:
            responses = _unless_abandoned(await parked)
        return read_answer(question, responses[question.key])

    async def once(
        self,
        key: str,
        effect: Action[T],
        *,
        settled: Settled | None = None,
    ) -> T:
        """Run an effect and tell the guard of it: a call that has done something keeps its name.

        A key is one effect's: a second use of it in one call is an error. An effect that raised may
        be tried again.

        Args:
            key: The effect's name.
            effect: Does the effect; async or not.
            settled: Asks the destination whether it has happened, after it raised.

        Raises:
            KeyUsedTwice: An effect of this key is under way, or is done.
        """
        effects = self._frame.effects
        with self._frame.uses.taken("effect", key):
            value = await effects.run(key, effect, settled)
        effects.fresh.discard(key)  # done, so it is not done again
        return cast("T", value_of(effect, value))

    async def _look_until(
        self, key: str, check: Action[T | None], seconds: float, poll_seconds: float
    ) -> T | None:
        ends_at = anyio.current_time() + seconds
        return await poll(
            check, left=lambda: ends_at - anyio.current_time(), poll_seconds=poll_seconds
        )

    async def _answers_to(self, questions: Sequence[AnyQuestion[Any]]) -> tuple[Any, ...]:
        frame = self._frame
        answers = assumed(questions, frame.askable)
        if frame.abandoned or len(answers) == len(questions):
            await _check_going_on(frame)
        while still_open := tuple(each for each in questions if each.key not in answers):
            with frame.park(still_open) as parked:
                responses = _unless_abandoned(await parked)
            for question in still_open:
                if question.key in responses:
                    answers[question.key] = read_answer(question, responses[question.key])
            # The next answer may be long in coming: only what was read is kept.
            del parked, responses
        return tuple(answers[question.key] for question in questions)
