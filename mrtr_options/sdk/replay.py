"""Option J: keyed replay.

The handler runs from its first line in every round; answers, values and effects under the author's
keys are taken from the record.

The record is the state: the answers by their questions' keys, the values of `memo`, the effects
that ran in `once`, and the call's own number. It has to be sealed, since it holds values of the
server's own. Works for tools, prompts and resources.

The rules of this file
----------------------
- *A round that has asked is over.* `elicit` ends it with `RoundOver`, which is no `Exception`. If
  the author's code swallows it, every further use of the context raises it again, and the client
  gets the question, whatever the handler then returns or raises.
- *A key is used once in a round*, by one effect or one memo. A second use is an error that ends the
  round. A failure is not recorded, so the key may be tried again. A round waits for the functions
  that still run.
- *An answer belongs to the question as it was rendered*, to its message and schema. Only a question
  that was asked is answered; one that was reworded since is asked again. Two different questions
  under one key in one round are an error; the same one has the same answer. A decline or a cancel
  is an answer and is recorded.
- *A value is the same in every round.* `memo` refuses a value of which JSON makes another.
- *Effects in `on_commit` run after success*, in order: not for an error result, nor a question. If
  one fails the call ends as an error, and those after it do not run.
- *Every effect gets an idempotency key*, made of the call's number and its own key: the same in
  every delivery that carries the call's state. A client's call key makes the number, too.

Limits
------
- The record travels in a response. When that is lost, the effects since the last one run again,
  with the same idempotency key; in the first round with another, but for a call key.
- A line with no key runs in every round, and the source does not show it.
- One task that asks ends the round for all tasks of the handler. Questions that go out together go
  through one `elicit_all`.

Knows `handler`, `current_request`, `capabilities`, `keys`, `questions`, `together` and `call_key`.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, Generic, Literal, NoReturn, cast

import anyio
import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk import waiting
from mrtr_options.sdk.call_key import CallNaming, arguments_as_read, call_key_of
from mrtr_options.sdk.capabilities import kinds
from mrtr_options.sdk.current_request import caller_of, check_protected, request_here
from mrtr_options.sdk.effects import Settled, effects_here, keeping_effects, value_of
from mrtr_options.sdk.handler import (
    TELLS_EFFECTS,
    Action,
    Context,
    DeskT,
    Effect,
    HandlerOf,
    ParamsT,
    ResultT,
    T,
    await_result,
    check_handler,
    check_result,
    seals,
)
from mrtr_options.sdk.keys import KeyUsedTwice, Uses
from mrtr_options.sdk.questions import (
    AnyQuestion,
    BadAnswer,
    Question,
    are_same,
    assume_answer,
    check_length,
    digest_of_request,
    kind_of,
    load_state,
    plain_response,
    read_recorded,
    request_for,
)
from mrtr_options.sdk.together import AsksTogether
from mrtr_options.sdk.writing import digest, read_back

MAX_READS = 1_000
"""The most reads of one answer in a round, recorded or assumed.

A loop that waits for another answer would hold up all calls.
"""


class RoundOver(BaseException):
    """The end of a round at `await ctx.elicit()`, since the question has to be asked first.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure;
    their `finally` blocks run.
    """


class GoOn(BaseModel):
    """The form that asks whether to go on waiting."""

    go_on: Literal["yes", "no"]


class CommitFailed(Exception):
    """A failure of an effect of `on_commit` after the handler succeeded. The cause says why."""


# --- the record ---------------------------------------------------------------------------------


class _Asked(BaseModel):
    """A question that went out: a digest of it as it was rendered, and the response to it."""

    digest: str
    response: dict[str, Any] | None = None


class Record(BaseModel):
    """The state."""

    call: str = ""
    asked: dict[str, _Asked] = {}
    values: dict[str, Any] = {}
    done: list[str] = []
    returned: dict[str, Any] = {}


# --- one round ----------------------------------------------------------------------------------


_in_effect_of: ContextVar[object] = ContextVar("in_effect_of", default=None)
"""The round whose effect this code is part of."""


class Round:
    """One run of the handler: what the record says, what is new, and how it ends.

    Attributes:
        record: The state.
        commits: What to do after success, by key, in order.
    """

    def __init__(self, ctx: Context, params: types.InputResponseRequestParams) -> None:
        self.record = load_state(params, Record)
        self.commits: dict[str, Effect[object]] = {}
        self._ctx = ctx
        self.session = ctx.session
        self._fresh: types.InputResponses = {}
        self._uses = Uses()
        self._reads: Counter[str] = Counter()
        self._at_work = 0
        self._is_done: anyio.Event | None = None
        self._questions: types.InputRequests = {}
        self._refusal: Exception | None = None
        self._finished = False
        effects = effects_here()
        if params.request_state is None:
            key = call_key_of(ctx, params)
            is_tried_again = bool(effects.now)  # with the idempotency keys that it had
            if key is not None and not is_tried_again:
                effects.call = key.call_of(caller_of(ctx), _target_of(params))
            self.record.call = effects.call
        effects.is_told = True
        effects.add(self.record.done)
        for key, response in (params.input_responses or {}).items():
            asked = self.record.asked.get(key)
            if asked is not None and asked.response is None:
                asked.response = plain_response(response)
                self._fresh[key] = response
                check_length(key, response, self.record)

    async def run(
        self,
        handler: Callable[[ReplayContext[Any], ParamsT], Awaitable[ResultT]],
        params: ParamsT,
    ) -> ResultT | types.InputRequiredResult:
        """Run the handler, and then what was to be done after success."""
        context = ReplayContext[Any](self._ctx.lifespan_context, self, caller_of(self._ctx))
        try:
            result = check_result(await handler(context, params))
        except BaseException as error:
            if not self._is_end(error):
                raise
        else:
            if not self.is_over:
                await self.commit(result)
                return result
        return await self.end()

    def _is_end(self, error: BaseException) -> bool:
        """Return whether an exception is the end of a round that is over.

        The author's code may have swallowed `RoundOver` and raised an exception of its own, or a
        task group may have both.
        """
        if isinstance(error, Exception):
            return self.is_over
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            _, others = group.split((RoundOver, Exception))
            return others is None
        return isinstance(error, RoundOver)

    @property
    def is_over(self) -> bool:
        """Return whether a question or a bad answer has ended it."""
        return bool(self._questions) or self._refusal is not None

    def check_open(self) -> None:
        """Refuse to go on if it has ended.

        Raises:
            RoundOver: A question or a bad answer has ended it.
            RuntimeError: The handler has returned.
        """
        if self.is_over:
            raise RoundOver
        if self._finished:
            raise RuntimeError("this call has ended: its context cannot be used any more")

    def answers(self, questions: Sequence[AnyQuestion[Any]]) -> tuple[Any, ...]:
        """Return the answers to all of these, or end the round."""
        self.check_open()
        if _in_effect_of.get() is self:
            raise RuntimeError(
                "an effect asks a question, so it would be done again in the next round: ask first,"
                " and hand the answer to the effect"
            )
        answers: list[Any] = []
        missing: types.InputRequests = {}
        for question in questions:
            answer = self._recorded_answer(question)
            if answer is not None:
                answers.append(answer)
                continue
            if kind_of(question) in kinds(self._ctx):
                missing[question.key] = request_for(question)
            else:
                answers.append(assume_answer(question))
        if missing:
            for key, request in missing.items():
                self.record.asked[key] = _Asked(digest=digest_of_request(request))
            self._questions = missing
            raise RoundOver
        return tuple(answers)

    def _recorded_answer(self, question: AnyQuestion[Any]) -> BaseModel | None:
        try:
            self._uses.take("question", question.key, question, are_same)
        except KeyUsedTwice as error:
            self._refuse(error)
        self._reads[question.key] += 1
        if self._reads[question.key] > MAX_READS:
            self._refuse(
                RuntimeError(
                    f"{question.key!r} was asked {MAX_READS} times in one round, which gives the"
                    " same answer each time: give each turn of a loop a key of its own"
                )
            )
        asked = self.record.asked.get(question.key)
        if asked is None or asked.response is None:
            return None
        if asked.digest != digest_of_request(request_for(question)):
            return None
        try:
            # As the client sent it, if it came in this round; the record of it is equal.
            return read_recorded(question, self._fresh.get(question.key, asked.response))
        except BadAnswer as error:
            if question.key in self._fresh:
                self._refuse(error)
            return None  # it was valid for the version of the code that recorded it

    def _refuse(self, error: Exception) -> NoReturn:
        self._refusal = error
        raise RoundOver from error

    def take(self, kind: str, key: str) -> None:
        """Use a key in this round; raise `KeyUsedTwice` if it was used."""
        self._uses.take(kind, key)

    @contextmanager
    def working(self, kind: str, key: str) -> Generator[None]:
        """Use a key in this block; the round does not end before the block does."""
        self.check_open()
        try:
            self._uses.take(kind, key)
        except KeyUsedTwice as error:
            self._refuse(error)
        self._at_work += 1
        outside = _in_effect_of.set(self if kind == "effect" else _in_effect_of.get())
        try:
            yield
        except BaseException:
            self._uses.give_back(kind, key)
            raise
        finally:
            _in_effect_of.reset(outside)
            self._at_work -= 1
            if self._is_done is not None and not self._at_work:
                self._is_done.set()

    def idempotency_key(self, kind: str, key: str) -> str:
        """Return the key for the effect of this kind under this key: the same in every round.

        It belongs to this call.
        """
        return digest(f"{self.record.call} {kind} {key}")[:32]

    async def end(self) -> types.InputRequiredResult:
        """Return the response of a round that stopped at a question.

        Raises:
            Exception: A bad answer, or a wrong use of the context, has ended it.
        """
        if self._at_work:  # an effect that still runs must be in the record
            self._is_done = anyio.Event()
            await self._is_done.wait()
        if self._refusal is not None:
            raise self._refusal
        check_protected()
        return types.InputRequiredResult(
            input_requests=self._questions,
            request_state=self.record.model_dump_json(exclude_defaults=True),
        )

    async def commit(self, result: types.Result) -> None:
        """Run the effects that wait for success, unless the round asks or failed."""
        self._finished = True
        if isinstance(result, types.InputRequiredResult) or getattr(result, "is_error", False):
            return
        for number, (key, effect) in enumerate(self.commits.items()):
            try:
                once = partial(effect, self.idempotency_key("commit", key))
                await effects_here().run(f"{key} (on commit)", once)
            except Exception as error:
                raise CommitFailed(
                    f"the effect {key!r} failed after {number} of {len(self.commits)} were done"
                ) from error


# --- for the author -----------------------------------------------------------------------------


class ReplayContext(AsksTogether, Generic[DeskT]):
    """The handler's context, in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
        caller: The name of the caller, by the settings of the server; None for an unknown one.
    """

    def __init__(self, lifespan_context: DeskT, this: Round, caller: str | None) -> None:
        self.lifespan_context = lifespan_context
        self.caller = caller
        self._round = this

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far its request is, if it asked for progress."""
        await self._round.session.report_progress(progress, total, message)

    async def _answers_to(self, questions: Sequence[AnyQuestion[Any]]) -> tuple[Any, ...]:
        return self._round.answers(questions)

    async def _look_until(
        self, key: str, check: Action[T | None], seconds: float, poll_seconds: float
    ) -> T | None:
        now = request_here().clock
        ends = await self.memo(f"{key}, ends", lambda: now() + seconds)
        round_ends = now() + waiting.ROUND_WAIT_SECONDS

        def left() -> float:
            return min(ends, round_ends) - now()

        record = self._round.record
        turn = f"{key}, turn"
        for number in count(record.values.get(turn, 1)):
            looked, over = f"{key}, look {number}", f"{key}, over {number}"
            going_on = f"{key}, go on {number}"
            look = partial(waiting.poll, check, left=left, poll_seconds=poll_seconds)
            found = await self.memo(looked, look)
            is_over = found is not None
            if is_over or await self.memo(over, lambda: now() >= ends):
                return found
            message = f"{key!r} is not there yet. Go on waiting?"
            answer = await self.elicit(Question(going_on, message, GoOn))
            if answer.go_on == "no":
                break
            # The state has no room for all turns of a long wait.
            record.values[turn] = number + 1
            del record.values[looked], record.values[over], record.asked[going_on]
        return None

    async def memo(self, key: str, compute: Action[T]) -> T:
        """Compute a value once in a call; it is the same in all of its rounds.

        Args:
            key: The value's name; the author's own, unique among memos, stable across versions.
            compute: Computes it, async or not.

        Raises:
            TypeError, ValueError: JSON cannot hold it, or makes another value of it, as of a tuple.
        """
        values, earlier = self._round.record.values, effects_here().values
        with self._round.working("memo", key):
            if key not in values:
                if key not in earlier:
                    earlier[key] = read_back(key, await await_result(compute()))
                values[key] = earlier[key]
            return copy.deepcopy(values[key])

    async def once(self, key: str, effect: Effect[T], *, settled: Settled | None = None) -> T:
        """Run an effect unless the record says that it has run, and return what it returned.

        The value is recorded as JSON, and comes back as the effect's annotation says; without one,
        as JSON. A value of which JSON makes none is None.

        An effect that raised may be tried again in this round. In the guard a later round asks
        `settled` first, and is in doubt without it, unless the effect raised `NotDone`.

        Args:
            key: The effect's name; the author's own, unique among effects, stable across versions.
            effect: Does the effect, with the idempotency key it is given.
            settled: Asks the destination before it is tried again: see `effects.Settled`.

        Raises:
            MCPError: -32603, it may have happened, and the destination cannot say.
        """
        record = self._round.record
        with self._round.working("effect", key):
            if key not in record.done:
                once = partial(effect, self._round.idempotency_key("once", key))
                value = await effects_here().run(key, once, settled)
                record.done.append(key)
                if value is not None:
                    record.returned[key] = value
            return cast("T", value_of(effect, record.returned.get(key)))

    def on_commit(self, effect: Effect[object], *, key: str | None = None) -> None:
        """Run an effect when the handler has returned a result that is not an error.

        Args:
            effect: Does the effect, with the idempotency key it is given.
            key: The effect's name; the author's own, unique among these effects, stable across
                versions. None for its place in their order, which a new version may change.

        Raises:
            KeyUsedTwice: A ValueError; there is an effect under this key.
        """
        self._round.check_open()
        commits = self._round.commits
        key = str(len(commits)) if key is None else key
        self._round.take("commit", key)
        commits[key] = effect


def keyed_replay(
    handler: Callable[[ReplayContext[DeskT], ParamsT], Awaitable[ResultT]],
) -> HandlerOf[ParamsT, ResultT]:
    """Turn a handler that elicits into one that returns its questions.

    It is a tool's, a prompt's or a resource's.

    Raises (at call time):
        BadAnswer: -32602, an answer does not fit its question.
        KeyUsedTwice: A ValueError; two different questions of one round have one key, or two
            effects, or two memos.
        CommitFailed: An effect of `on_commit` failed; those before it have happened.
    """
    check_handler(handler, "keyed_replay", (ReplayContext, types.InputResponseRequestParams))

    async def replayed(ctx: Context, params: ParamsT) -> ResultT | types.InputRequiredResult:
        with keeping_effects():
            return await Round(ctx, params).run(handler, params)

    vars(replayed)[TELLS_EFFECTS] = True
    return seals(replayed)


def _target_of(params: types.InputResponseRequestParams) -> str:
    """Return the target of a request: the tool or prompt with its arguments, or the resource.

    The arguments count as they are read, in whatever words they come.
    """
    meant = {"input_responses", "request_state", "meta"}
    said = params.model_dump(mode="json", exclude=meant)
    if "arguments" in said:
        said["arguments"] = CallNaming().digest_of(arguments_as_read(params))
    return json.dumps(said, sort_keys=True)
