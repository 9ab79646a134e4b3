"""Option H's store: a handler's frame waits here between two rounds.

The handler runs in a task of its own, once. A question ends the *request* and parks the *task*; the
state that the client carries is the frame's name and the number of what it asked. The request with
the answer wakes the task and waits for its next question or its result.

What was traded
---------------
- The frame lives in this process. A restart, a crash or a failover loses the call: the client is
  told so in one clear error and starts over. A fleet needs sticky routing on the token.
- One task per parked call, not a bare suspended coroutine (which costs less than half): a cancel
  scope, a timeout or an `async with` that the author holds across a question belongs to that task
  and keeps working. A timeout that fires while the user thinks raises in the author's code at once;
  the answer that comes later gets whatever the handler then said.
- The task parks on a bare future below anyio (`detached`), not on an `anyio.Event` in a task group:
  about half the memory. Nothing of the first request is kept but the tool's name and arguments.
- The handler belongs to a call, not to a round: it gets a `CallParams` in place of a request's
  parameters, and starts with the context variables of the store, not of the first request. A
  round's principal or trace would be the wrong one two rounds later (and cost half a kilobyte).
- A frame is parked at one `await`. Questions that are asked together (`elicit_all`) share it and
  may be answered one by one; two tasks of one handler that ask at once get a RuntimeError.
- Every answered question of a live call is remembered by a digest of its answer, so that a round
  delivered twice, at once or later, gets the same response and the code below the question runs
  once. A *different* answer to an answered question is refused. A finished call's response is kept
  for a bounded time; an exception is kept without its traceback and raised as a new one for each
  delivery.
- What clients can fill is bounded: calls and bytes, in all and for each authenticated caller.
- A request that is cancelled in the first round takes its frame along, since the client has no
  state of it. In a later round the frame goes on, and the client may retry.

Knows `frame`, `detached` and `questions`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Self, TypeVar, cast

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import MCPError

from mrtr_options.checks import check_numbers
from mrtr_options.sdk.capabilities import kinds
from mrtr_options.sdk.current_request import caller_of, check_protected
from mrtr_options.sdk.handler import (
    CallParams,
    Context,
    DeskT,
    HandlerOf,
    NotBegun,
    ResultT,
    check_handler,
    check_result,
    mark_need,
    mark_times,
    refusal,
)
from mrtr_options.sdk.questions import (
    Cancelled,
    Declined,
    answered_differently,
    read_answer,
    request_for,
)
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.suspended.detached import Task, parking, spawn, stop
from mrtr_options.sdk.suspended.frame import Asked, Frame, LinearContext

ErrorT = TypeVar("ErrorT", bound=BaseException)

logger = logging.getLogger("mrtr_options.suspended")

CLEANUP_SECONDS = 5.0
"""The time that the author's `finally` blocks get in `aclose` before they are cancelled."""

Handler = Callable[[LinearContext[Any], CallParams], Awaitable[types.Result]]
Params = types.CallToolRequestParams | types.GetPromptRequestParams


def _unknown_call() -> MCPError:
    return refusal(Reason.UNKNOWN_CONTINUATION, kind=NotBegun)


def _full(held: str) -> MCPError:
    known = f"This server holds {held} and takes no more."
    return refusal(Reason.TOO_MANY_CONTINUATIONS, known, kind=NotBegun)


@dataclass(kw_only=True, eq=False)
class ContinuationStore:
    """A store of the frames of unanswered calls.

    It is an async context manager, open while the server serves. A store that several servers have
    entered closes with the last of them.

    Attributes:
        max_parked: How many unfinished calls it holds. One more is refused; none is dropped.
        max_parked_per_caller: How many of them one authenticated caller may have. Callers that are
            not authenticated cannot be told apart, so for them only the bounds for all hold.
        max_bytes: How many bytes of arguments, questions and answers the unfinished calls may hold,
            as JSON. Arguments and answers beyond it are refused and can be sent again. As much
            again is kept of results.
        max_bytes_per_caller: How many of them one authenticated caller may have.
        idle_seconds: How long a call may go without a request before it is given up.
        keep_seconds: How long the response of a finished call is kept for a round sent again.
            Longer than clients wait for a response, which is mostly a minute.
        max_finished: How many finished calls are kept; beyond that the oldest goes first.

    Raises:
        ValueError: A number is not over 0.
    """

    max_parked: int = 100_000
    max_parked_per_caller: int = 1_000
    max_bytes: int = 256 * 2**20
    max_bytes_per_caller: int = 8 * 2**20
    idle_seconds: float = 600.0
    keep_seconds: float = 120.0
    max_finished: int = 10_000

    def __post_init__(self) -> None:
        check_numbers("ContinuationStore", self.max_parked, self.max_parked_per_caller)
        check_numbers("ContinuationStore", self.max_bytes, self.max_bytes_per_caller)
        check_numbers("ContinuationStore", self.idle_seconds, self.keep_seconds)
        # Both in the order of `expires`: every change of a frame's time moves it to the end. A
        # plain dict would find its first entry ever more slowly as entries leave from the front.
        self._live: OrderedDict[str, Frame] = OrderedDict()
        self._finished: OrderedDict[str, Frame] = OrderedDict()
        self._calls = Counter[str | None]()
        self._bytes = Counter[str | None]()
        self._live_bytes = self._finished_bytes = 0
        self._sweeper: Task | None = None
        self._context = copy_context()
        self._emptied = anyio.Event()
        self._entered = 0

    def __len__(self) -> int:
        """Return the number of unfinished calls."""
        return len(self._live)

    async def __aenter__(self) -> Self:
        self._entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:  # else another server's calls are here as well
            await self.aclose()

    async def aclose(self) -> None:
        """Give up every call and wait, for a bounded time, until the author's cleanup has run."""
        while self._finished:
            self._forget()
        with anyio.CancelScope(shield=True):
            for end in (Frame.abandon, Frame.cancel):
                for frame in list(self._live.values()):
                    end(frame)
                with anyio.move_on_after(CLEANUP_SECONDS):
                    while self._live:
                        self._emptied = anyio.Event()
                        await self._emptied.wait()
        if self._live:
            logger.warning(
                "%d calls are left at shutdown: their code did not end within %g s of being"
                " cancelled",
                len(self._live),
                CLEANUP_SECONDS,
            )
        if self._sweeper is not None:
            stop(self._sweeper)
            self._sweeper = None

    def linear(
        self, handler: Callable[[LinearContext[DeskT], CallParams], Awaitable[ResultT]]
    ) -> HandlerOf[Params, ResultT]:
        """Turn a handler that awaits its answers into one that returns its questions.

        It may be a tool's handler or a prompt's.

        While the store is not open, that handler refuses every call (-32603).
        """
        check_handler(handler, "store.linear", (LinearContext, CallParams))

        async def suspended(ctx: Context, params: Params) -> ResultT | types.InputRequiredResult:
            check_protected()
            if params.request_state is None:
                result = await self._begin(handler, ctx, params)
            else:
                result = await self._resume(ctx, params)
            return cast("ResultT | types.InputRequiredResult", result)

        return mark_times(mark_need(suspended, self), idle_seconds=self.idle_seconds)

    async def _begin(self, handler: Handler, ctx: Context, params: Params) -> types.Result:
        if not self._entered:  # nothing would end the call
            raise refusal(Reason.STORE_NOT_ENTERED, kind=NotBegun)
        frame = self._admitted(ctx, params)
        call = CallParams.of(params)
        context = LinearContext[Any](ctx.lifespan_context, frame)
        frame.task = spawn(lambda: self._run(handler, context, call, frame), self._context)
        try:
            return await self._output(frame, 0)
        except anyio.get_cancelled_exc_class():
            if frame.end is None:
                frame.abandon()
            raise

    async def _run(
        self, handler: Handler, context: LinearContext[Any], call: CallParams, frame: Frame
    ) -> None:
        try:
            output = check_result(await handler(context, call))
            size = len(_as_json(output))
        except Exception as error:
            self._finish(frame, error)
        except BaseException as error:
            # Cancelled, or CallAbandoned, alone or in a group of the author's.
            if frame.abandoned:
                self._finish(frame, refusal(Reason.UNKNOWN_CONTINUATION))
            else:
                logger.error("a call ended in %s", type(error).__name__, exc_info=error)
                self._finish(frame, refusal(Reason.CALL_ENDED))
            # Raised from here another one would end the event loop and every other call with it.
            if isinstance(error, anyio.get_cancelled_exc_class()):
                raise
        else:
            self._finish(frame, output, size)

    def _admitted(self, ctx: Context, params: Params) -> Frame:
        """Return a new frame, held.

        Raises:
            MCPError: -32603, the store or the caller's share of it is full.
        """
        if len(self._live) >= self.max_parked:
            raise _full(f"{self.max_parked} unanswered calls")
        owner = caller_of(ctx)
        if owner is not None and self._calls[owner] >= self.max_parked_per_caller:
            raise _full(f"{self._calls[owner]} unanswered calls of yours")
        frame = Frame(secrets.token_urlsafe(16), kinds(ctx), owner)
        self._hold(frame, len(json.dumps(params.arguments)))
        self._calls[owner] += 1
        self._live[frame.name] = frame
        return frame

    def _hold(self, frame: Frame, size: int) -> None:
        """Count `size` more bytes for a call.

        Raises:
            MCPError: -32603, they do not fit.
        """
        if self._live_bytes + size > self.max_bytes:
            raise _full(f"{self._live_bytes} bytes of unanswered calls")
        owner = frame.owner
        if owner is not None and self._bytes[owner] + size > self.max_bytes_per_caller:
            raise _full(f"{self._bytes[owner]} bytes of unanswered calls of yours")
        self._add(frame, size)

    def _add(self, frame: Frame, size: int) -> None:
        owner = frame.owner
        frame.bytes += size
        self._bytes[owner] += size
        self._live_bytes += size

    def _finish(self, frame: Frame, output: types.Result | BaseException, size: int = 0) -> None:
        del self._live[frame.name]
        self._live_bytes -= frame.bytes
        owner = frame.owner
        self._bytes[owner] -= frame.bytes
        self._calls[owner] -= 1
        if not self._calls[owner]:
            del self._calls[owner], self._bytes[owner]
        frame.task = None
        if frame.parked is not None:  # a task that the handler left behind
            frame.parked.wake(None)
        frame.end = output
        frame.wake_waiters()
        if not frame.abandoned:
            frame.bytes = size
            frame.expires = anyio.current_time() + self.keep_seconds
            self._finished[frame.name] = frame
            self._finished_bytes += frame.bytes
            while len(self._finished) > self.max_finished or self._finished_bytes > self.max_bytes:
                self._forget()
        if not self._live:
            self._emptied.set()

    def _forget(self) -> None:
        """Drop the oldest finished call."""
        _, frame = self._finished.popitem(last=False)
        self._finished_bytes -= frame.bytes

    async def _resume(self, ctx: Context, params: Params) -> types.Result:
        name, _, number = (params.request_state or "").rpartition(".")
        frame = self._live.get(name) or self._finished.get(name)
        try:
            asked = int(number)
        except ValueError:  # also a number of too many digits
            raise _unknown_call() from None
        if frame is None or frame.abandoned or not 0 <= asked < len(frame.asked):
            raise _unknown_call()
        questions = frame.asked[asked]
        given = params.input_responses or {}
        responses = {each.key: given[each.key] for each in questions if each.key in given}
        said = {key: _as_json(response) for key, response in responses.items()}
        digests = {key: hashlib.sha256(text).digest() for key, text in said.items()}
        is_open = not frame.has_output(asked + 1) and frame.parked is not None
        earlier = (frame.answers or {}).get(asked)
        if is_open and earlier is None:
            if not responses:
                self._touch(frame)
                return _as_result(frame, asked)
            _check(questions, responses)
            self._hold(frame, sum(map(len, said.values())))  # the author's code may keep them
            frame.answers = {**(frame.answers or {}), asked: digests}
            frame.askable = kinds(ctx)
            assert frame.parked is not None
            frame.parked.wake(responses)
        elif earlier is not None:
            for key, digest in digests.items():
                # One that is new is not taken here: it is asked for again, under the next number.
                if digest != earlier.get(key, digest):
                    raise answered_differently(key, NotBegun)
        return await self._output(frame, asked + 1)

    async def _output(self, frame: Frame, number: int) -> types.Result:
        """Wait for the handler's next output, and keep the frame from idling out meanwhile."""
        self._touch(frame)
        if not frame.has_output(number):
            # A handler that waits for nothing else has its output after this turn of the loop.
            # Being woken takes another turn.
            await anyio.lowlevel.checkpoint()
        if not frame.has_output(number):
            waiter = parking()
            frame.waiters = [*(frame.waiters or ()), waiter]
            try:
                await waiter
            finally:
                frame.waiters = [other for other in frame.waiters if other is not waiter] or None
                self._touch(frame)
        frame.tell_effects()
        result = _as_result(frame, number)
        if number == frame.counted and frame.end is None:  # a question has been asked, and is kept
            frame.counted += 1
            self._add(frame, len(result.model_dump_json()))
        return result

    def _touch(self, frame: Frame) -> None:
        if frame.name in self._live:
            frame.expires = anyio.current_time() + self.idle_seconds
            self._live.move_to_end(frame.name)
        if self._sweeper is None:
            self._sweeper = spawn(self._sweep, self._context)

    async def _sweep(self) -> None:
        """Give up idle calls and forget finished ones.

        One task does it for all calls, and ends when there are none.
        """
        while self._live or self._finished:
            heads = [
                next(iter(frames.values())) for frames in (self._live, self._finished) if frames
            ]
            head = min(heads, key=lambda frame: frame.expires)
            pause = head.expires - anyio.current_time()
            if pause > 0:
                # A call that ends meanwhile may have less time than this one has left.
                await anyio.sleep(min(pause, self.keep_seconds))
            elif head.end is not None:
                self._forget()
            else:
                self._touch(head)
                if not head.waiters:
                    head.abandon()
        self._sweeper = None


def _check(questions: Asked, responses: types.InputResponses) -> None:
    """Refuse a bad answer while the handler still waits, so that it can be answered properly.

    Raises:
        BadAnswer: An answer does not fit.
    """
    with suppress(Declined, Cancelled):  # ends the call's waiting, so no other answer is looked at
        for question in questions:
            if question.key in responses:
                read_answer(question, responses[question.key])


def _as_result(frame: Frame, number: int) -> types.Result:
    if number < len(frame.asked):
        return types.InputRequiredResult(
            input_requests={each.key: request_for(each) for each in frame.asked[number]},
            request_state=f"{frame.name}.{number}",
        )
    end = frame.end
    if isinstance(end, BaseException):
        # Each delivery raises an exception of its own. The stored one holds no traceback, and with
        # it no frame and no request.
        frame.end = _afresh(end)
        raise end
    return cast("types.Result", end)


def _afresh(error: ErrorT) -> ErrorT:
    """Return the same exception without traceback, cause and context.

    An exception that cannot be made again becomes a RuntimeError with its text.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return cast("ErrorT", group.derive([_afresh(each) for each in group.exceptions]))
    # Not by its own constructor, whose parameters are the author's.
    kind: Any = type(error)
    builtin: Any = next(each for each in kind.__mro__ if each.__module__ == "builtins")
    args = builtin.__reduce__(error)[1]
    try:
        fresh = kind.__new__(kind, *args)
    except Exception:  # its class takes other arguments
        return cast("ErrorT", RuntimeError(f"{kind.__name__}: {error}"))
    builtin.__init__(fresh, *args)
    fresh.__dict__.update(error.__dict__)
    return fresh


def _as_json(response: types.Result) -> bytes:
    return json.dumps(response.model_dump(mode="json"), sort_keys=True).encode()
