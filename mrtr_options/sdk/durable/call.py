"""One durable call in the process that runs it: what it has said so far, and what its handler sees.

An engine keeps a call; here is what it keeps. A handler that runs again, in this process or in
another one, gives the same outputs, since every step and every answer is taken from the engine's
record.

Knows `messages` and `questions`, and of an engine what `Running` says.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar, cast

import anyio
import mcp_types as types
from mcp import MCPError
from pydantic import Field

from mrtr_options.sdk.durable.messages import (
    MAX_BYTES,
    Answers,
    Asked,
    Begun,
    Caller,
    Ended,
    Handed,
    Outcome,
    Output,
    Reply,
    Stepped,
    has_json,
    length,
    recordable,
    refused,
)
from mrtr_options.sdk.handlers import CallAbandoned, Died, settled
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

ATTEMPTS = 4
"""How often a step may end its process before it is given up."""


MAX_KEY_CHARS = 1000
"""How long a step's key is at most."""

_step: ContextVar[str] = ContextVar("_step")
"""The step that this code runs in."""


def check_step_key(key: str) -> None:
    """Refuse a key that an engine cannot keep, before its effect.

    Raises:
        ValueError: It is empty, too long, or has a character that no database holds.
    """
    is_text = key.isascii() or key.encode(errors="replace").decode() == key
    if "\0" in key or not is_text or not 0 < len(key) <= MAX_KEY_CHARS:
        raise ValueError(
            f"a step's key is a text of 1 to {MAX_KEY_CHARS} characters that a database can hold"
            f" (no NUL, no half of a pair), not {key[:100]!r}"
        )


@dataclass
class Record:
    """A call: what it has said, and the answers that it has taken. Kept once it is over.

    Attributes:
        begun: What it began with.
        updated: When something last happened to it.
        outputs: All that it said.
        answers: What it was told, by the number of the output that asked.
        words: The author's words on how far the work is.
        open: What it asks now, by key, while it runs.
        size: Its length as JSON in bytes, while it runs.
    """

    begun: Begun
    updated: float
    outputs: list[Output] = field(default_factory=list[Output])
    answers: dict[int, Answers] = field(default_factory=dict[int, Answers])
    words: str | None = None
    open: Annotated[dict[str, Any], Field(exclude=True)] = field(default_factory=dict[str, Any])
    size: Annotated[int, Field(exclude=True)] = 0

    def __post_init__(self) -> None:
        self.size = length(self.begun)

    @property
    def output(self) -> Output | None:
        """What it asks or how it ended; None while it is at work."""
        if not self.outputs or len(self.outputs) - 1 in self.answers:
            return None
        return None if isinstance(self.outputs[-1], Handed) else self.outputs[-1]

    @property
    def asked(self) -> tuple[int, Asked]:
        """Its last question, and that output's number."""
        return max(
            (number, each) for number, each in enumerate(self.outputs) if isinstance(each, Asked)
        )

    @property
    def _has_ended(self) -> bool:
        return bool(self.outputs) and isinstance(self.outputs[-1], Ended)

    @property
    def task_at(self) -> float | None:
        """When it became a task; None if it is none."""
        return next((each.at for each in self.outputs if isinstance(each, Handed)), None)

    @property
    def caller(self) -> Caller:
        """The client that said something last."""
        return next(reversed(self.answers.values()), self.begun).caller

    def ask(self, questions: dict[str, Question[Any] | Inquiry[Any]]) -> None:
        """Ask, by key.

        Raises:
            ValueError: There is no room for these questions.
        """
        asked = Asked({key: request_for(each) for key, each in questions.items()})
        if not self.has_room(asked):
            raise ValueError(
                f"a call is {MAX_BYTES} bytes at most, and there is no room to ask {[*asked.requests]}"
            )
        self.open = questions
        self._say(asked)

    def _say(self, *asked: Asked) -> None:
        self.outputs += asked
        self.size += sum(map(length, asked))

    def has_room(self, *messages: object) -> bool:
        """Whether it is `MAX_BYTES` at most with these messages, too."""
        return self.size + sum(map(length, messages)) <= MAX_BYTES

    def new(self, number: int, answers: Answers) -> Answers | None:
        """Those answers of a round that are to be taken; None if they were before, or answer
        nothing that the handler asks now: it may have begun again and ask otherwise.

        Args:
            number: Of the output that the round goes on from; -1 for the first round.
            answers: Those that it brings.

        Raises:
            MCPError: They do not fit, are too long, or the question has been answered differently.
        """
        if number < 0:
            return None
        if self._has_ended and number >= len(self.outputs) - 1:
            return None  # it ended earlier when it ran again
        asked = self.outputs[number] if number < len(self.outputs) else None
        if not isinstance(asked, Asked):
            raise refused("unknown_call")
        said = {key: each for key, each in answers.responses.items() if key in asked.requests}
        answers = replace(answers, responses=said)
        if not said or answers.asked != asked.digest:
            return None
        if number in self.answers:
            if self.answers[number].responses != said:
                raise refused("answered_differently", question=min(said))
            return None
        if number + 1 < len(self.outputs):
            return None  # it was given up
        if not self.has_room(answers, *asked.left_by(answers)):
            raise refused("too_long")
        for key, response in said.items():
            with suppress(Declined, Cancelled):
                read_answer(self.open[key], response)
        return answers

    def take(self, number: int, answers: Answers) -> None:
        """Take answers. What they leave open is asked again at once, unless the user said no."""
        asked = self.outputs[number]
        assert isinstance(asked, Asked)
        self.answers[number] = answers
        self.size += length(answers)
        self._say(*asked.left_by(answers))

    def reply(self, number: int) -> Reply | None:
        """What answers a round that went on from this output and brought nothing that is to be
        taken: what is asked, or the next output. None until there is one. A task goes on without
        its client.
        """
        if number >= 0 and not any(isinstance(each, Handed) for each in self.outputs[:number]):
            number += number in self.answers or number + 1 < len(self.outputs)
        at = max(number, 0)
        if self._has_ended:
            at = min(at, len(self.outputs) - 1)
        return Reply(at, self.outputs[at]) if at < len(self.outputs) else None


class Running(ABC):
    """A call on an engine, where it runs: what its handler is given, and what its rounds bring.

    Attributes:
        record: The call.
        handle: Its name.
    """

    record: Record
    handle: str

    @abstractmethod
    def now(self) -> float:
        """The time."""

    @abstractmethod
    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something is so of the record, for so long at most; whether it is."""

    @abstractmethod
    def told(self) -> None:
        """Has those who wait look at the record again."""

    @abstractmethod
    async def step(
        self, key: str, run: Callable[[], Coroutine[Any, Any, Stepped]], *, is_wait: bool = False
    ) -> Stepped:
        """Return what an effect came to: run now, or taken from the record.

        Args:
            key: The author's name for it.
            run: Does it.
            is_wait: Whether it only looks and waits, so that it may begin any number of times.
        """

    def is_stopping(self) -> bool:
        """Whether the engine stops the handler that runs in this task."""
        task = asyncio.current_task()  # every engine is on asyncio
        return task is None or task.cancelling() > 0

    async def asks(self) -> bool:
        """Record that the handler asks now; False if it did something else when it ran before."""
        self.record.updated = self.now()
        return True

    @abstractmethod
    async def takes(self, number: int, answers: Answers) -> None:
        """Have new answers recorded and taken, unless others come first."""

    async def answered(self, number: int, seconds: float) -> bool:
        """Wait for the answers to a question; False if none come in time."""
        return await self.until(lambda: number in self.record.answers, seconds)

    async def visit(self, number: int, answers: Answers) -> Reply:
        """What answers a round; see `rounds.Engine`."""
        # A handler that began again has to come to that question first.
        await self.until(lambda: number < len(self.record.outputs))
        try:
            while given := self.record.new(number, answers):
                await self.takes(number, given)
        except MCPError as error:
            return Reply(number, Ended(error))
        await self.until(lambda: self.record.reply(number) is not None)
        return cast(Reply, self.record.reply(number))


class DurableContext(AsksTogether, Generic[DeskT]):
    """What the handler gets in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(self, lifespan_context: DeskT, running: Running, *, idle_seconds: float) -> None:
        self.lifespan_context = lifespan_context
        self._running = running
        self._record = running.record
        self._idle_seconds = idle_seconds
        self._scope = anyio.CancelScope()
        self._asking = self._is_over = False
        self._steps: set[str] = set()
        self._keys: set[str] = set()
        self.abandoned: MCPError | None = None

    async def step(self, key: str, effect: Callable[[str], Awaitable[T] | T]) -> T:
        """Run an effect once. When the handler runs again, the result comes from the record.

        An effect that raises is recorded as failed and is not tried again. An error that another
        process could not read is raised as a RuntimeError.

        Args:
            key: The author's name for the effect: unique in the call, stable across versions.
            effect: Does the effect; async or not. Gets an idempotency key, the same on every
                attempt. What it returns is recorded as JSON, and comes back as JSON has it: a tuple
                as a list.

        Raises:
            ValueError: The call has a step of that key already.
            RuntimeError: It is called in a step, or after the handler's end.
            TypeError, ValueError: The key is not a text. Or what the effect returned cannot be
                written as JSON, or is longer than 1 MiB: then the effect has happened.
        """
        self._check()
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a step's key is a text, not {key!r}")
        check_step_key(key)
        if key in self._steps:
            raise ValueError(
                f"there is a step {key!r} in this call already: a key is for one effect"
            )
        self._steps.add(key)
        once = hashlib.sha256(f"{self._running.handle}/{key}".encode()).hexdigest()[:32]

        async def run() -> Stepped:
            began, within = asyncio.current_task(), _step.set(key)
            try:
                value = await settled(effect(once))
                try:
                    text = json.dumps(value, allow_nan=False)
                except (TypeError, ValueError, RecursionError) as error:
                    raise TypeError(
                        f"the step {key!r} returned what has no JSON: {error}"
                    ) from None
                stepped = Stepped(json.loads(text))  # the same now as from the record
            except BaseException as error:
                if self._is_from_outside(error, began):
                    raise
                stepped = Stepped(error=recordable(error))
            finally:
                _step.reset(within)
            if length(stepped) <= MAX_BYTES:
                return stepped
            says = f"what the step {key!r} came to is longer than {MAX_BYTES} bytes as it is kept"
            return Stepped(error=ValueError(says))

        stepped = await self._running.step(key, run)
        if stepped.gave_up:
            raise self._abandon(refused("gave_up"))
        if stepped.error is not None:
            raise stepped.error
        return stepped.value

    async def elicit(self, question: Question[AnswerT] | Inquiry[AnswerT]) -> AnswerT:
        """Ask the user, or the client, and wait here for as long as it takes.

        Where the client cannot be asked, what the question assumes takes the answer's place.

        Raises:
            Declined, Cancelled, CannotAsk: See there.
            CallAbandoned: There was no answer in time. It is not an `Exception`; let it pass.
            RuntimeError: Another task of this handler waits for an answer, or it is called in a
                step.
        """
        (answer,) = await self.elicit_all(question)
        return answer

    async def _answers_to(
        self, questions: Sequence[Question[Any] | Inquiry[Any]]
    ) -> tuple[Any, ...]:
        self._check()
        if self.abandoned is not None:
            raise CallAbandoned
        answers = assumed(questions, self._record.caller.askable)
        to_ask = [question for question in questions if question.key not in answers]
        if to_ask and self._asking:
            raise RuntimeError(
                f"cannot ask {questions[0].key!r}: this call is waiting for another answer; "
                "ask them together with elicit_all"
            )
        if to_ask:
            answers |= await self._ask({self._free_key(each.key): each for each in to_ask})
        return tuple(answers[question.key] for question in questions)

    def _free_key(self, key: str) -> str:
        """The question's own key; with a number if this call has used that key before."""
        free, number = key, 1
        while free in self._keys:
            number += 1
            free = f"{key}-{number}"
        self._keys.add(free)
        return free

    async def _ask(self, questions: dict[str, Question[Any] | Inquiry[Any]]) -> dict[str, Any]:
        """The answers, by the questions' own keys."""
        record, running = self._record, self._running
        answers: dict[str, Any] = {}
        self._asking = True
        try:
            if not await running.asks():
                raise self._abandon(refused("gave_up"))
            record.ask(questions)
            running.told()
            while len(answers) < len(questions):
                number, asked = record.asked
                silent = running.now() - record.updated
                if not await running.answered(number, max(0.0, self._idle_seconds - silent)):
                    raise self._abandon(refused("unknown_call"))
                given = record.answers[number]
                if given.asked != asked.digest:  # the handler began again and asks otherwise
                    raise self._abandon(refused("gave_up"))
                for key in (each for each in questions if each in given.responses):
                    answers[questions[key].key] = read_answer(questions[key], given.responses[key])
            return answers
        finally:
            self._asking = False

    def _abandon(self, error: MCPError) -> CallAbandoned:
        self.abandoned = error
        return CallAbandoned()

    async def outcome(self, work: Awaitable[object]) -> Outcome | None:
        """How the handler ends, as it can be recorded; None where its time is over."""
        outcome, began = cast("Outcome | None", None), asyncio.current_task()
        try:
            with self._scope:
                said = await work
                if not isinstance(said, types.CallToolResult | types.GetPromptResult):
                    raise TypeError(
                        f"the handler returned {type(said).__name__}, which is not a result"
                    )
                if not has_json(said.model_dump()):
                    raise ValueError("what the handler returned has no JSON: an infinite number")
                outcome = said
        except BaseException as error:
            if not self._is_from_outside(error, began, lambda: self._running.is_stopping()):
                outcome = recordable(error)
            elif self.abandoned is None:
                raise
            else:
                outcome = self.abandoned
        finally:
            self._is_over = True
        try:
            if self._record.has_room(Ended(outcome)):
                return outcome
        except (TypeError, ValueError, RecursionError) as error:
            return TypeError(f"what the handler returned has no JSON: {error}")
        return ValueError(
            f"a call is {MAX_BYTES} bytes at most, and there is no room for how it ended"
        )

    def _check(self) -> None:
        """Refuse to go on in a step, which an engine runs elsewhere, and after the call's end."""
        if key := _step.get(""):
            raise RuntimeError(
                f"the step {key!r} cannot have a step of its own, or ask: do that after it"
            )
        if self._is_over:
            raise RuntimeError(
                "this call has ended: a handler waits for all the tasks that it begins"
            )

    def _is_from_outside(
        self,
        error: BaseException,
        began: asyncio.Task[Any] | None,
        is_stopping: Callable[[], bool] | None = None,
    ) -> bool:
        """Whether an error says that the call is being stopped. All others are the author's, also
        those that are no `Exception`: a handler that cancels itself must not begin again for ever.

        Args:
            error: The error.
            began: The task in which the code that it comes from began.
            is_stopping: Whether the code is being stopped; None where its task says so.
        """
        if isinstance(error, Exception):
            return False
        task = asyncio.current_task()
        # An engine that drops a call closes its coroutine, in no task or in another one.
        kinds = (Died,) if task is began else (Died, GeneratorExit)
        group = BaseExceptionGroup[BaseException]("", [error])
        if self.abandoned is not None or group.subgroup(kinds) is not None:
            return True
        if task is None or is_stopping is None:
            return task is None or task.cancelling() > 0
        return is_stopping()
