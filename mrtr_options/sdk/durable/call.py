"""One durable call in the process that runs it: what it has said so far, and what its handler sees.

An engine keeps a call; here is what it keeps. A handler that runs again, in this process or in another
one, gives the same outputs, since every step and every answer is taken from the engine's record.

Knows `messages` and `questions`, and of an engine what `Running` says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Output,
    Record,
    Reply,
    Stepped,
    answered_differently,
    gave_up,
    recordable,
    unknown_call,
)
from mrtr_options.sdk.questions import (
    AnswerT,
    AsksTogether,
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
    """Raised in a handler whose call is given up: a question stays unanswered for too long.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure.
    """

    def __init__(self, error: MCPError | None = None) -> None:
        super().__init__()
        self.error = error or unknown_call()


class Conversation:
    """What a call has said, and the answers that it has got.

    Attributes:
        record: What is kept of it.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self._open: dict[str, Question[Any] | Inquiry[Any]] = {}
        self._unrecorded: dict[int, Answers] = {}

    def say(self, output: Output, at: float) -> int:
        """Say something; its number."""
        self.record.outputs.append(output)
        self.record.updated = at
        return len(self.record.outputs) - 1

    def ask(self, questions: dict[str, Question[Any] | Inquiry[Any]], at: float) -> int:
        """Ask, by key."""
        self._open = questions
        return self.say(Asked({key: request_for(each) for key, each in questions.items()}), at)

    def has_said(self, number: int) -> bool:
        """Whether there is an output of this number."""
        return number < len(self.record.outputs)

    def reply(self, number: int) -> Reply:
        """The output of this number.

        Raises:
            MCPError: The call ended before.
        """
        if not self.has_said(number):
            raise unknown_call()
        return Reply(number, self.record.outputs[number])

    # --- what rounds bring ---

    def check(self, number: int, answers: Answers) -> Answers | None:
        """Those answers of a round that are to be taken; None if they were before, or answer nothing.

        Args:
            number: Of the output that asked.
            answers: Those that the round brings.

        Raises:
            MCPError: They do not fit, or the question has been answered differently.
        """
        if number < 0:
            return None
        asked = self.record.outputs[number] if self.has_said(number) else None
        if not isinstance(asked, Asked):
            raise unknown_call()
        answers = answers.to(asked.requests)
        if not answers.responses:
            return None
        if number in self.record.answered:
            if self.record.answered[number] != answers.digest:
                raise answered_differently(min(answers.responses))
            return None
        if self.has_said(number + 1):
            return None  # it was given up
        for key, response in answers.responses.items():
            with suppress(Declined, Cancelled):
                read_answer(self._open[key], response)
        return answers

    def take(self, number: int, answers: Answers) -> int:
        """Take what a round brings; the number of the output that answers the round.

        Args:
            number: Of the output that the round goes on from; -1 for the first round.
            answers: Those that it brings.

        Raises:
            MCPError: See `check`.
        """
        if taken := self.check(number, answers):
            self.record.answered[number] = taken.digest
            self.record.coming = self._open.keys() - taken.responses.keys()
            self._unrecorded[number] = taken
        stays = number >= 0 and number not in self.record.answered and not self.has_said(number + 1)
        return number if stays else number + 1

    def given(self, number: int) -> Answers | None:
        """What was given to a question and is not on record."""
        return self._unrecorded.get(number)

    def is_on_record(self, number: int) -> bool:
        """Whether the handler has what was given to a question, and asks again what that left open."""
        is_taken = number in self.record.answered and number not in self._unrecorded
        return is_taken and (not self.record.coming or self.has_said(number + 1))

    def recorded(self, number: int, answers: Answers) -> None:
        """Note that answers are on record."""
        self.record.answered[number] = answers.digest
        self.record.updated = answers.at
        self._unrecorded.pop(number, None)
        self._open = {}


class Running(Protocol):
    """What an engine does for the handler of one call.

    Attributes:
        conversation: The call.
        handle: Its name.
        began: When it began, by `now`.
    """

    conversation: Conversation
    handle: str
    began: float

    def now(self) -> float:
        """The time, by a clock that a second run of the handler may read."""
        ...

    def told(self) -> None:
        """Has those who wait for the call look again."""
        ...

    async def step(self, key: str, run: Callable[[], Awaitable[Stepped]]) -> Stepped:
        """What an effect came to: run now, or taken from the record."""
        ...

    async def asks(self) -> None:
        """Record that the handler asks now."""
        ...

    async def answers(self, number: int, seconds: float) -> Answers | None:
        """The answers to an output, as soon as they are there; None if they do not come in time."""
        ...


class DurableContext(AsksTogether, Generic[DeskT]):
    """What the handler gets in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(self, lifespan_context: DeskT, running: Running, *, idle_seconds: float) -> None:
        self.lifespan_context = lifespan_context
        self._running = running
        self._call = running.conversation
        self._caller = self._call.record.begun.caller
        self._idle_seconds = idle_seconds
        self._recorded_at = running.began
        self._asking = False
        self._steps: set[str] = set()
        self._keys: set[str] = set()
        self.abandoned: CallAbandoned | None = None

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
            TypeError: What the effect returned has no JSON. It happened anyway.
        """
        if key in self._steps:
            raise ValueError(f"there is a step {key!r} in this call already: a key is for one effect")
        self._steps.add(key)
        once = hashlib.sha256(f"{self._running.handle}/{key}".encode()).hexdigest()[:32]

        async def run() -> Stepped:
            try:
                value = await effect(once)
                try:
                    json.dumps(value)
                except (TypeError, ValueError) as error:
                    raise TypeError(f"the step {key!r} returned what has no JSON: {error}") from None
                return Stepped(value)
            except Exception as error:
                return Stepped(error=recordable(error))

        stepped = await self._running.step(key, run)
        self._recorded_at = stepped.at
        if stepped.gave_up:
            raise self._abandon(gave_up())
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
        if self.abandoned is not None:
            raise self.abandoned
        answers = assumed(questions, self._caller.askable)
        to_ask = [question for question in questions if question.key not in answers]
        if to_ask and self._asking:
            raise RuntimeError(
                f"cannot ask {questions[0].key!r}: this call is waiting for another answer; "
                "ask them together with elicit_all"
            )
        still_open = {self._free_key(question.key): question for question in to_ask}
        while still_open:
            for key, response in (await self._ask(still_open)).responses.items():
                question = still_open.pop(key)
                answers[question.key] = read_answer(question, response)
        return tuple(answers[question.key] for question in questions)

    def _free_key(self, key: str) -> str:
        """The question's own key; with a number if this call has used that key before."""
        free, number = key, 1
        while free in self._keys:
            number += 1
            free = f"{key}-{number}"
        self._keys.add(free)
        return free

    async def _ask(self, questions: dict[str, Question[Any] | Inquiry[Any]]) -> Answers:
        self._asking = True
        try:
            await self._running.asks()
            number = self._call.ask({**questions}, self._running.now())
            self._running.told()
            silent = self._running.now() - self._recorded_at
            answers = await self._running.answers(number, max(0.0, self._idle_seconds - silent))
        finally:
            self._asking = False
        if answers is None:
            raise self._abandon(unknown_call())
        self._call.recorded(number, answers)
        self._running.told()
        self._caller, self._recorded_at = answers.caller, answers.at
        return answers

    def _abandon(self, error: MCPError) -> CallAbandoned:
        self.abandoned = CallAbandoned(error)
        return self.abandoned

    async def outcome(self, work: Awaitable[types.Result]) -> types.Result | Exception:
        """How the handler ends, as it can be recorded."""
        try:
            return await work
        except Exception as error:
            return recordable(error)
        except BaseException:  # CallAbandoned, alone or in a group of the author's
            if self.abandoned is None:
                raise
            return self.abandoned.error
