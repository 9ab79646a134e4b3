"""Option K's store: a call on a durable engine, handed to the client as a task (SEP-2663, final).

The handler is L's and runs as L's does. It reaches the client in another way: `tools/call` returns
the call's handle at once, questions appear in `tasks/get`, answers go in through `tasks/update`,
and `tasks/cancel` stops the work. The server decides; a client only says, with each request, that
it takes tasks. A client that does not gets the same handler in rounds, as in L.

A task ends once: completed, failed, or cancelled. Its id is the call's handle, bound to the
principal that it was made for: to any other it is unknown. It is known for `ttl_seconds` from its
creation.

Knows `durable`, `questions` and `wire`.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import MCPError
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import TypeAdapter, ValidationError

from mrtr_options.checks import check_functions, check_numbers
from mrtr_options.sdk.call_key import CallFunction, CallNaming, iso
from mrtr_options.sdk.capabilities import is_modern, kind_of_request, kinds
from mrtr_options.sdk.durable.context import DurableContext, Running
from mrtr_options.sdk.durable.events import (
    Answers,
    Asked,
    Begun,
    Caller,
    Ended,
    Handed,
    Output,
    Reply,
)
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import MAX_BYTES, length
from mrtr_options.sdk.durable.store import DurableStore, Params
from mrtr_options.sdk.effects import ENDINGS, CallEffects, in_doubt, with_effects
from mrtr_options.sdk.handler import (
    CallParams,
    Context,
    DeskT,
    HandlerOf,
    check_handler,
    reason_of,
    refusal,
)
from mrtr_options.sdk.questions import BadAnswer
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.server import outcome_of
from mrtr_options.sdk.tasks.wire import (
    IDENTIFIER,
    CreateTaskResult,
    Task,
    TaskFields,
    TaskParams,
    UpdateTaskParams,
)

CANCELLED = (
    "Cancelled. What it had done by then stays done, and what it was doing may have happened."
)

MAX_STATUS = 4096
"""The most characters of a status."""

logger = logging.getLogger("mrtr_options.tasks")

ParamsT = TypeVar("ParamsT", bound=TaskParams)

Method = Callable[[Context, ParamsT], Awaitable[types.Result]]

_HANDLE = re.compile(r"[\w-]{1,100}", re.ASCII)
_RESPONSES = TypeAdapter(types.InputResponses)


class TaskContext(DurableContext[DeskT], Generic[DeskT]):
    """A durable handler's context that can say how far the work is."""

    async def status(self, message: str) -> None:
        """Say how far the work is, as often as you like: `statusMessage` of the task.

        Nothing of it is recorded, so a handler that runs again says it again. Without a task it has
        no effect.

        Raises:
            TypeError, ValueError: It is not a text, or longer than 4,096 characters.
        """
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a status is a text, not {message!r}")
        if len(message) > MAX_STATUS:
            raise ValueError(
                f"a status is {MAX_STATUS} characters at most, and this one has {len(message)}"
            )
        self._record.words = message
        await anyio.lowlevel.checkpoint()  # so that work that only reports can be cancelled

    async def become_task(self) -> None:
        """Go on as a task, if the client takes them; what was asked so far was asked in rounds.

        For tools that were registered with `asks_first`; the others are tasks from their first
        line.
        """
        self._check()
        record = self._record
        if record.task_at is not None or not record.caller.takes_tasks:
            return
        await self._running.record_handover()
        if record.task_at is not None:  # another task of the handler's was faster
            return
        record.outputs.append(Handed(record.updated))
        ttl_ms = record.begun.ttl_ms
        self._idle_seconds = math.inf if ttl_ms is None else ttl_ms / 1000
        left = record.updated + self._idle_seconds - self._running.now()
        self._scope.deadline = anyio.current_time() + left
        self._running.notify()


TaskHandler = Callable[[TaskContext[DeskT], CallParams], Awaitable[types.CallToolResult]]


@dataclass(kw_only=True, eq=False)
class TaskStore(DurableStore, Extension):
    """A store that serves handlers as tasks; the server's Tasks extension.

    Attributes:
        idle_seconds, wait_seconds, rounds, keep_seconds, version: See `DurableStore`.
        ttl_seconds: How long a task is known from its creation, and its questions wait; None for
            ever. One that is at work then is cancelled, and is known for as long again from its
            end.
        poll_seconds: How often clients are told to look.
        outcome_of: Makes the result of an exception of a handler; None for one that stays an error.
            Without it, `sdk.outcome_of`: a question that was declined, cancelled or could not be
            asked is a result.

    Raises:
        ValueError: A number is not over 0.
    """

    identifier = IDENTIFIER
    ttl_seconds: float | None = 3600.0
    poll_seconds: float = 0.2
    outcome_of: Callable[[Exception], types.CallToolResult | None] = outcome_of

    def __post_init__(self) -> None:
        super().__post_init__()
        check_functions("TaskStore", outcome_of=self.outcome_of)
        ttl = math.inf if self.ttl_seconds is None else self.ttl_seconds
        check_numbers("TaskStore", 1 if self.ttl_seconds is None else ttl, self.poll_seconds)
        # A key is for a call that is kept surely.
        self._key_seconds = math.inf if self.ttl_seconds is None else min(self.keep_seconds, ttl)
        self.keep_seconds = max(self.keep_seconds, ttl)
        self._ttl_ms = None if self.ttl_seconds is None else round(ttl * 1000)
        self._poll_ms = max(1, round(self.poll_seconds * 1000))

    def task(
        self,
        handler: TaskHandler[DeskT],
        *,
        required: bool = False,
        asks_first: bool = False,
        call: str | CallFunction | None = None,
        call_is_secret: bool = False,
    ) -> HandlerOf[Params, Any]:
        """Return the handler as a server takes it: tasks for clients of tasks, or else rounds.

        Args:
            handler: L's; its context can also say how far the work is.
            required: Whether it works as a task only. Other clients are refused.
            asks_first: Whether the handler begins in rounds, and says itself where the task begins
                (`ctx.become_task()`).
            call: What names a call; see `DurableStore.linear`.
            call_is_secret: Whether only one caller can know what names a call.
        """
        naming = CallNaming(call, call_is_secret)
        check_handler(handler, "store.task", (TaskContext, CallParams))
        rounds = self.in_rounds(self.register(handler, "asks" if asks_first else "task"), naming)

        async def served(ctx: Context, params: Params) -> types.Result:
            if required:
                require_client_extension(ctx, IDENTIFIER)
            return await rounds(ctx, params)

        return self.marked(served, naming)

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods of the extension, for a server to register."""
        return (
            MethodBinding("tasks/get", TaskParams, self._serve(self._get)),
            MethodBinding("tasks/update", UpdateTaskParams, self._serve(self._update)),
            MethodBinding("tasks/cancel", TaskParams, self._serve(self._cancel)),
        )

    def _serve(
        self,
        method: Method[ParamsT],
    ) -> Method[ParamsT]:
        """Return a method for requests that may call it, held for `wait_seconds` at most."""

        async def served(ctx: Context, params: ParamsT) -> types.Result:
            if not is_modern(ctx):
                raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
            _check_name(ctx, params.task_id)
            require_client_extension(ctx, IDENTIFIER)
            with anyio.move_on_after(self.wait_seconds):
                return await method(ctx, params)
            raise refusal(Reason.STILL_AT_WORK)

        return served

    # --- the call -----------------------------------------------------------------------------

    def caller(self, ctx: Context) -> Caller:
        caller = super().caller(ctx)
        return Caller(caller.askable, _takes_tasks(ctx), caller.principal)

    def begins_as_task(self, name: str, begun: Begun) -> bool:
        return name.startswith("task.") and begun.caller.takes_tasks

    async def perform(self, name: str, running: Running) -> Output:
        context = TaskContext(self._lifespan_context, running, idle_seconds=self.idle_seconds)
        if self.begins_as_task(name, running.record.begun):
            await context.become_task()
        outcome = await context.outcome(self.handlers[name](context, running.record.begun.call))
        ended = running.record.ended(outcome)
        if isinstance(outcome, Exception) and running.record.task_at is not None:
            effects = CallEffects(
                ended.effects,
                is_named=bool(running.record.begun.same),
                ending=outcome,
                is_handed_on=ended.unknown is not None,
            )
            told = self.outcome_of(outcome)
            if told is not None and isinstance(outcome, ENDINGS):
                told = with_effects(told, effects)
            outcome = told or outcome
            if not isinstance(outcome, MCPError | types.Result):
                logger.error("task %s failed", running.handle, exc_info=outcome)
                failed = MCPError(types.INTERNAL_ERROR, "Internal server error")
                outcome = in_doubt(ended.effects) if ended.effects else failed
        return replace(ended, outcome=outcome)

    async def result_of(self, ctx: Context, handle: str, reply: Reply) -> types.Result:
        if not isinstance(reply.output, Handed):
            return await super().result_of(ctx, handle, reply)
        require_client_extension(ctx, IDENTIFIER)  # a duplicate need not declare it
        told = self._describe(handle, await self._find_record(ctx, handle))
        if told["status"] == "input_required":  # what it asks is for `tasks/get` to say
            told["status"] = "working"
        return CreateTaskResult(
            **{name: told[name] for name in TaskFields.model_fields if name in told}
        )

    # --- the methods --------------------------------------------------------------------------

    async def _get(self, ctx: Context, params: TaskParams) -> Task:
        task = Task(**self._describe(params.task_id, await self._find_record(ctx, params.task_id)))
        if task.input_requests:
            # Never a question of a kind that this request did not declare, though the task waits.
            declared = kinds(ctx)
            task.input_requests = {
                key: request
                for key, request in task.input_requests.items()
                if kind_of_request(request) in declared
            }
        return task

    async def _update(self, ctx: Context, params: UpdateTaskParams) -> types.EmptyResult:
        task = params.task_id
        given = params.input_responses
        while True:
            record = await self._find_record(ctx, task)
            number, asked = record.asked if isinstance(record.output, Asked) else (0, Asked({}))
            try:
                responses = _RESPONSES.validate_python(
                    {key: given[key] for key in asked.requests if key in given}, by_name=False
                )
            except ValidationError as error:
                key = str(error.errors()[0]["loc"][0])
                raise BadAnswer(key, "it is not an answer of any kind") from None
            answers = Answers(responses, self.caller(ctx), asked.digest)
            if length(answers) > MAX_BYTES:
                raise refusal(Reason.TOO_LONG)
            reply = await self.engine.visit(task, number, answers) if responses else None
            match reply:
                case Reply(output=Ended(outcome=MCPError() as error)):
                    # Or else somebody's answers came first, and these may be wanted still.
                    if reason_of(error) != Reason.ANSWERED_DIFFERENTLY:
                        raise error
                case _:
                    return types.EmptyResult(result_type="complete")

    async def _cancel(self, ctx: Context, params: TaskParams) -> types.EmptyResult:
        await self._find_record(ctx, params.task_id)
        await self.engine.stop(params.task_id)
        return types.EmptyResult(result_type="complete")

    async def _find_record(self, ctx: Context, task: str) -> Record:
        """Return the record of a task of this caller.

        Raises:
            MCPError: -32602; whether there is none or it is another's is not told.
        """
        if not _HANDLE.fullmatch(task):
            raise refusal(Reason.UNKNOWN_TASK)
        try:
            record = await self.engine.look(task)
        except MCPError as error:
            if reason_of(error) != Reason.UNKNOWN_CALL:
                raise
            raise refusal(Reason.UNKNOWN_TASK) from None
        if record.task_at is None or record.begun.caller.principal != self._principal(ctx):
            raise refusal(Reason.UNKNOWN_TASK)
        if self._is_forgotten(record, record.task_at):
            raise refusal(Reason.UNKNOWN_TASK)
        return record

    def _is_forgotten(self, record: Record, created: float) -> bool:
        """Return whether a task's time is over.

        A task at work is not forgotten: it has effects under way, and its client is told of them.
        """
        if record.begun.ttl_ms is None:
            return False
        ends_at = created + record.begun.ttl_ms / 1000
        match record.output:
            case Asked():
                return self.clock() >= ends_at
            case Ended() if record.ended_unanswered or record.updated < ends_at:
                return self.clock() >= ends_at
            case Ended():  # it was at work when its time was over
                return self.clock() >= record.updated + record.begun.ttl_ms / 1000
            case _:
                return False

    def _describe(self, task: str, record: Record) -> dict[str, Any]:
        """Return the current description of a task: the fields of `Task`."""
        told: dict[str, Any] = {
            "task_id": task,
            "status": "working",
            "status_message": record.words,
            "created_at": iso(record.task_at or 0),
            "last_updated_at": iso(record.updated),
            "ttl_ms": record.begun.ttl_ms,
            "poll_interval_ms": self._poll_ms,
        }
        match record.output:
            case Asked(requests=requests):
                return told | {"status": "input_required", "input_requests": {**requests}}
            case Ended(outcome=None):
                return told | {"status": "cancelled", "status_message": CANCELLED}
            case Ended(outcome=MCPError() as error):
                said = types.ErrorData(code=error.code, message=error.message, data=error.data)
                return told | {"status": "failed", "status_message": None, "error": said}
            case Ended(outcome=types.Result() as result):
                kept = result.model_dump(mode="json", by_alias=True, exclude_none=True)
                return told | {"status": "completed", "status_message": None, "result": kept}
            case _:
                return told


# --- a request that is about a task ---------------------------------------------------------------


def _takes_tasks(ctx: Context) -> bool:
    """Return whether this very request declares the extension."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return is_modern(ctx) and extensions is not None and IDENTIFIER in extensions


def _check_name(ctx: Context, task: str) -> None:
    """Hold the routing header against the body, as the SDK does for the methods that it knows.

    Raises:
        MCPError: -32020. SEP-2663: clients MUST send the header with the task's id.
    """
    if ctx.request is None:  # not over HTTP
        return
    header = ctx.request.headers.get(MCP_NAME_HEADER)
    if header is None or decode_header_value(header) != task:
        why = "does not send it" if header is None else "sends one that does not match `taskId`"
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{ctx.method} needs the HTTP header Mcp-Name with the task's id, by which a balancer"
            f" routes (SEP-2663); this client {why}",
        )
