"""A parked call of option H: its frame, and the context through which its handler asks.

Knows `detached`, `effects` and `questions`; nothing of the rounds that wake it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.lowlevel
import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk.capabilities import Kinds
from mrtr_options.sdk.effects import CallEffects, Settled, Standing, effects_here, value_of
from mrtr_options.sdk.handler import CallAbandoned
from mrtr_options.sdk.questions import (
    AnswerT,
    Inquiry,
    Question,
    assume_answer,
    kind_of,
    read_answer,
)
from mrtr_options.sdk.suspended.detached import Parking, Task, parking, stop
from mrtr_options.sdk.together import AsksTogether, assumed
from mrtr_options.sdk.waiting import POLL_SECONDS, NotInTime, check_seconds, poll

DeskT = TypeVar("DeskT")
T = TypeVar("T")


Asked = tuple[Question[BaseModel] | Inquiry[BaseModel], ...]
Output = Asked | types.Result | BaseException
"""The questions that a handler asks at once, or its end."""


class Frame:
    """One call: what it asked, a digest of what it was told, and where it waits.

    Its owner is the caller; None for everybody who is not authenticated. Its bytes are those of its
    arguments, questions and answers, as JSON; `counted` says of how many of the outputs.
    """

    __slots__ = (
        "abandoned",
        "answers",
        "askable",
        "bytes",
        "counted",
        "effects",
        "expires",
        "name",
        "outputs",
        "owner",
        "parked",
        "task",
        "waiters",
    )

    def __init__(self, name: str, askable: Kinds, owner: str | None) -> None:
        self.name = name
        self.askable = askable
        self.owner = owner
        self.bytes = 0
        self.counted = 0
        self.effects = CallEffects()
        self.outputs: list[Output] = []
        self.answers: dict[int, dict[str, bytes]] | None = None
        self.parked: Parking | None = None
        self.waiters: list[Parking] | None = None
        self.task: Task | None = None
        self.abandoned = False
        self.expires = 0.0

    @property
    def finished(self) -> bool:
        last = self.outputs[-1] if self.outputs else None
        return isinstance(last, types.Result | BaseException)

    def put(self, output: Output) -> None:
        self.outputs.append(output)
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
        if self.finished:
            raise RuntimeError(f"cannot ask {questions[0].key!r}: this call has ended")
        if self.parked is not None:
            raise RuntimeError(
                f"cannot ask {questions[0].key!r}: this call is waiting for another answer; "
                "ask them together with elicit_all"
            )
        self.parked = parking()
        self.put(questions)
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

    async def elicit(self, question: Question[AnswerT] | Inquiry[AnswerT]) -> AnswerT:
        """Ask the user, or the client, and wait here for as long as it takes.

        Where the client cannot be asked, what the question assumes takes the answer's place.

        Raises:
            Declined, Cancelled, CannotAsk: See there.
            CallAbandoned: The call was given up. It is not an `Exception`; let it pass.
            RuntimeError: Another task of this handler is waiting for an answer, or the call has
                ended.
        """
        frame = self._frame
        if frame.abandoned or kind_of(question) not in frame.askable:
            await anyio.lowlevel.checkpoint()  # a loop that asks again holds up no other call
            if frame.abandoned:
                raise CallAbandoned
            return assume_answer(question)
        # Not by way of `elicit_all`: every parked call would hold one more coroutine.
        with frame.park((question,)) as parked:
            responses = _unless_abandoned(await parked)
        return read_answer(question, responses[question.key])

    async def once(
        self,
        key: str,
        effect: Callable[[], Awaitable[T] | T],
        *,
        settled: Settled | None = None,
    ) -> T:
        """Run an effect and tell the guard of it: a call that has done something keeps its name.

        Args:
            key: The effect's name.
            effect: Does the effect; async or not.
            settled: Asks the destination whether it has happened, after it raised.
        """
        effects = self._frame.effects
        value = await effects.run(key, effect, settled)
        effects.fresh.discard(key)  # done, so it is not done again
        return cast("T", value_of(effect, value))

    async def until(
        self,
        key: str,
        check: Callable[[], Awaitable[T | None] | T | None],
        *,
        seconds: float,
        link: Inquiry[types.ElicitResult] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> T:
        """Wait for something that is done elsewhere, for as long as this process lives.

        The round is held meanwhile; a client that gives up sends it once more, and waits further.

        Args:
            key: The author's name for it.
            check: Looks whether it is there; async or not.
            seconds: How long to wait, from the user's consent to the link.
            link: Where the user does it, from `sdk.link(...)`.
            poll_seconds: How often to look.

        Raises:
            NotInTime: It did not come in time.
            Declined, Cancelled, CannotAsk: The user does not open the link.
        """
        check_seconds(seconds, poll_seconds)
        if link is not None:
            await self.elicit(link)
        ends_at = anyio.current_time() + seconds
        found = await poll(
            check, left=lambda: ends_at - anyio.current_time(), poll_seconds=poll_seconds
        )
        if found is None:
            raise NotInTime(key, seconds)
        return found

    async def _answers_to(
        self, questions: Sequence[Question[Any] | Inquiry[Any]]
    ) -> tuple[Any, ...]:
        frame = self._frame
        answers = assumed(questions, frame.askable)
        if frame.abandoned or len(answers) == len(questions):
            await anyio.lowlevel.checkpoint()  # as above
            if frame.abandoned:
                raise CallAbandoned
        while still_open := tuple(each for each in questions if each.key not in answers):
            with frame.park(still_open) as parked:
                responses = _unless_abandoned(await parked)
            for question in still_open:
                if question.key in responses:
                    answers[question.key] = read_answer(question, responses[question.key])
            del (
                parked,
                responses,
            )  # the next answer may be long in coming: only what was read is kept
        return tuple(answers[question.key] for question in questions)
