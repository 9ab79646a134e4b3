"""Option K's store: a call on a durable engine, handed to the client as a task (SEP-2663, final).

The handler is L's and runs as L's does. It reaches the client in another way: `tools/call` returns the
call's handle at once, questions appear in `tasks/get`, answers go in through `tasks/update`, and
`tasks/cancel` stops the work. The server decides; a client only says, with each request, that it takes
tasks. A client that does not gets the same handler in rounds, as in L.

What holds, and what does not
-----------------------------
- A task is with the engine before its handle is returned, so every process of the engine knows it.
- A task ends once: completed, failed, or cancelled. A second attempt changes nothing.
- The handler of a cancelled task is cancelled at its next `await` and can record nothing more. Work in a
  thread goes on to its end.
- `tasks/update` returns when the task has taken the answers or refused them. Keys that are not open are
  ignored. A key is never used for two questions of one task.
- A request is held for `wait_seconds` at most while the engine is away, or while no process runs the
  task. Then it ends in the error -32001 with the reason `still_at_work`, and may be sent again.
- A task's id is the call's handle: 128 random bits, bound to the principal that it was made for. To
  any other principal it is unknown.
- A task is known for `ttl_seconds` from its creation, in any status. One at work is stopped then.
- With a call key a second request for the same task gets the same task, while it is known.

Knows `durable`, `questions` and `wire`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import TypeAdapter, ValidationError

from mrtr_options import check_numbers
from mrtr_options.sdk.durable.call import DeskT, DurableContext, Record, Running
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
    Stopped,
    length,
    reason_of,
    still_at_work,
    too_long,
)
from mrtr_options.sdk.durable.rounds import KEEP_SECONDS, ROUNDS, DurableStore, Params
from mrtr_options.sdk.handlers import Call, check_handler, needing
from mrtr_options.sdk.questions import BadAnswer, declares_forms, is_modern
from mrtr_options.sdk.tasks.wire import (
    IDENTIFIER,
    CreateTaskResult,
    Status,
    Task,
    TaskParams,
    UpdateTaskParams,
)

TTL_SECONDS = 3600.0
POLL_SECONDS = 0.2
CANCELLED = "Cancelled. What it had done by then stays done, and what it was doing may have happened."

logger = logging.getLogger("mrtr_options.tasks")

ParamsT = TypeVar("ParamsT", bound=TaskParams)

_RESPONSE: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)


class TaskContext(DurableContext[DeskT], Generic[DeskT]):
    """A durable handler's context that can say how far the work is."""

    def __init__(
        self,
        lifespan_context: DeskT,
        running: Running,
        *,
        idle_seconds: float,
        scope: anyio.CancelScope,
    ) -> None:
        super().__init__(lifespan_context, running, idle_seconds=idle_seconds)
        self._scope = scope

    async def status(self, message: str) -> None:
        """Say how far the work is, as often as you like: `statusMessage` of the task.

        Nothing of it is recorded, so a handler that runs again says it again. Without a task it has no
        effect.
        """
        self._record.words = message
        await anyio.lowlevel.checkpoint()  # so that work that only reports can be cancelled

    async def become_task(self) -> None:
        """Go on as a task, if the client takes them; what was asked so far was asked in rounds.

        For tools that were registered with `asks_first`; the others are tasks from their first line.
        """
        record = self._record
        if record.task_at is not None or not record.caller.takes_tasks:
            return
        record.outputs.append(Handed(record.updated))
        if (ttl_ms := record.begun.ttl_ms) is not None:
            self._idle_seconds = ttl_ms / 1000
            left = record.updated + self._idle_seconds - self._running.now()
            self._scope.deadline = anyio.current_time() + left
        self._running.told()


TaskHandler = Callable[[TaskContext[DeskT], Call], Awaitable[types.CallToolResult]]


class TaskStore(DurableStore, Extension):
    """Serves handlers as tasks; the server's Tasks extension.

    Args:
        idle_seconds, wait_seconds, rounds, keep_seconds, version: See `DurableStore`. A question of a
            task that is kept for a time waits for all of it.
        ttl_seconds: How long a task is known from its creation; None for ever.
        poll_seconds: How often clients are told to look.
        outcome_of: What an exception of a handler is as a result; None for those that are errors.

    Raises:
        ValueError: A number is not over 0.
    """

    identifier = IDENTIFIER

    def __init__(
        self,
        *,
        idle_seconds: float = 600.0,
        wait_seconds: float = 10.0,
        rounds: int = ROUNDS,
        keep_seconds: float = KEEP_SECONDS,
        version: str | None = None,
        ttl_seconds: float | None = TTL_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        outcome_of: Callable[[Exception], types.CallToolResult | None] = lambda error: None,
    ) -> None:
        super().__init__(
            idle_seconds=idle_seconds,
            wait_seconds=wait_seconds,
            rounds=rounds,
            keep_seconds=keep_seconds,
            version=version,
        )
        check_numbers("TaskStore", 1 if ttl_seconds is None else ttl_seconds, poll_seconds)
        self._ttl_ms = None if ttl_seconds is None else round(ttl_seconds * 1000)
        if ttl_seconds is None:
            self.keep_seconds = self._key_seconds = math.inf
        else:
            self.keep_seconds = max(keep_seconds, ttl_seconds)
            self._key_seconds = min(keep_seconds, ttl_seconds)  # a key is for a call that is kept surely
        self._poll_ms = max(1, round(poll_seconds * 1000))
        self._outcome_of = outcome_of
        self._asks_first: dict[str, bool] = {}

    def task(
        self, handler: TaskHandler[DeskT], *, required: bool = False, asks_first: bool = False
    ) -> Callable[[ServerRequestContext[Any, Any], Params], Awaitable[Any]]:
        """The handler as a server takes it: a task for a client that takes tasks, or else rounds.

        Args:
            handler: L's; its context can also say how far the work is.
            required: Whether it works as a task only. Other clients are refused.
            asks_first: Whether the handler begins in rounds, and says itself where the task begins
                (`ctx.become_task()`).
        """
        check_handler(handler, "store.task", (TaskContext, Call))
        name = self.register(handler)
        self._asks_first[name] = asks_first
        rounds = self.rounds(name)

        async def call(ctx: ServerRequestContext[Any, Any], params: Params) -> types.Result:
            if required:
                require_client_extension(ctx, IDENTIFIER)
            return await rounds(ctx, params)

        return needing(call, self.serving)

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of the extension, for a server to register."""
        return (
            MethodBinding("tasks/get", TaskParams, self._served(self._get)),
            MethodBinding("tasks/update", UpdateTaskParams, self._served(self._update)),
            MethodBinding("tasks/cancel", TaskParams, self._served(self._cancel)),
        )

    def _served(
        self,
        method: Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]],
    ) -> Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]]:
        """A method for requests that may call it, held for `wait_seconds` at most."""

        async def served(ctx: ServerRequestContext[Any, Any], params: ParamsT) -> types.Result:
            if not is_modern(ctx):
                raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
            _check_name(ctx, params.task_id)
            require_client_extension(ctx, IDENTIFIER)
            with anyio.move_on_after(self._wait_seconds):
                return await method(ctx, params)
            raise still_at_work(self._wait_seconds)

        return served

    # --- the call -----------------------------------------------------------------------------

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        caller = super().caller(ctx)
        return Caller(caller.askable, _takes_tasks(ctx), caller.principal)

    def begun(self, ctx: ServerRequestContext[Any, Any], params: Params) -> Begun:
        begun = super().begun(ctx, params)
        return Begun(begun.call, begun.caller, begun.at, self._ttl_ms)

    async def perform(self, name: str, running: Running) -> Output:
        outcome: Outcome | None = None
        with anyio.CancelScope() as scope:
            context = TaskContext(
                self._lifespan_context, running, idle_seconds=self._idle_seconds, scope=scope
            )
            if not self._asks_first[name]:
                await context.become_task()
            handler = self._handlers[name]
            outcome = await context.outcome(handler(context, running.record.begun.call))
        if outcome is None:
            return Stopped()  # its time is over
        if isinstance(outcome, Exception) and running.record.task_at is not None:
            outcome = self._outcome_of(outcome) or outcome
            if not isinstance(outcome, MCPError | types.Result):
                logger.error("task %s failed", running.handle, exc_info=outcome)
                outcome = MCPError(types.INTERNAL_ERROR, "Internal server error")
        return Ended(outcome)

    async def result_of(
        self, ctx: ServerRequestContext[Any, Any], handle: str, reply: Reply
    ) -> types.Result:
        if not isinstance(reply.output, Handed):
            return await super().result_of(ctx, handle, reply)
        require_client_extension(ctx, IDENTIFIER)  # a duplicate need not declare it
        record = await self._found(ctx, handle)
        status, _ = _standing(record)
        if status == "input_required":  # what it asks is for `tasks/get` to say
            status = "working"
        return CreateTaskResult(**self._fields(handle, record, status))

    # --- the methods --------------------------------------------------------------------------

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        record = await self._found(ctx, params.task_id)
        status, said = _standing(record)
        if status == "input_required" and not declares_forms(ctx):
            # Never a question of a kind that this request did not declare, though the task waits.
            said["input_requests"].clear()
        return Task(**self._fields(params.task_id, record, status), **said)

    async def _update(
        self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams
    ) -> types.EmptyResult:
        task, given = params.task_id, params.input_responses
        while True:
            record = await self._found(ctx, task)
            asked = record.output if isinstance(record.output, Asked) else Asked({})
            responses = {key: _parsed(key, given[key]) for key in asked.requests if key in given}
            answers = Answers(responses, self.caller(ctx), asked.digest)
            if length(answers) > MAX_BYTES:
                raise too_long()
            try:
                if responses:
                    await self.engine.visit(task, record.number, answers)
                return types.EmptyResult(result_type="complete")
            except MCPError as error:
                if reason_of(error) != "answered_differently":
                    raise  # or else somebody's answers came first, and these may be wanted still

    async def _cancel(
        self, ctx: ServerRequestContext[Any, Any], params: TaskParams
    ) -> types.EmptyResult:
        await self._found(ctx, params.task_id)
        await self.engine.stop(params.task_id)
        return types.EmptyResult(result_type="complete")

    async def _found(self, ctx: ServerRequestContext[Any, Any], task: str) -> Record:
        """How a task of this caller's stands.

        Raises:
            MCPError: -32602; whether there is none or it is another's is not told.
        """
        try:
            record = await self.engine.look(task)
        except MCPError as error:
            if reason_of(error) != "unknown_call":
                raise
            raise _unknown_task() from None
        begun, created = record.begun, record.task_at
        is_over = begun.ttl_ms is not None and ((created or 0) + begun.ttl_ms / 1000 <= self.clock())
        if created is None or begun.caller.principal != self._principal(ctx) or is_over:
            raise _unknown_task()
        return record

    def _fields(self, task: str, record: Record, status: Status) -> dict[str, Any]:
        words = record.words if status in ("working", "input_required") else None
        return {
            "task_id": task,
            "status": status,
            "status_message": CANCELLED if status == "cancelled" else words,
            "created_at": _iso(record.task_at or 0),
            "last_updated_at": _iso(record.updated),
            "ttl_ms": record.begun.ttl_ms,
            "poll_interval_ms": self._poll_ms,
        }


def _standing(record: Record) -> tuple[Status, dict[str, Any]]:
    """How far a task is, and the field that goes with that."""
    match record.output:
        case Asked(requests=requests):
            return "input_required", {"input_requests": dict(requests)}
        case Ended(outcome=MCPError() as error):
            said = types.ErrorData(code=error.code, message=error.message, data=error.data)
            return "failed", {"error": said}
        case Ended(outcome=types.Result() as result):
            kept = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            return "completed", {"result": kept}
        case Stopped():
            return "cancelled", {}
        case _:
            return "working", {}


def _unknown_task() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "There is no such task.", {"reason": "unknown_task"})


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


# --- a request that is about a task ---------------------------------------------------------------


def _takes_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request declares the extension."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return is_modern(ctx) and extensions is not None and IDENTIFIER in extensions


def _check_name(ctx: ServerRequestContext[Any, Any], task: str) -> None:
    """Hold the routing header against the body, as the SDK does for the methods that it knows.

    Raises:
        MCPError: -32020. SEP-2663: clients MUST send the header with the task's id.
    """
    if ctx.request is None:  # not over HTTP
        return
    header = ctx.request.headers.get(MCP_NAME_HEADER)
    if header is None:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{ctx.method} needs the HTTP header Mcp-Name with the task's id, which a balancer routes on"
            " (SEP-2663); this client does not send it",
        )
    if decode_header_value(header) != task:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter",
        )


def _parsed(key: str, response: Any) -> types.InputResponse:
    try:
        return _RESPONSE.validate_python(response, by_name=False)
    except ValidationError:
        raise BadAnswer(key, "it is not an answer of any kind") from None
