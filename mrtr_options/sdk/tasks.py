"""Option K: a call on the durable engine, handed to the client as a task (SEP-2663, final).

The handler is L's and runs as L's does. What differs is how it reaches the client: `tools/call`
returns the call's handle at once, questions appear in `tasks/get`, answers go in through
`tasks/update`, and `tasks/cancel` stops the work. The server decides; a client only says, with each
request, that it takes tasks. One that does not gets the same handler in rounds, as in L.

What holds, and what does not
-----------------------------
- The record of a task (`tasks_records`) is in the engine's database before its handle is returned, so
  any instance knows it. The instance that is asked for a task looks after it: the task of a dead
  process goes back to the engine's queue.
- A task is settled once, by one statement on its record: completed, failed, or cancelled. Whoever
  comes second changes nothing.
- A cancelled task's process hears of it within `WATCH_SECONDS`, wherever it is; the handler is
  cancelled at its next `await`, and can record nothing more. Work in a thread goes on to its end.
- An answer is sent to the task before `tasks/update` returns, and the response is held until the task
  has taken or refused it, for `wait_seconds` at most. An answer is taken once; keys that are not open
  are not looked at. A key is never used for two questions of one task.
- A task's id is the call's handle: 128 bits of chance, bound to the principal that it was made for.
  To anybody else it is unknown.
- A task is kept for `ttl_seconds` from its creation, whatever becomes of it, and then swept.
- A task is finished by the code it was begun on, as any durable call. When no process of that version
  is left it stays `working`, says so in its message, and goes with its time.

Knows `durable`, `durable_engine`, `questions`, and its own wire types and records.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import mcp_types as types
from dbos import DBOS
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.server.request_state import authenticated_principal
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import TypeAdapter, ValidationError

from mrtr_options.sdk.durable import (
    AGAIN_SECONDS,
    FIRST_LOOK_SECONDS,
    Answers,
    Asked,
    Call,
    Caller,
    DeskT,
    DurableContext,
    DurableStore,
    Ended,
    Output,
    Params,
    Refused,
)
from mrtr_options.sdk.durable_engine import LISTEN_SECONDS, current
from mrtr_options.sdk.questions import BadAnswer, declares_forms, is_modern, kinds
from mrtr_options.sdk.tasks_records import Record, Records
from mrtr_options.sdk.tasks_wire import (
    IDENTIFIER,
    CreateTaskResult,
    Status,
    Task,
    TaskParams,
    UpdateTaskParams,
)

T = TypeVar("T")
ParamsT = TypeVar("ParamsT", bound=TaskParams)

TTL_SECONDS = 3600.0
POLL_SECONDS = 0.2
WATCH_SECONDS = 0.2
"""How often a process looks whether tasks that it runs were cancelled elsewhere."""
SAY_SECONDS = 0.1
"""How often a task's words are written down at most; those in between are lost."""
SWEEP_SECONDS = 10.0
SWEEP_LIMIT = 100
"""How many expired tasks one sweep takes."""

logger = logging.getLogger("mrtr_options.tasks")
logger.addHandler(logging.NullHandler())

_RESPONSE: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)


@dataclass(frozen=True)
class _Handed(Output):
    """From here on the call is a task."""


@dataclass(frozen=True)
class _Taken(Output):
    """The answers were taken, and the work goes on."""


class _Settled(BaseException):
    """Raised where a call finds that the task it is was settled without it."""


# --- what the author sees -----------------------------------------------------------------------


class TaskContext(DurableContext[DeskT], Generic[DeskT]):
    """A durable handler's context that can say how far the work is."""

    def __init__(
        self,
        lifespan_context: DeskT,
        call: str,
        caller: Caller,
        store: TaskStore,
        *,
        idle_seconds: float,
    ) -> None:
        super().__init__(lifespan_context, call, caller, idle_seconds=idle_seconds)
        self._store = store
        self._message: str | None = None
        self._writer: asyncio.Task[None] | None = None
        self.is_task = False

    async def status(self, message: str) -> None:
        """Say how far the work is, as often as you like: `statusMessage` of the task.

        Nothing is recorded with the engine, so a handler that is run again says it again. Without a
        task nobody hears it.
        """
        self._message = message
        if self.is_task and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write())
        await anyio.lowlevel.checkpoint()  # so that work that only reports can be cancelled

    async def _write(self) -> None:
        written = None
        while self._message is not None and self._message != written:
            written = self._message
            await self._store.do(Records.say, self._call, written, self._store.now())
            await asyncio.sleep(SAY_SECONDS)

    async def become_task(self) -> None:
        """Go on as a task, if the client takes them; what was asked so far was asked in rounds.

        For tools that were registered with `asks_first`; the others are tasks from their first line.
        """
        if self.is_task or not self._caller.takes_tasks:
            return
        record = await self._store.do(
            Records.create, self._call, self._caller.principal, self._store.ttl_ms, self._store.now()
        )
        if record is None or record.status != "working":
            raise _Settled
        if record.ttl is not None:
            self._idle_seconds = record.ttl / 1000
        self.is_task = True
        self._store.live.add(self._call)
        await super().publish(_Handed(self.after))
        self.number += 1
        if self._message is not None:
            await self.status(self._message)

    def topic(self) -> str:
        # One for all questions: an answer sent while another was taken must not be lost.
        return "answers" if self.is_task else super().topic()

    async def answered(self) -> None:
        if self.is_task:
            await self.publish(_Taken(self.after))

    async def publish(self, output: Output) -> None:
        await super().publish(output)
        if self.is_task:
            await self._store.do(Records.touch, self._call, self._store.now())

    def close(self) -> None:
        """Say nothing any more, and be out of reach of those who cancel."""
        self._store.live.discard(self._call)
        if self._writer is not None:
            self._writer.cancel()


TaskHandler = Callable[[TaskContext[DeskT], Call], Awaitable[types.CallToolResult]]


# --- the store ----------------------------------------------------------------------------------


class TaskStore(DurableStore, Extension):
    """Serves handlers as tasks; the server's Tasks extension.

    Args:
        url, idle_seconds, wait_seconds, version: See `DurableStore`. A question of a task that is
            kept for a time waits for all of it.
        ttl_seconds: How long a task is kept from its creation; None for ever.
        poll_seconds: How often clients are told to look.
        principal: Names who is calling; tasks are theirs alone.
        outcome_of: What an exception of a handler is as a result; None for those that are errors.
        clock: Tells the time by which tasks are kept, in seconds since 1970.

    Raises:
        ValueError: Not such a URL. One line that says what to do.
    """

    identifier = IDENTIFIER

    def __init__(
        self,
        url: str | None = None,
        *,
        idle_seconds: float = 600.0,
        wait_seconds: float = 10.0,
        version: str | None = None,
        ttl_seconds: float | None = TTL_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        principal: Callable[[ServerRequestContext[Any, Any]], str | None] = authenticated_principal,
        outcome_of: Callable[[Exception], types.CallToolResult | None] = lambda error: None,
        clock: Callable[[], float] = lambda: time.time(),
    ) -> None:
        super().__init__(url, idle_seconds=idle_seconds, wait_seconds=wait_seconds, version=version)
        self.ttl_ms = None if ttl_seconds is None else round(ttl_seconds * 1000)
        self._poll_ms = max(1, round(poll_seconds * 1000))
        self._principal = principal
        self._outcome_of = outcome_of
        self._clock = clock
        self._asks_first: dict[str, bool] = {}
        self._records: Records | None = None
        self._opening = anyio.Lock()
        self.live: set[str] = set()

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
        name = self.register(handler)
        self._asks_first[name] = asks_first
        rounds = self.rounds(name)

        async def call(ctx: ServerRequestContext[Any, Any], params: Params) -> types.Result:
            if required:
                require_client_extension(ctx, IDENTIFIER)
            return await rounds(ctx, params)

        return call

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of the extension, for a server to register."""
        return (
            MethodBinding("tasks/get", TaskParams, _guarded(self._get)),
            MethodBinding("tasks/update", UpdateTaskParams, _guarded(self._update)),
            MethodBinding("tasks/cancel", TaskParams, _guarded(self._cancel)),
        )

    @asynccontextmanager
    async def serving(self, lifespan_context: object) -> AsyncGenerator[TaskStore]:
        try:
            async with super().serving(lifespan_context):
                # Not a task group: the last connection that closes need not be the first that opened.
                keeper = asyncio.create_task(self._keep())
                try:
                    yield self
                finally:
                    keeper.cancel()
                    await asyncio.wait([keeper])
        finally:
            with anyio.CancelScope(shield=True):
                async with self._opening:
                    records, self._records = self._records, None
                    if records is not None:
                        await records.close()

    def now(self) -> int:
        """The time by which tasks are kept, in milliseconds."""
        return round(self._clock() * 1000)

    async def do(self, method: Callable[..., T], *args: Any) -> T:
        """Call a method of the records in a thread."""
        async with self._opening:
            if self._records is None:
                self._records = Records(current().url)
            records = self._records
        return await records.do(method, *args)

    # --- running ---

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        return Caller(kinds(ctx), takes_tasks(ctx), self._principal(ctx))

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        if name not in self._asks_first:
            await super().run(name, call, handle, caller)
            return
        context = TaskContext(
            self._lifespan_context, handle, caller, self, idle_seconds=self._idle_seconds
        )
        with suppress(_Settled):
            try:
                if not self._asks_first[name]:
                    await context.become_task()
                outcome = await self.outcome(name, context, call)
            finally:
                context.close()
            await self._end(context, handle, outcome)

    async def _end(
        self, context: TaskContext[Any], handle: str, outcome: types.Result | Exception
    ) -> None:
        if not context.is_task:
            await context.publish(Ended(context.after, outcome))
            return
        if isinstance(outcome, Exception):
            outcome = self._outcome_of(outcome) or outcome
        if isinstance(outcome, Exception):
            await self._fail(handle, outcome)
        else:
            result = outcome.model_dump_json(by_alias=True, exclude_none=True)
            await self.do(Records.finish, handle, "completed", result, self.now())

    async def _fail(self, task: str, error: Exception) -> None:
        if isinstance(error, MCPError):
            said = types.ErrorData(code=error.code, message=error.message, data=error.data)
        else:
            logger.error("task %s failed", task, exc_info=error)
            said = types.ErrorData(code=types.INTERNAL_ERROR, message="Internal server error")
        outcome = said.model_dump_json(exclude_none=True)
        await self.do(Records.finish, task, "failed", outcome, self.now())

    async def result_of(
        self, ctx: ServerRequestContext[Any, Any], output: Output, handle: str, number: int
    ) -> types.Result:
        if not isinstance(output, _Handed):
            return await super().result_of(ctx, output, handle, number)
        require_client_extension(ctx, IDENTIFIER)  # a round that comes again from a lesser client
        record = await self._found(ctx, handle)
        return CreateTaskResult(**self._fields(record, record.status))

    async def stop(self, handle: str) -> None:
        await self.do(Records.finish, handle, "cancelled", None, self.now())
        await super().stop(handle)

    # --- keeping ---

    async def _keep(self) -> None:
        sweep_at = 0.0
        while True:
            try:
                await self._stop_cancelled()
                if time.monotonic() >= sweep_at:
                    sweep_at = time.monotonic() + SWEEP_SECONDS
                    await self.sweep()
            except Exception:  # a database that is away comes back
                logger.exception("tasks were not looked after")
            await asyncio.sleep(WATCH_SECONDS)

    async def _stop_cancelled(self) -> None:
        if not self.live:
            return
        mine = set(self.live)
        gone = mine - await self.do(Records.working, mine)
        # Once more: one that ended by itself meanwhile is not in reach any longer.
        await self._interrupt(gone & self.live)

    async def _interrupt(self, tasks: Collection[str]) -> None:
        assert self._engine is not None
        await self._engine.interrupt(list(tasks))
        self._engine.interrupted.difference_update(tasks)

    async def sweep(self) -> int:
        """Delete tasks whose time is over, `SWEEP_LIMIT` at most, and stop those at work.

        Every open store does so every `SWEEP_SECONDS`.

        Returns:
            How many.
        """
        tasks = await self.do(Records.expired, self.now(), SWEEP_LIMIT)
        if tasks:
            for task in tasks:
                await self.do(Records.finish, task, "cancelled", None, self.now())
            await DBOS.cancel_workflows_async(tasks)
            await self._interrupt(tasks)
            await DBOS.delete_workflows_async(tasks)
            await self.do(Records.delete, tasks)
        return len(tasks)

    # --- the methods ---

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        record = await self._found(ctx, params.task_id)
        if record.status == "working":
            record = await self._looked_after(ctx, record)
        match record.status:
            case "completed":
                result = json.loads(record.outcome or "{}")
                return Task(**self._fields(record, "completed"), result=result)
            case "failed":
                error = types.ErrorData.model_validate_json(record.outcome or "")
                return Task(**self._fields(record, "failed"), error=error)
            case "cancelled":
                return Task(**self._fields(record, "cancelled"))
            case "working":
                asked, _ = await _open_questions(record.id)
        if asked is None:
            return Task(**self._fields(record, "working"))
        # Never a question of a kind that this request did not declare, though the task waits for it.
        requests = dict(asked.requests) if declares_forms(ctx) else {}
        return Task(**self._fields(record, "input_required"), input_requests=requests)

    async def _update(
        self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams
    ) -> types.EmptyResult:
        record = await self._found(ctx, params.task_id)
        asked, number = await _open_questions(record.id)
        if record.status == "working" and asked is not None:
            responses = {
                key: _parsed(key, params.input_responses[key])
                for key in asked.requests
                if key in params.input_responses
            }
            if responses:
                answers = Answers(responses, self.caller(ctx))
                await DBOS.send_async(record.id, answers, "answers")
                await self._taken(ctx, record, answers, number)
        return types.EmptyResult(result_type="complete")

    async def _taken(
        self, ctx: ServerRequestContext[Any, Any], record: Record, answers: Answers, number: int
    ) -> None:
        """Wait until the task has seen the answers, for a bounded time.

        Raises:
            MCPError: They do not fit.
        """
        deadline = anyio.current_time() + self._wait_seconds
        pause = FIRST_LOOK_SECONDS
        while anyio.current_time() < deadline:
            output: Output | None = await DBOS.get_event_async(record.id, str(number + 1), pause)
            match output:
                case Refused() if output.after == answers.digest:
                    raise output.error
                case None:
                    record = await self._looked_after(ctx, record)
                    pause = AGAIN_SECONDS
                case Refused():
                    await anyio.sleep(LISTEN_SECONDS)  # ours has not been read yet
                case _ if output.after == answers.digest:
                    return
                case _:  # somebody else's answers came first, and ours may still be wanted
                    asked, number = await _open_questions(record.id)
                    if asked is None or asked.requests.keys().isdisjoint(answers.responses):
                        return
            if record.status != "working":
                return

    async def _cancel(
        self, ctx: ServerRequestContext[Any, Any], params: TaskParams
    ) -> types.EmptyResult:
        record = await self._found(ctx, params.task_id)
        if record.status == "working":
            await self.stop(record.id)
        return types.EmptyResult(result_type="complete")

    async def _found(self, ctx: ServerRequestContext[Any, Any], task: str) -> Record:
        """The record of a task of this caller's.

        Raises:
            MCPError: -32602; whether there is none or it is another's is not told.
        """
        record = await self.do(Records.get, task)
        if (
            record is None
            or record.principal != self._principal(ctx)
            or (record.expires is not None and record.expires <= self.now())
        ):
            raise MCPError(types.INVALID_PARAMS, "There is no such task.", {"reason": "unknown_task"})
        return record

    async def _looked_after(self, ctx: ServerRequestContext[Any, Any], record: Record) -> Record:
        """See to it that a task runs somewhere; its record after that."""
        try:
            await self.look_after(record.id)
        except MCPError as error:
            # The engine was read after the record, so read that again before believing it.
            record = await self._found(ctx, record.id)
            if record.status != "working":
                return record
            if error.data == {"reason": "other_version"}:
                return replace(record, message=error.message)
            await self._fail(record.id, error)
            record = await self._found(ctx, record.id)
        return record

    def _fields(self, record: Record, status: Status) -> dict[str, Any]:
        return {
            "task_id": record.id,
            "status": status,
            "status_message": record.message,
            "created_at": _iso(record.created),
            "last_updated_at": _iso(record.updated),
            "ttl_ms": record.ttl,
            "poll_interval_ms": self._poll_ms,
        }


# --- helpers ------------------------------------------------------------------------------------


def takes_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request declares the extension."""
    capabilities = ctx.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return is_modern(ctx) and extensions is not None and IDENTIFIER in extensions


def _guarded(
    method: Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]],
) -> Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]]:
    """A method of the extension, for requests that may call it."""

    async def guarded(ctx: ServerRequestContext[Any, Any], params: ParamsT) -> types.Result:
        if not is_modern(ctx):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        _check_name(ctx, params.task_id)
        require_client_extension(ctx, IDENTIFIER)
        return await method(ctx, params)

    return guarded


def _check_name(ctx: ServerRequestContext[Any, Any], task: str) -> None:
    """Hold the routing header against the body, as the SDK does for the methods that it knows."""
    if ctx.request is None:  # not over HTTP
        return
    if decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != task:
        raise MCPError(
            types.HEADER_MISMATCH,
            f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter",
        )


async def _open_questions(task: str) -> tuple[Asked | None, int]:
    """What a task asks at the moment, and the number under which it does."""
    events = await DBOS.get_all_events_async(task)
    number = max(map(int, events), default=0)
    output: Output | None = events.get(str(number))
    if isinstance(output, Refused):
        number -= 1
        output = events[str(number)]
    return (output if isinstance(output, Asked) else None), number


def _parsed(key: str, response: Any) -> types.InputResponse:
    try:
        return _RESPONSE.validate_python(response, by_name=False)
    except ValidationError:
        raise BadAnswer(key, "it is not an answer of any kind") from None


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
