"""One durable call in the process that runs it, and the context that its handler gets.

An engine keeps the call's record. A handler that runs again, in this process or in another one,
gives the same outputs, since every step and every answer is taken from that record.

Knows `events`, `record` and `questions`; of an engine only the interface `Running`.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, cast

import anyio
import mcp_types as types
from mcp import MCPError

from mrtr_options.sdk.durable.events import Answers, Ended, Outcome, Reply, Run, Stepped
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import MAX_BYTES, length, recordable
from mrtr_options.sdk.effects import (
    Settled,
    ask_destination,
    at_destination,
    in_doubt,
    says_not_done,
)
from mrtr_options.sdk.handler import (
    Action,
    CallAbandoned,
    DeskT,
    Effect,
    T,
    await_result,
    check_result,
    failure_of,
    refusal,
    refuse_generator,
)
from mrtr_options.sdk.questions import AnyQuestion, read_answer
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.together import AsksTogether, assumed
from mrtr_options.sdk.waiting import poll
from mrtr_options.sdk.writing import digest

ATTEMPTS = 4
"""The number of times that a step may end its process; after the last one it is abandoned."""


MAX_KEY_CHARS = 1000
"""The longest key of a step."""

_step: ContextVar[str] = ContextVar("_step")
"""The step that this code runs in."""


class _Undone(Exception):
    """The failure of an effect that did not happen; the cause says why."""


def _failed(error: BaseException) -> Stepped:
    """Return how a step failed, as it can be recorded."""
    if isinstance(error, _Undone) and error.__cause__ is not None:
        return Stepped(error=recordable(error.__cause__), not_done=True)
    return Stepped(error=recordable(error))


def check_step_key(key: str) -> None:
    """Raise for a key that an engine cannot store, before the step's effect happens.

    Raises:
        TypeError: It is no text.
        ValueError: It is empty, too long, or has a character that no database holds.
    """
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a step's key is a text, not {key!r}")
    is_text = key.isascii() or key.encode(errors="replace").decode() == key
    if "\0" in key or not is_text or not 0 < len(key) <= MAX_KEY_CHARS:
        raise ValueError(
            f"a step's key is a text of 1 to {MAX_KEY_CHARS} characters that a database can hold"
            f" (no NUL, no half of a pair), not {key[:100]!r}"
        )


class Running(ABC):
    """A call on an engine, in the process that runs it.

    Attributes:
        record: The call's record.
        handle: The call's name.
    """

    record: Record
    handle: str

    @abstractmethod
    def now(self) -> float:
        """Return the time."""

    @abstractmethod
    async def until(self, is_so: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until a condition on the record holds, or for `seconds`. Return whether it holds."""

    @abstractmethod
    def notify(self) -> None:
        """Wake the tasks that wait for a change of the record."""

    @abstractmethod
    async def step(self, key: str, run: Run, *, is_wait: bool = False) -> Stepped:
        """Return the outcome of a step: run it now, or take it from the record.

        Args:
            key: The author's name for the step.
            run: Runs the effect.
            is_wait: Whether the step only looks and waits, so that it may begin any number of
                times.
        """

    def may_have_begun(self, key: str) -> bool:
        """Return whether a step may have begun before, in a process that died."""
        return True

    def is_stopping(self) -> bool:
        """Return whether the engine stops the handler that runs in this task."""
        task = asyncio.current_task()  # every engine is on asyncio
        return task is None or task.cancelling() > 0

    async def record_asking(self) -> bool:
        """Record that the handler asks now; False if it did something else when it ran before."""
        self.record.updated = self.now()
        return True

    @abstractmethod
    async def record_handover(self) -> None:
        """Record that the call becomes a task, before its client is told."""

    @abstractmethod
    async def take_answers(self, number: int, answers: Answers) -> None:
        """Record new answers and take them, unless others come first."""

    async def wait_for_answers(self, number: int, seconds: float) -> bool:
        """Wait for the answers to a question. Return False if none come in time."""
        return await self.until(lambda: number in self.record.answers, seconds)

    async def visit(self, number: int, answers: Answers) -> Reply:
        """Return the reply to a round; see `engine.Engine`."""
        # A handler that began again first has to reach the question that the round answers.
        await self.until(lambda: number < len(self.record.outputs))
        try:
            while given := self.record.new_answers(number, answers):
                await self.take_answers(number, given)
        except MCPError as error:
            return Reply(number, Ended(error))
        await self.until(lambda: self.record.reply(number) is not None)
        return cast(Reply, self.record.reply(number))


class DurableContext(AsksTogether, Generic[DeskT]):
    """The handler's context, in place of the SDK's request context.

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

    @property
    def caller(self) -> str | None:
        """The name of the caller, by the settings of the server; None for an unknown one."""
        return self._record.begun.caller.principal

    async def _look_until(
        self, key: str, check: Action[T | None], seconds: float, poll_seconds: float
    ) -> T | None:
        now = self._running.now
        start, end = f"{key}, from", f"{key}, until"
        began = await self._value(start, now)
        found = await self._value(
            end,
            lambda: poll(check, left=lambda: began + seconds - now(), poll_seconds=poll_seconds),
        )
        if found is None:
            del self._record.attempt.values[start], self._record.attempt.values[end]
        return found

    async def memo(self, key: str, compute: Action[T]) -> T:
        """Compute a value once in a call: a step that has no effect, so that it may begin again."""
        return await self._value(f"{key}, memo", compute)

    async def _value(self, key: str, compute: Action[T]) -> T:
        value = await self._step(key, lambda _: compute(), is_wait=True)
        self._record.attempt.values[key] = json.dumps(value)
        return value

    async def step(
        self,
        key: str,
        effect: Effect[T],
        *,
        settled: Settled | None = None,
    ) -> T:
        """Run an effect once. When the handler runs again, the result comes from the record.

        An effect that raises is recorded as failed and is not tried again in this call. It stays in
        doubt, unless it raised `NotDone` or `settled` can say. If the call ends in a text, as by
        `Unknown`, the next call of its name asks `settled` again. An error that another process
        could not read is raised as a RuntimeError. So is an `MCPError`.

        Args:
            key: The author's name for the effect: unique in the call, stable across versions.
            effect: Does the effect; async or not. Gets an idempotency key, the same on every
                attempt. What it returns is recorded as JSON, and comes back as JSON has it: a tuple
                as a list.
            settled: Asks the destination whether it has happened: after it raised, and before it is
                tried again. False if it has not, None if the destination cannot say, and else what
                the effect returned.

        Raises:
            MCPError: -32603, it may have happened, and the destination cannot say.
            ValueError: The call has a step of that key already.
            RuntimeError: It is called in a step, or after the handler's end.
            TypeError, ValueError: The key is not a text. Or what the effect returned cannot be
                written as JSON, or is longer than 1 MiB: then the effect has happened.
        """
        self._check()
        before, steps = self._record.begun.before, self._record.attempt.steps

        async def run(once: str) -> T:
            is_in_doubt = key in before.steps
            if is_in_doubt and settled is None:
                raise in_doubt([key])
            if settled is not None and (is_in_doubt or self._running.may_have_begun(key)):
                found = await ask_destination(key, settled)
                if found is not False:
                    return cast("T", found)
            try:
                return await at_destination(lambda: effect(once))
            except BaseException as raised:
                error = failure_of(raised)
                if says_not_done(error):
                    raise _Undone from error
                if settled is None:
                    raise error from error.__cause__
                found = await ask_destination(key, settled)
                if found is False:
                    raise _Undone from error
                return cast("T", found)

        check_step_key(key)
        refuse_generator(effect)
        self._record.begin_step(key, can_be_settled=settled is not None)
        value = await self._step(key, run, is_wait=False)
        steps[key] = json.dumps(value)
        return value

    async def _step(self, key: str, effect: Effect[T], *, is_wait: bool) -> T:
        self._check()
        check_step_key(key)
        if key in self._steps:
            raise ValueError(
                f"there is a step {key!r} in this call already: a key is for one effect"
            )
        self._steps.add(key)
        before = self._record.begun.before
        known = before.steps.get(key) or before.values.get(key)
        if known is not None:
            return json.loads(known)
        first = before.first or self._running.handle
        once = digest(f"{first}/{key}")[:32]

        async def run() -> Stepped:
            began = asyncio.current_task()
            within = _step.set(key)
            try:
                value = await await_result(effect(once))
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
                stepped = _failed(error)
            finally:
                _step.reset(within)
            if length(stepped) <= MAX_BYTES:
                return stepped
            message = (
                f"what the step {key!r} came to is longer than {MAX_BYTES} bytes as it is kept"
            )
            return Stepped(error=ValueError(message))

        return self._value_of(key, await self._running.step(key, run, is_wait=is_wait))

    def _value_of(self, key: str, stepped: Stepped) -> Any:
        """Return what a step came to, or raise it."""
        if stepped.gave_up:
            raise self._abandon(refusal(Reason.GAVE_UP))
        if stepped.not_done:
            del self._record.attempt.steps[key]
        if stepped.error is not None:
            raise stepped.error
        return stepped.value

    async def _answers_to(self, questions: Sequence[AnyQuestion[Any]]) -> tuple[Any, ...]:
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
        """Return the question's own key; with a number if this call has used that key before."""
        free = key
        number = 1
        while free in self._keys:
            number += 1
            free = f"{key}-{number}"
        self._keys.add(free)
        return free

    async def _ask(self, questions: dict[str, AnyQuestion[Any]]) -> dict[str, Any]:
        """Ask the questions and return the answers, by the questions' own keys."""
        record = self._record
        running = self._running
        answers: dict[str, Any] = {}
        self._asking = True
        try:
            if not await running.record_asking():
                raise self._abandon(refusal(Reason.GAVE_UP))
            record.ask(questions)
            running.notify()
            while len(answers) < len(questions):
                number, asked = record.asked
                silent = running.now() - record.updated
                if not await running.wait_for_answers(
                    number, max(0.0, self._idle_seconds - silent)
                ):
                    raise self._abandon(refusal(Reason.UNKNOWN_CALL))
                given = record.answers[number]
                if given.asked != asked.digest:  # the handler began again and asks otherwise
                    raise self._abandon(refusal(Reason.GAVE_UP))
                for key in (each for each in questions if each in given.responses):
                    answers[questions[key].key] = read_answer(questions[key], given.responses[key])
            return answers
        finally:
            self._asking = False

    def _abandon(self, error: MCPError) -> CallAbandoned:
        self.abandoned = error
        return CallAbandoned()

    async def outcome(self, work: Awaitable[object]) -> Outcome | None:
        """Await the handler and return its end as it can be recorded; None if its time is over."""
        outcome: Outcome | None = None
        began = asyncio.current_task()
        try:
            with self._scope:
                said = await work
                if not isinstance(said, types.CallToolResult | types.GetPromptResult):
                    raise TypeError(
                        f"the handler returned {type(said).__name__}, which is not a result"
                    )
                outcome = check_result(said)
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
        """Raise if this is called in a step, which an engine runs elsewhere, or after the end."""
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
        """Return whether an error means that the call is being stopped.

        All other errors are the author's, also those that are no `Exception`: a handler that
        cancels itself must not begin again for ever.

        Args:
            error: The error.
            began: The task in which the code that raised it began.
            is_stopping: Tells whether the code is being stopped; None to ask the code's task.
        """
        if isinstance(error, Exception):
            return False
        task = asyncio.current_task()
        # An engine that drops a call closes its coroutine, in no task or in another one.
        group = BaseExceptionGroup[BaseException]("", [error])
        is_dropped = task is not began and group.subgroup(GeneratorExit) is not None
        if self.abandoned is not None or is_dropped:
            return True
        if task is None or is_stopping is None:
            return task is None or task.cancelling() > 0
        return is_stopping()
