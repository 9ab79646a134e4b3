"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database, not in a process.

The handler runs as a workflow of DBOS, on the process that took the call's first round. Every step,
every question and every answer is recorded. A question is published as an event and the answer
awaited as a message; the state that the client carries is the call's handle and the number of the
round, sealed. Whichever instance gets the next round sends the answer on and waits for the next event.

What holds, and what does not
-----------------------------
- Between two rounds and inside one, any process may die. When a round finds the process of its call
  dead, or when a process starts, the call goes back to the engine's queue, and a live process runs
  the handler again from its first line, with everything recorded taken from the record: the author's
  code must come by the same steps and questions again (no clock, no dice outside a step).
- A step that is recorded is never run again. One that ran and was not recorded (the process died in
  between) is run again: give its key to a destination that honours it.
- An answer is taken once. The same one again gets the response on record; a different one is refused.
  A bad one is refused and may be corrected.
- A request is not held for longer than `wait_seconds`. After that the round ends without a question
  ("not done yet"): the client sends the state back and waits on. An old client cannot do that, so its
  one request is held for as long as it takes.
- A first request that is cancelled takes its call along, since nobody has the state. A later one does
  not. A first response that is *lost* leaves its call behind, and the client begins another: nothing
  in the protocol tells the two first requests from one. The one left behind is given up in time.
- A call is finished by the code it was begun on. The version is the digest of the handler's file (or
  what the author says it is); the engine gives a call to processes of its version only. A round that
  reaches another version is passed on as long as a process of the call's own version lives, and is
  refused in one clear error when none does. A deployment that must not lose calls keeps old processes
  until their calls are done; that is what the engine recommends too.
- Waiting costs a task here and a row there. On SQLite each process also looks at the database every
  few milliseconds for every call that it has parked: it is for one machine and some hundred calls.
- asyncio only, as the engine is. Instances in one process share its one engine; a process that dies is
  tried with real processes.

Knows `durable_engine` and `questions`.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import mcp_types as types
from dbos import DBOS, SetWorkflowID
from mcp import MCPError
from mcp.server import ServerRequestContext

from mrtr_options.sdk.durable_engine import LISTEN_SECONDS, Engine, current, opened, status_of
from mrtr_options.sdk.questions import (
    AnswerT,
    AsksTogether,
    BadAnswer,
    Cancelled,
    Declined,
    Inquiry,
    Kinds,
    Question,
    assumed,
    is_modern,
    kinds,
    read_answer,
    request_for,
)

DeskT = TypeVar("DeskT")
T = TypeVar("T")
ResultT = TypeVar("ResultT", bound=types.Result)

FIRST_LOOK_SECONDS = 0.15
"""How long a round waits before it asks whether anybody is still at its call."""
AGAIN_SECONDS = 0.5
"""How long it waits before it asks again."""


class CallAbandoned(BaseException):
    """Raised at `await ctx.elicit()` when nobody has answered for too long.

    Not an `Exception`, so that the author's `except Exception` does not take it for a failure.
    """


# --- what is recorded ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """What the handler gets in place of a request's parameters: the part that all rounds share.

    Attributes:
        name: The tool, or the prompt.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class Caller:
    """What a call has to know of the client that sent its latest round.

    Attributes:
        askable: What it can be asked.
        takes_tasks: Whether it can be given a task (see `tasks`).
        principal: Who it is; None for nobody in particular.
    """

    askable: Kinds
    takes_tasks: bool = False
    principal: str | None = None


@dataclass(frozen=True)
class Answers:
    """A message to a call: what the user said, by question, and who brought it.

    Attributes:
        responses: By the question's key.
        caller: The client that brought them.
    """

    responses: types.InputResponses
    caller: Caller

    @property
    def digest(self) -> str:
        said = [
            f"{key} {type(response).__name__} {response.model_dump_json()}"
            for key, response in sorted(self.responses.items())
        ]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()


@dataclass(frozen=True)
class Output:
    """What a call publishes as event n+1: what the answers to the questions under n led to.

    Attributes:
        after: The digest of those answers, None where there were none.
    """

    after: str | None


@dataclass(frozen=True)
class Asked(Output):
    """The call asks, by key."""

    requests: types.InputRequests


@dataclass(frozen=True)
class Ended(Output):
    """The call is over."""

    outcome: types.Result | Exception


@dataclass(frozen=True)
class Refused(Output):
    """Answers that did not fit; the questions stay open."""

    error: MCPError


# --- what the author sees -----------------------------------------------------------------------


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
        """Run an effect unless it is on record; what it returned comes from the record then.

        An effect that raises is recorded as having failed with that, and is not tried again. An
        error that cannot be recorded as it is comes as a RuntimeError.

        Args:
            key: The effect's name; the author's own, unique in the call, stable across versions.
            effect: Does the effect. Gets an idempotency key, the same on every attempt.

        Raises:
            ValueError: The key is taken.
        """
        if key in self._steps:
            raise ValueError(f"there is a step {key!r} in this call already: a key is for one effect")
        self._steps.add(key)
        idempotency_key = hashlib.sha256(f"{self._call}/{key}".encode()).hexdigest()[:32]

        async def run() -> T:
            try:
                return await effect(idempotency_key)
            except Exception as error:
                # The handler gets the same thing now as from the record later.
                raise _recordable(error) from error

        return await DBOS.run_step_async({"name": key}, run)

    async def elicit(self, question: Question[AnswerT] | Inquiry[AnswerT]) -> AnswerT:
        """Ask the user, or the client, and wait here for as long as it takes.

        Where the client cannot be asked, what the question assumes takes the answer's place.

        Raises:
            Declined, Cancelled, CannotAsk: See `questions`.
            CallAbandoned: Nobody answered in time.
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
        """The question's own key, or that with a number where it was asked under before."""
        free, number = key, 1
        while free in self._keys:
            number += 1
            free = f"{key}-{number}"
        self._keys.add(free)
        return free

    async def _answers(
        self, questions: dict[str, Question[AnswerT] | Inquiry[AnswerT]]
    ) -> dict[str, AnswerT]:
        """The first answers that fit, at least one."""
        topic, self.number = self.topic(), self.number + 1
        while True:
            message: Answers | None = await DBOS.recv_async(topic, self._idle_seconds)
            if message is None:
                self.abandoned, self.after = True, None
                raise CallAbandoned
            said = {key: message.responses[key] for key in questions if key in message.responses}
            if not said:
                continue  # to questions that are no longer open
            try:
                answers = {key: read_answer(questions[key], said[key]) for key in said}
            except BadAnswer as error:
                await self.publish(Refused(message.digest, as_mcp_error(error)))
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
        """Called when nothing is asked any more."""

    async def publish(self, output: Output) -> None:
        """Tell whoever waits what the call came to."""
        await DBOS.set_event_async(str(self.number), output)


AnyHandler = Callable[[Any, Call], Awaitable[types.Result]]
Params = types.CallToolRequestParams | types.GetPromptRequestParams


# --- errors -------------------------------------------------------------------------------------


def unknown_call() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        "This call is not waiting for an answer: it was given up after too long a pause, was "
        "cancelled, or is on another database. Call the tool again.",
        {"reason": "unknown_call"},
    )


def _other_version() -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        "This call began on another version of this tool, and no server of that version is left to "
        "finish it. Call the tool again.",
        {"reason": "other_version"},
    )


def _spent(key: str) -> MCPError:
    return MCPError(
        types.INVALID_PARAMS,
        f"The question {key!r} of this call has been answered differently before.",
        {"reason": "answered_differently", "question": key},
    )


def as_mcp_error(error: MCPError) -> MCPError:
    """The error without its class, whose constructor may take something else than it was made of."""
    return MCPError(error.code, error.message, error.data)


def _recordable(error: Exception) -> Exception:
    """An error that another process can read."""
    if isinstance(error, MCPError):
        return as_mcp_error(error)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# --- the workflow -------------------------------------------------------------------------------

Workflow = Callable[[Call, Caller], Coroutine[Any, Any, None]]

_serving: dict[str, list[DurableStore]] = {}
"""The open stores of this process that can run a workflow, by its name."""
_begun: dict[str, DurableStore] = {}
"""Where a call was begun that does not run yet."""
_workflows: dict[str, Workflow] = {}
"""Every workflow that the engine was told of; it keeps them for as long as the process lives."""


def workflow_named(name: str) -> Workflow:
    """The workflow of this name. It runs the handler of an open store."""
    if name in _workflows:
        return _workflows[name]

    @DBOS.workflow(name=name)
    async def run(call: Call, caller: Caller) -> None:
        engine, handle = current(), DBOS.workflow_id
        assert handle is not None
        task = asyncio.current_task()
        assert task is not None
        engine.running[handle] = task
        try:
            store = _begun.pop(handle, None) or next(iter(_serving.get(name, ())), None)
            if store is None:
                raise asyncio.CancelledError  # it stays with the engine for somebody who can
            store.running.add(handle)
            try:
                await store.run(name, call, handle, caller)
            finally:
                store.running.discard(handle)
        except asyncio.CancelledError:
            engine.interrupted.add(handle)
            raise
        finally:
            del engine.running[handle]

    _workflows[name] = run
    return run


# --- the store ----------------------------------------------------------------------------------


class DurableStore:
    """Turns handlers that await their answers into ones that return their questions.

    Args:
        url: The database: `sqlite:///file`, or `postgresql://...` for a fleet on several machines.
            None for a temporary file, which is enough to try it and keeps nothing.
        idle_seconds: How long a question may stay unanswered before its call is given up.
        wait_seconds: How long a request is held before the client is told to come again.
        version: The version of the handlers' code; None for the digest of their file.

    Raises:
        ValueError: Not such a URL. One line that says what to do.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        idle_seconds: float = 600.0,
        wait_seconds: float = 10.0,
        version: str | None = None,
    ) -> None:
        if url is not None and not url.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("the database is sqlite:///FILE or postgresql://..., see MRTR_DATABASE_URL")
        self._url = url
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._version = version
        self._handlers: dict[str, AnyHandler] = {}
        self._engine: Engine | None = None
        self._lifespan_context: Any = None
        self.running: set[str] = set()

    def linear(
        self, handler: Callable[[DurableContext[DeskT], Call], Awaitable[ResultT]]
    ) -> Callable[
        [ServerRequestContext[DeskT, Any], Params], Awaitable[ResultT | types.InputRequiredResult]
    ]:
        """The handler of a tool or a prompt as a server takes it.

        Its qualified name is the workflow's: stable, and unique.
        """
        return self.rounds(self.register(handler))

    def register(self, handler: AnyHandler) -> str:
        """Have a handler run here; the name of its workflow."""
        name = f"{handler.__qualname__}@{self._version or _digest_of_file(handler)}"
        self._handlers[name] = handler
        return name

    def rounds(self, name: str) -> Callable[[ServerRequestContext[Any, Any], Params], Awaitable[Any]]:
        """Answers the rounds of calls that run as the workflow of this name."""
        workflow = workflow_named(name)

        async def durable(ctx: ServerRequestContext[Any, Any], params: Params) -> types.Result:
            if params.request_state is None:
                return await self._begin(workflow, ctx, params)
            return await self._resume(ctx, params)

        return durable

    @asynccontextmanager
    async def serving(self, lifespan_context: object) -> AsyncGenerator[DurableStore]:
        """Open while the server serves. Calls that are not finished at its end stay in the database.

        Args:
            lifespan_context: What handlers find in theirs.

        Raises:
            WrongDatabase: The engine of this process runs on another database.
        """
        names = list(self._handlers)
        version = "+".join(sorted({name.rpartition("@")[2] for name in names}))
        self._lifespan_context = lifespan_context
        for name in names:
            _serving.setdefault(name, []).append(self)
        try:
            async with opened(self._url, version, names) as self._engine:
                try:
                    yield self
                finally:
                    # First out of sight, so that the engine starts nothing here any more.
                    self._leave(names)
                    with anyio.CancelScope(shield=True):
                        await self._engine.interrupt(list(self.running))
        finally:
            self._leave(names)

    def _leave(self, names: list[str]) -> None:
        for name in names:
            if self in _serving[name]:
                _serving[name].remove(self)

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        """Run a call to its end, and publish the end."""
        context = DurableContext(self._lifespan_context, handle, caller, idle_seconds=self._idle_seconds)
        outcome = await self.outcome(name, context, call)
        await context.publish(Ended(context.after, outcome))

    async def outcome(
        self, name: str, context: DurableContext[Any], call: Call
    ) -> types.Result | Exception:
        """What a handler comes to, as it can be recorded."""
        try:
            return await self._handlers[name](context, call)
        except Exception as error:
            return _recordable(error)
        except BaseException:  # CallAbandoned, alone or in a group of the author's
            if not context.abandoned:
                raise
            return unknown_call()

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """What a call is told of the client of this round."""
        return Caller(kinds(ctx))

    async def _begin(
        self,
        workflow: Workflow,
        ctx: ServerRequestContext[Any, Any],
        params: Params,
    ) -> types.Result:
        handle = secrets.token_urlsafe(16)
        _begun[handle] = self
        try:
            with anyio.CancelScope(shield=True), SetWorkflowID(handle):
                call = Call(params.name, None if params.arguments is None else {**params.arguments})
                await DBOS.start_workflow_async(workflow, call, self.caller(ctx))
            return await self._output(ctx, handle, 0)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.stop(handle)
            raise

    async def stop(self, handle: str) -> None:
        """End a call for good: nothing it does is recorded from here on."""
        assert self._engine is not None
        await DBOS.cancel_workflow_async(handle)
        await self._engine.interrupt([handle])

    async def _resume(self, ctx: ServerRequestContext[Any, Any], params: Params) -> types.Result:
        handle, number, is_asked = _parse(params.request_state or "")
        if not is_asked:
            return await self._output(ctx, handle, number)
        asked: Output | None = await DBOS.get_event_async(handle, str(number), 0)
        if not isinstance(asked, Asked):
            raise unknown_call()
        given = params.input_responses or {}
        responses = {key: given[key] for key in asked.requests if key in given}
        if not responses:
            return await self._without_answer(ctx, asked, handle, number)
        answers = Answers(responses, self.caller(ctx))
        await DBOS.send_async(
            handle, answers, str(number), idempotency_key=f"{handle}.{number}.{answers.digest}"
        )
        return await self._output(ctx, handle, number + 1, min(responses), answers.digest)

    async def _without_answer(
        self, ctx: ServerRequestContext[Any, Any], asked: Asked, handle: str, number: int
    ) -> types.Result:
        output: Output | None = await DBOS.get_event_async(handle, str(number + 1), 0)
        if output is not None and not isinstance(output, Refused):
            return await self.result_of(ctx, output, handle, number + 1)
        await self.look_after(handle)
        return await self.result_of(ctx, asked, handle, number)

    async def _output(
        self,
        ctx: ServerRequestContext[Any, Any],
        handle: str,
        number: int,
        key: str = "",
        answer: str | None = None,
    ) -> types.Result:
        """Wait for what the call publishes next, and see to it that somebody is at it.

        Args:
            ctx: The request that waits.
            handle, number: Of the event.
            key, answer: The question that this request answers, and the digest of what it says.
        """
        deadline = anyio.current_time() + self._wait_seconds
        pause = FIRST_LOOK_SECONDS
        while True:
            output: Output | None = await DBOS.get_event_async(handle, str(number), pause)
            match output:
                case None:
                    await self.look_after(handle)
                case Refused():
                    if output.after == answer:
                        raise output.error
                    if answer is None:  # it came again without the answer, so it is asked again
                        asked: Output = await DBOS.get_event_async(handle, str(number - 1), 0)
                        return await self.result_of(ctx, asked, handle, number - 1)
                    await anyio.sleep(LISTEN_SECONDS)  # ours has not been read yet
                case _:
                    if answer is not None and output.after not in (answer, None):
                        raise _spent(key)
                    return await self.result_of(ctx, output, handle, number)
            left = deadline - anyio.current_time()
            if is_modern(ctx) and left <= 0:
                return types.InputRequiredResult(request_state=f"{handle}.{number}.later")
            pause = min(AGAIN_SECONDS, left) if is_modern(ctx) else AGAIN_SECONDS

    async def result_of(
        self, ctx: ServerRequestContext[Any, Any], output: Output, handle: str, number: int
    ) -> types.Result:
        """What ends a round, for what a call has published as event `number`."""
        match output:
            case Asked():
                return types.InputRequiredResult(
                    input_requests=dict(output.requests), request_state=f"{handle}.{number}"
                )
            case Ended(outcome=Exception() as error):
                raise error
            case Ended(outcome=types.Result() as result):
                return result
            case _:
                raise AssertionError(f"not an output that ends a round: {output}")

    async def look_after(self, handle: str) -> None:
        """See to it that a call runs somewhere.

        Raises:
            MCPError: It does not and will not.
        """
        engine = self._engine
        assert engine is not None
        status = await status_of(handle)
        if status is None or status.status not in ("PENDING", "ENQUEUED", "SUCCESS"):
            raise unknown_call()
        if status.status != "PENDING" or status.executor_id is None:
            return
        if status.executor_id != engine.process:
            dead = await engine.take_over(status.executor_id, list(self._handlers))
            if dead and status.name not in self._handlers:
                raise _other_version()
        elif handle in engine.interrupted:
            if status.name not in self._handlers:
                raise _other_version()
            await engine.run_again(handle)


def _digest_of_file(handler: Callable[..., Any]) -> str:
    # The whole file, since a handler is more than its own lines; better refused once too often.
    return hashlib.sha256(Path(handler.__code__.co_filename).read_bytes()).hexdigest()[:16]


def _parse(state: str) -> tuple[str, int, bool]:
    """The handle, the number, and whether a question was asked under it.

    Raises:
        MCPError: Genuine, but not a state of this kind.
    """
    handle, _, rest = state.partition(".")
    number, _, later = rest.partition(".")
    if not number.isdecimal() or len(number) > 9 or later not in ("", "later"):
        raise unknown_call()
    return handle, int(number), not later
