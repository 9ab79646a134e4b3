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
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
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
    BadAnswer,
    Cancelled,
    Declined,
    Question,
    can_ask,
    is_modern,
    read_answer,
    request_for,
    without_asking,
)

DeskT = TypeVar("DeskT")
T = TypeVar("T")

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
        name: The tool.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, Any] | None


@dataclass(frozen=True)
class _Answer:
    """A message to a call: what the user said, and whether the client can be asked again."""

    response: types.InputResponse
    askable: bool

    @property
    def digest(self) -> str:
        said = f"{type(self.response).__name__} {self.response.model_dump_json()}"
        return hashlib.sha256(said.encode()).hexdigest()


@dataclass(frozen=True)
class _Asked:
    """The call asks; `after` is the digest of the answer that led here, None where none did."""

    key: str
    request: types.ElicitRequest
    after: str | None


@dataclass(frozen=True)
class _Ended:
    """The call is over."""

    outcome: types.CallToolResult | Exception
    after: str | None


@dataclass(frozen=True)
class _Refused:
    """An answer that did not fit; the question stays open."""

    error: MCPError
    answer: str


_Output = _Asked | _Ended | _Refused
"""What a call publishes as event n+1: what the answer to question n led to."""


# --- what the author sees -----------------------------------------------------------------------


class DurableContext(Generic[DeskT]):
    """What the handler gets in place of the SDK's request context.

    Attributes:
        lifespan_context: The server's lifespan context.
    """

    def __init__(
        self, lifespan_context: DeskT, call: str, *, askable: bool, idle_seconds: float
    ) -> None:
        self.lifespan_context = lifespan_context
        self._call = call
        self._askable = askable
        self._idle_seconds = idle_seconds
        self._asking: str | None = None
        self._steps: set[str] = set()
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

    async def elicit(self, question: Question[AnswerT]) -> AnswerT:
        """Ask the user, and wait here for as long as it takes.

        Where the client cannot be asked, what the question assumes takes the answer's place.

        Raises:
            Declined, Cancelled, CannotAsk: See `questions`.
            CallAbandoned: Nobody answered in time.
            RuntimeError: Another task of this handler is waiting for an answer.
        """
        if self.abandoned:
            raise CallAbandoned
        if not self._askable:
            return without_asking(question)
        if self._asking is not None:
            raise RuntimeError(
                f"cannot ask {question.key!r}: this call is waiting for another answer; "
                "ask one question at a time"
            )
        self._asking = question.key
        try:
            await self.publish(_Asked(question.key, request_for(question), self.after))
            return await self._answer(question)
        finally:
            self._asking = None

    async def _answer(self, question: Question[AnswerT]) -> AnswerT:
        topic, self.number = str(self.number), self.number + 1
        while True:
            message: _Answer | None = await DBOS.recv_async(topic, self._idle_seconds)
            if message is None:
                self.abandoned, self.after = True, None
                raise CallAbandoned
            try:
                answer = read_answer(question, message.response)
            except BadAnswer as error:
                await self.publish(_Refused(_as_mcp_error(error), message.digest))
                continue
            except (Declined, Cancelled):
                self._settle(message)
                raise
            self._settle(message)
            return answer

    def _settle(self, message: _Answer) -> None:
        self._askable, self.after = message.askable, message.digest

    async def publish(self, output: _Output) -> None:
        """Tell whoever waits what the call came to."""
        await DBOS.set_event_async(str(self.number), output)


Handler = Callable[[DurableContext[DeskT], Call], Awaitable[types.CallToolResult]]
ResultT = types.CallToolResult | types.InputRequiredResult


# --- errors -------------------------------------------------------------------------------------


def _unknown_call() -> MCPError:
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


def _as_mcp_error(error: MCPError) -> MCPError:
    """The error without its class, whose constructor may take something else than it was made of."""
    return MCPError(error.code, error.message, error.data)


def _recordable(error: Exception) -> Exception:
    """An error that another process can read."""
    if isinstance(error, MCPError):
        return _as_mcp_error(error)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# --- the workflow -------------------------------------------------------------------------------

_serving: dict[str, list[DurableStore]] = {}
"""The open stores of this process that can run a workflow, by its name."""
_begun: dict[str, DurableStore] = {}
"""Where a call was begun that does not run yet."""
_workflows: dict[str, Callable[[Call, bool], Coroutine[Any, Any, None]]] = {}
"""Every workflow that the engine was told of; it keeps them for as long as the process lives."""


def _workflow(name: str) -> Callable[[Call, bool], Coroutine[Any, Any, None]]:
    """The workflow of this name. It runs the handler of an open store."""
    if name in _workflows:
        return _workflows[name]

    @DBOS.workflow(name=name)
    async def run(call: Call, askable: bool) -> None:
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
                await store.run(name, call, handle, askable=askable)
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
        wait_seconds: float = 3.0,
        version: str | None = None,
    ) -> None:
        if url is not None and not url.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("the database is sqlite:///FILE or postgresql://..., see MRTR_DATABASE_URL")
        self._url = url
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._version = version
        self._handlers: dict[str, Handler[Any]] = {}
        self._engine: Engine | None = None
        self._lifespan_context: Any = None
        self.running: set[str] = set()

    def linear(
        self, handler: Handler[DeskT]
    ) -> Callable[[ServerRequestContext[DeskT, Any], types.CallToolRequestParams], Awaitable[ResultT]]:
        """The handler as a server takes it. Its qualified name is the workflow's: stable, and unique."""
        name = f"{handler.__qualname__}@{self._version or _digest_of_file(handler)}"
        self._handlers[name] = handler
        workflow = _workflow(name)

        async def durable(
            ctx: ServerRequestContext[DeskT, Any], params: types.CallToolRequestParams
        ) -> ResultT:
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

    async def run(self, name: str, call: Call, handle: str, *, askable: bool) -> None:
        """Run a call to its end, and publish the end."""
        context = DurableContext(
            self._lifespan_context, handle, askable=askable, idle_seconds=self._idle_seconds
        )
        try:
            outcome = await self._handlers[name](context, call)
        except Exception as error:
            outcome = _recordable(error)
        except BaseException:  # CallAbandoned, alone or in a group of the author's
            if not context.abandoned:
                raise
            outcome = _unknown_call()
        await context.publish(_Ended(outcome, context.after))

    async def _begin(
        self,
        workflow: Callable[[Call, bool], Coroutine[Any, Any, None]],
        ctx: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
    ) -> ResultT:
        handle = secrets.token_urlsafe(16)
        _begun[handle] = self
        try:
            with anyio.CancelScope(shield=True), SetWorkflowID(handle):
                call = Call(params.name, params.arguments)
                await DBOS.start_workflow_async(workflow, call, can_ask(ctx))
            return await self._output(ctx, handle, 0)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await DBOS.cancel_workflow_async(handle)
                assert self._engine is not None
                await self._engine.interrupt([handle])
            raise

    async def _resume(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> ResultT:
        handle, number, is_asked = _parse(params.request_state or "")
        if not is_asked:
            return await self._output(ctx, handle, number)
        asked: _Output | None = await DBOS.get_event_async(handle, str(number), 0)
        if not isinstance(asked, _Asked):
            raise _unknown_call()
        response = (params.input_responses or {}).get(asked.key)
        if response is None:
            return await self._without_answer(asked, handle, number)
        answer = _Answer(response, can_ask(ctx))
        await DBOS.send_async(
            handle, answer, str(number), idempotency_key=f"{handle}.{number}.{answer.digest}"
        )
        return await self._output(ctx, handle, number + 1, asked.key, answer.digest)

    async def _without_answer(self, asked: _Asked, handle: str, number: int) -> ResultT:
        output: _Output | None = await DBOS.get_event_async(handle, str(number + 1), 0)
        if output is not None and not isinstance(output, _Refused):
            return _as_result(output, handle, number + 1)
        await self._look_after(handle)
        return _as_result(asked, handle, number)

    async def _output(
        self,
        ctx: ServerRequestContext[Any, Any],
        handle: str,
        number: int,
        key: str = "",
        answer: str | None = None,
    ) -> ResultT:
        """Wait for what the call publishes next, and see to it that somebody is at it.

        Args:
            ctx: The request that waits.
            handle, number: Of the event.
            key, answer: The question that this request answers, and the digest of what it says.
        """
        deadline = anyio.current_time() + self._wait_seconds
        pause = FIRST_LOOK_SECONDS
        while True:
            output: _Output | None = await DBOS.get_event_async(handle, str(number), pause)
            match output:
                case None:
                    await self._look_after(handle)
                case _Refused():
                    if output.answer == answer:
                        raise output.error
                    if answer is None:  # it came again without the answer, so it is asked again
                        asked: _Output = await DBOS.get_event_async(handle, str(number - 1), 0)
                        return _as_result(asked, handle, number - 1)
                    await anyio.sleep(LISTEN_SECONDS)  # ours has not been read yet
                case _:
                    if answer is not None and output.after not in (answer, None):
                        raise _spent(key)
                    return _as_result(output, handle, number)
            left = deadline - anyio.current_time()
            if is_modern(ctx) and left <= 0:
                return types.InputRequiredResult(request_state=f"{handle}.{number}.later")
            pause = min(AGAIN_SECONDS, left) if is_modern(ctx) else AGAIN_SECONDS

    async def _look_after(self, handle: str) -> None:
        """See to it that a call runs somewhere.

        Raises:
            MCPError: It does not and will not.
        """
        engine = self._engine
        assert engine is not None
        status = await status_of(handle)
        if status is None or status.status not in ("PENDING", "ENQUEUED", "SUCCESS"):
            raise _unknown_call()
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
        raise _unknown_call()
    return handle, int(number), not later


def _as_result(output: _Output, handle: str, number: int) -> ResultT:
    match output:
        case _Asked():
            return types.InputRequiredResult(
                input_requests={output.key: output.request}, request_state=f"{handle}.{number}"
            )
        case _Ended(outcome=Exception() as error):
            raise error
        case _Ended(outcome=types.CallToolResult() as result):
            return result
        case _:
            raise AssertionError(f"not an output that ends a round: {output}")
