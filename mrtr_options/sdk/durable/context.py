"""What a handler of option L gets in place of the SDK's request context.

Knows `messages`, `questions`, the exchange, the engine and how DBOS runs a step.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Any, Generic, TypeVar

import anyio
from dbos import DBOS
from mcp import MCPError

from mrtr_options.sdk.durable.engine import current
from mrtr_options.sdk.durable.exchange import TO_CALL, Text
from mrtr_options.sdk.durable.liveness import WAITING
from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Caller,
    Interrupted,
    Output,
    Refused,
    Seal,
    Stepped,
    Unreadable,
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
        self, lifespan_context: DeskT, call: str, caller: Caller, seal: Seal, *, idle_seconds: float
    ) -> None:
        self.lifespan_context = lifespan_context
        self._seal = seal
        self._published = 0
        self._read: dict[str, int] = {}
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
            effect: Does the effect. Gets an idempotency key, the same on every attempt. What it
                returns is recorded as JSON, and comes back as JSON has it: a tuple as a list.

        Raises:
            ValueError: The call has a step of that key already.
            TypeError: What the effect returned has no JSON. It happened all the same.
        """
        if key in self._steps:
            raise ValueError(f"there is a step {key!r} in this call already: a key is for one effect")
        self._steps.add(key)
        idempotency_key = hashlib.sha256(f"{self._call}/{key}".encode()).hexdigest()[:32]

        place = f"{self._call} step {key}"

        async def run() -> str:
            if not current().holds:
                raise Interrupted("the lease of this process has ended")
            try:
                value = await effect(idempotency_key)
                try:
                    json.dumps(value)
                except (TypeError, ValueError) as error:
                    raise TypeError(f"the step {key!r} returned what has no JSON: {error}") from None
                stepped = Stepped(value)
            except Exception as error:
                stepped = Stepped(error=recordable(error))
            return self._seal.write(stepped, place)

        stepped = self._opened(Stepped, await recorded(DBOS.run_step_async({"name": key}, run)), place)
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
            message = await self._next_message(topic, questions.keys())
            if message is None:
                self.abandoned, self.after = True, None
                raise CallAbandoned
            said = {key: message.responses[key] for key in questions if key in message.responses}
            try:
                answers = {key: read_answer(questions[key], said[key]) for key in said}
            except BadAnswer as error:
                refused += 1
                await self.publish(
                    Refused(message.digest, MCPError(error.code, error.message, error.data), refused)
                )
                continue
            except (Declined, Cancelled):
                self._caller, self.after = message.caller, message.digest
                raise
            self._caller, self.after = message.caller, message.digest
            return answers

    async def _next_message(self, topic: str, keys: Set[str]) -> Answers | None:
        """The next message with an answer to one of these questions; None if none comes in time.

        What is recorded is its position: the message itself stays where it is.
        """
        exchange = current().exchange
        last: Text | None = None

        async def wait() -> int | None:
            nonlocal last
            with anyio.move_on_after(self._idle_seconds - await exchange.silence(self._call)):
                after = self._read.get(topic, 0)
                while True:
                    last = await exchange.next(self._call, topic, after)
                    if not keys.isdisjoint(self._answers_in(last).responses):
                        return last.position
                    after = last.position  # an answer to questions that are no longer open
            return None

        position: int | None = await recorded(DBOS.run_step_async({"name": "mrtr.answered"}, wait))
        if position is None:
            return None
        self._read[topic] = position
        return self._answers_in(last or await exchange.next(self._call, topic, position - 1))

    def _answers_in(self, text: Text) -> Answers:
        return self._opened(Answers, text.body, f"{self._call} {text.topic}")

    def _opened(self, kind: type[T], text: str, place: str) -> T:
        try:
            return self._seal.read(kind, text, place)
        except Unreadable as error:
            raise Interrupted("the call's record cannot be read") from error

    def topic(self) -> str:
        """Where answers to what is asked now are sent to."""
        return f"{TO_CALL}{self.number}"

    async def answered(self) -> None:
        """Called when every question has its answer."""

    async def publish(self, output: Output) -> None:
        """Publish what the call asks, or how it ended."""
        topic, self._published = str(self.number), self._published + 1
        key, body = str(self._published), self._seal.write(output, f"{self._call} {topic}")

        async def put() -> None:
            await current().exchange.put(self._call, topic, key, body)

        name = WAITING if isinstance(output, Asked | Refused) else "mrtr.told"
        await recorded(DBOS.run_step_async({"name": name}, put))


async def recorded(statement: Awaitable[T]) -> T:
    """The result of a statement of the engine's.

    Raises:
        Interrupted: It failed. The author's handler has nothing to say to that.
    """
    try:
        return await statement
    except Exception as error:
        raise Interrupted("the call's record cannot be written or read") from error
