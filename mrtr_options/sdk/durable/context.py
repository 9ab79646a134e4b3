"""What a handler of option L gets in place of the SDK's request context.

Knows `messages`, `questions`, the engine and how DBOS runs a step, publishes an event and receives a
message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from dbos import DBOS

from mrtr_options.sdk.durable.engine import current
from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Caller,
    Interrupted,
    Output,
    Refused,
    Stepped,
    as_mcp_error,
    recordable,
)
from mrtr_options.sdk.questions import (
    AnswerT,
    AsksTogether,
    BadAnswer,
    Cancelled,
    Declined,
    Inquiry,
    Question,
    assumed,
    read_answer,
    request_for,
)

DeskT = TypeVar("DeskT")
T = TypeVar("T")


class CallAbandoned(BaseException):
    """Raised at `await ctx.elicit()` when a question stays unanswered for too long.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure.
    """


class DurableContext(AsksTogether, Generic[DeskT]):
    """What the handler gets in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(
        self, lifespan_context: DeskT, call: str, caller: Caller, *, idle_seconds: float
    ) -> None:
        self.lifespan_context = lifespan_context
        self._call = call
        self._caller = caller
        self._idle_seconds = idle_seconds
        self._asking: str | None = None
        self._steps: set[str] = set()
        self._keys: set[str] = set()
        self.abandoned = False
        self.number = 0
        self.after: str | None = None

    async def step(self, key: str, effect: Callable[[str], Awaitable[T]]) -> T:
        """Run an effect once. When the handler runs again, the result comes from the record.

        An effect that raises is recorded as failed and is not tried again. An error that another
        process could not read is raised as a RuntimeError.

        Args:
            key: The author's name for the effect: unique in the call, stable across versions.
            effect: Does the effect. Gets an idempotency key, the same on every attempt.

        Raises:
            ValueError: The call has a step of that key already.
        """
        if key in self._steps:
            raise ValueError(f"there is a step {key!r} in this call already: a key is for one effect")
        self._steps.add(key)
        idempotency_key = hashlib.sha256(f"{self._call}/{key}".encode()).hexdigest()[:32]

        async def run() -> Stepped:
            if not current().holds:
                raise Interrupted("the lease of this process has ended")
            try:
                return Stepped(await effect(idempotency_key))
            except Exception as error:
                return Stepped(error=recordable(error))

        stepped = await recorded(DBOS.run_step_async({"name": key}, run))
        if stepped.error is not None:
            raise stepped.error
        return stepped.value

    async def elicit(self, question: Question[AnswerT] | Inquiry[AnswerT]) -> AnswerT:
        """Ask the user, or the client, and wait here for as long as it takes.

        Where the client cannot be asked, what the question assumes takes the answer's place.

        Raises:
            Declined, Cancelled, CannotAsk: See `questions`.
            CallAbandoned: There was no answer in time.
            RuntimeError: Another task of this handler is waiting for an answer.
        """
        (answer,) = await self.elicit_all(question)
        return answer

    async def _answers_to(self, questions: Sequence[Question[Any] | Inquiry[Any]]) -> tuple[Any, ...]:
        if self.abandoned:
            raise CallAbandoned
        answers = assumed(questions, self._caller.askable)
        to_ask = [question for question in questions if question.key not in answers]
        if not to_ask:
            return tuple(answers[question.key] for question in questions)
        if self._asking is not None:
            raise RuntimeError(
                f"cannot ask {questions[0].key!r}: this call is waiting for another answer; "
                "ask them together with elicit_all"
            )
        self._asking = questions[0].key
        try:
            still_open = {self._free_key(question.key): question for question in to_ask}
            while still_open:
                requests = {key: request_for(question) for key, question in still_open.items()}
                await self.publish(Asked(self.after, requests))
                for key, answer in (await self._answers(still_open)).items():
                    answers[still_open.pop(key).key] = answer
        except (Declined, Cancelled):
            await self.answered()
            raise
        finally:
            self._asking = None
        await self.answered()
        return tuple(answers[question.key] for question in questions)

    def _free_key(self, key: str) -> str:
        """The question's own key; with a number if this call has used that key before."""
        free, number = key, 1
        while free in self._keys:
            number += 1
            free = f"{key}-{number}"
        self._keys.add(free)
        return free

    async def _answers(
        self, questions: dict[str, Question[AnswerT] | Inquiry[AnswerT]]
    ) -> dict[str, AnswerT]:
        """The first message with answers that fit; at least one answer."""
        topic, self.number, refused = self.topic(), self.number + 1, 0
        while True:
            message: Answers | None = await recorded(DBOS.recv_async(topic, self._idle_seconds))
            if message is None:
                self.abandoned, self.after = True, None
                raise CallAbandoned
            said = {key: message.responses[key] for key in questions if key in message.responses}
            if not said:
                continue  # to questions that are no longer open
            try:
                answers = {key: read_answer(questions[key], said[key]) for key in said}
            except BadAnswer as error:
                refused += 1
                await self.publish(Refused(message.digest, as_mcp_error(error), refused))
                continue
            except (Declined, Cancelled):
                self._caller, self.after = message.caller, message.digest
                raise
            self._caller, self.after = message.caller, message.digest
            return answers

    def topic(self) -> str:
        """Where answers to what is asked now are sent to."""
        return str(self.number)

    async def answered(self) -> None:
        """Called when every question has its answer."""

    async def publish(self, output: Output) -> None:
        """Publish what the call asks, or how it ended."""
        await recorded(DBOS.set_event_async(str(self.number), output))


async def recorded(statement: Awaitable[T]) -> T:
    """The result of a statement of the engine's.

    Raises:
        Interrupted: It failed. The author's handler has nothing to say to that.
    """
    try:
        return await statement
    except Exception as error:
        raise Interrupted("the call's record cannot be written or read") from error
