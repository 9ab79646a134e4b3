"""Option K's store: a call on the durable engine, handed to the client as a task (SEP-2663, final).

The handler is L's and runs as L's does. It reaches the client in another way: `tools/call` returns the
call's handle at once, questions appear in `tasks/get`, answers go in through `tasks/update`, and
`tasks/cancel` stops the work. The server decides; a client only says, with each request, that it takes
tasks. A client that does not gets the same handler in rounds, as in L.

What holds, and what does not
-----------------------------
- The record of a task (`records`) is in the engine's database before its handle is returned, so every
  instance knows it. The instance that is asked about a task looks after it: the task of a dead process
  goes back to the engine's queue.
- A task is settled once, by one statement on its record: completed, failed, or cancelled. A second
  attempt changes nothing.
- The process of a cancelled task hears of it within `WATCH_SECONDS`. The handler is cancelled at its
  next `await` and can record nothing more. Work in a thread goes on to its end.
- An answer is sent to the task before `tasks/update` returns, and the response is held until the task
  has taken or refused it, for `wait_seconds` at most. An answer is taken once; keys that are not open
  are ignored. A key is never used for two questions of one task.
- While the database is away, these three methods end after `wait_seconds` in the error -32001 with the
  reason `still_at_work`, and the same request may be sent again.
- A task's id is the call's handle: 128 random bits, bound to the principal that it was made for. To
  any other principal it is unknown.
- A task is kept for `ttl_seconds` from its creation, in any status, and then deleted.
- With a call key a second request for the same task gets the same task, while it is kept.
- A task is finished by the code it began on, as any durable call. When no process of that version is
  left it stays `working`, says so in its message, and is deleted with its time.

Knows `durable`, `questions`, and the other modules of this folder.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio
import mcp_types as types
from dbos import DBOS
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension

from mrtr_options.sdk.durable.context import DeskT
from mrtr_options.sdk.durable.database import AWAY
from mrtr_options.sdk.durable.engine import Engine
from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Begun,
    Call,
    Caller,
    Ended,
    Output,
    Refused,
    Unreadable,
    not_answered,
)
from mrtr_options.sdk.durable.store import (
    AGAIN_SECONDS,
    FIRST_LOOK_SECONDS,
    KEEP_SECONDS,
    ROUNDS,
    DurableStore,
    Params,
    Round,
)
from mrtr_options.sdk.questions import declares_forms
from mrtr_options.sdk.tasks.context import TASK_TOPIC, Handed, Settled, TaskContext, Words
from mrtr_options.sdk.tasks.records import Record, Records, RecordStatus
from mrtr_options.sdk.tasks.requests import ParamsT, for_takers, parsed, takes_tasks
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
WATCH_SECONDS = 0.2
"""How often a process checks whether tasks that it runs were cancelled elsewhere."""
SWEEP_SECONDS = 10.0
SWEEP_LIMIT = 100
"""How many expired tasks one sweep deletes."""

CANCELLED = "Cancelled. What it had done by then stays done, and what it was doing may have happened."

logger = logging.getLogger("mrtr_options.tasks")

T = TypeVar("T")
TaskHandler = Callable[[TaskContext[DeskT], Call], Awaitable[types.CallToolResult]]


# --- the store ----------------------------------------------------------------------------------


class TaskStore(DurableStore, Extension):
    """Serves handlers as tasks; the server's Tasks extension.

    Args:
        idle_seconds, wait_seconds, rounds, keep_seconds, version: See `DurableStore`. A question of a
            task that is kept for a time waits for all of it.
        ttl_seconds: How long a task is kept from its creation; None for ever.
        poll_seconds: How often clients are told to look.
        outcome_of: What an exception of a handler is as a result; None for those that are errors.
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
        self._ttl_ms = None if ttl_seconds is None else round(ttl_seconds * 1000)
        self._poll_ms = max(1, round(poll_seconds * 1000))
        self._outcome_of = outcome_of
        self._asks_first: dict[str, bool] = {}
        self._records: Records | None = None
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
            MethodBinding("tasks/get", TaskParams, for_takers(self._in_time(self._get))),
            MethodBinding("tasks/update", UpdateTaskParams, for_takers(self._update)),
            MethodBinding("tasks/cancel", TaskParams, for_takers(self._in_time(self._cancel))),
        )

    def _in_time(
        self,
        method: Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]],
    ) -> Callable[[ServerRequestContext[Any, Any], ParamsT], Awaitable[types.Result]]:
        """A method that is held for `wait_seconds` at most, however long the database is away."""

        async def bounded(ctx: ServerRequestContext[Any, Any], params: ParamsT) -> types.Result:
            with anyio.move_on_after(self._wait_seconds):
                return await method(ctx, params)
            raise not_answered(self._wait_seconds)

        return bounded

    async def open_beside(self, engine: Engine, beside: AsyncExitStack) -> None:
        self._records = await Records.opened(engine.database)
        await beside.enter_async_context(self._kept())

    @property
    def records(self) -> Records:
        """The records that an open store works on."""
        if self._records is None:
            raise RuntimeError("this store is closed: enter `serving` while its server serves")
        return self._records

    def now(self) -> int:
        """The time by which tasks are kept, in milliseconds."""
        return round(self.clock() * 1000)

    # --- running ---

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        return replace(super().caller(ctx), takes_tasks=takes_tasks(ctx))

    async def run(self, name: str, handle: str, begun: str) -> None:
        first = self._seal.read(Begun, begun, handle)
        asks_first = self._asks_first[name.partition("#")[0]]
        context = TaskContext(
            self._lifespan_context,
            handle,
            first.caller,
            self._seal,
            self.records,
            self.live,
            idle_seconds=self._idle_seconds,
            ttl_ms=self._ttl_ms,
            now=self.now,
        )
        with suppress(Settled):
            try:
                if not asks_first:
                    await context.become_task()
                outcome = await self.outcome(name, context, first.call)
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
        await self._settle(handle, outcome)

    async def _settle(self, task: str, outcome: types.Result | Exception) -> None:
        status: RecordStatus = "completed"
        if isinstance(outcome, Exception):
            status = "failed"
            if not isinstance(outcome, MCPError):
                logger.error("task %s failed", task, exc_info=outcome)
                outcome = MCPError(types.INTERNAL_ERROR, "Internal server error")
        said = self._seal.write(Ended(None, outcome), f"{task} outcome")
        await self.records.do(Records.finish, task, status, said, self.now())

    async def result_of(
        self, ctx: ServerRequestContext[Any, Any], output: Output, handle: str, number: int
    ) -> types.Result:
        if not isinstance(output, Handed):
            return await super().result_of(ctx, output, handle, number)
        require_client_extension(ctx, IDENTIFIER)  # a duplicate need not declare it
        record = await self._found(ctx, handle)
        return CreateTaskResult(**self._fields(record, record.status))

    @property
    def remembers_seconds(self) -> float:
        ttl = math.inf if self._ttl_ms is None else self._ttl_ms / 1000
        return min(super().remembers_seconds, ttl)

    async def stands(self, ctx: ServerRequestContext[Any, Any], round: Round) -> types.Result | None:
        if await self.records.do(Records.get, round.handle) is None:
            return await super().stands(ctx, round)
        return await self.result_of(ctx, Handed(None), round.handle, 0)

    async def stop(self, handle: str) -> None:
        await self.records.do(Records.finish, handle, "cancelled", None, self.now())
        try:
            await super().stop(handle)
        except AWAY as error:  # the process that runs it finds it cancelled
            logger.warning("task %s was not stopped: %s", handle, str(error).splitlines()[0])

    # --- keeping ---

    @asynccontextmanager
    async def _kept(self) -> AsyncGenerator[None]:
        # Not a task group: the last connection that closes need not be the first that opened.
        keeper = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self) -> None:
        sweep_at = 0.0
        while True:
            try:
                await self._stop_cancelled()
                if time.monotonic() >= sweep_at:
                    sweep_at = time.monotonic() + SWEEP_SECONDS
                    await self.sweep()
            except Exception:  # the database may be back for the next look
                logger.exception("tasks were not looked after")
            await asyncio.sleep(WATCH_SECONDS)

    async def _stop_cancelled(self) -> None:
        if not self.live:
            return
        mine = set(self.live)
        gone = mine - await self.records.do(Records.working, mine)
        # Once more: one that ended by itself meanwhile is not stopped.
        if gone & self.live:
            await self.engine.stop(gone & self.live)

    async def sweep(self) -> int:
        """Delete tasks whose time is over, `SWEEP_LIMIT` at most, and stop those at work.

        Every open store does so once in `SWEEP_SECONDS`.

        Returns:
            How many.
        """
        tasks = await self.records.do(Records.expired, self.now(), SWEEP_LIMIT)
        if tasks:
            for task in tasks:
                await self.records.do(Records.finish, task, "cancelled", None, self.now())
            await self.engine.stop(tasks)
            await DBOS.delete_workflows_async(tasks)
            await self.records.do(Records.delete, tasks)
        return len(tasks)

    # --- the methods ---

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        record = await self._found(ctx, params.task_id)
        if record.status == "working":
            record = await self._looked_after(ctx, record)
        if record.status == "cancelled":
            return Task(**self._fields(record, "cancelled"))
        if record.status != "working":
            match self._outcome_in(record):
                case MCPError() as error:
                    said = types.ErrorData(code=error.code, message=error.message, data=error.data)
                    return Task(**self._fields(record, "failed"), error=said)
                case types.Result() as outcome:
                    result = outcome.model_dump(mode="json", by_alias=True, exclude_none=True)
                    return Task(**self._fields(record, "completed"), result=result)
                case outcome:
                    raise AssertionError(f"not the outcome of a task: {outcome!r}")
        asked, _ = await self._open_questions(record.id)
        if asked is None:
            return Task(**self._fields(record, "working"))
        # Never a question of a kind that this request did not declare, though the task waits for it.
        requests = dict(asked.requests) if declares_forms(ctx) else {}
        return Task(**self._fields(record, "input_required"), input_requests=requests)

    async def _update(
        self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams
    ) -> types.EmptyResult:
        is_sent = False
        with anyio.move_on_after(self._wait_seconds):
            record = await self._found(ctx, params.task_id)
            asked, number = await self._open_questions(record.id)
            if record.status == "working" and asked is not None:
                responses = {
                    key: parsed(key, params.input_responses[key])
                    for key in asked.requests
                    if key in params.input_responses
                }
                if responses:
                    answers = Answers(responses, self.caller(ctx))
                    await self.send(record.id, TASK_TOPIC, answers, secrets.token_hex(8))
                    is_sent = True
                    await self._taken(ctx, record, answers, number)
            return types.EmptyResult(result_type="complete")
        if not is_sent:
            raise not_answered(self._wait_seconds)
        return types.EmptyResult(result_type="complete")

    async def _taken(
        self, ctx: ServerRequestContext[Any, Any], record: Record, answers: Answers, number: int
    ) -> None:
        """Wait until the task has seen the answers.

        Raises:
            MCPError: They do not fit.
        """
        pause, after = FIRST_LOOK_SECONDS, 0
        while record.status == "working":
            text = None
            with anyio.move_on_after(pause):
                text = await self.engine.exchange.next(record.id, str(number + 1), after)
            if text is None:
                record = await self._looked_after(ctx, record)
                pause = AGAIN_SECONDS
                continue
            output, after = self.output_in(record.id, text), text.position
            if output.after == answers.digest:
                if isinstance(output, Refused):
                    raise output.error
                return
            if not isinstance(output, Refused):
                # Somebody else's answers came first, and these may still be wanted.
                asked, number = await self._open_questions(record.id)
                if asked is None or asked.requests.keys().isdisjoint(answers.responses):
                    return
                after = 0

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
        record = await self.records.do(Records.get, task)
        if (
            record is None
            or record.principal != self._principal(ctx)
            or (record.expires is not None and record.expires <= self.now())
        ):
            raise _unknown_task()
        return record

    async def _looked_after(self, ctx: ServerRequestContext[Any, Any], record: Record) -> Record:
        """Make sure that a task runs somewhere; its record after that."""
        try:
            await self.look_after(record.id)
        except MCPError as error:
            # The engine was read after the record, so read that again before believing it.
            record = await self._found(ctx, record.id)
            if record.status != "working":
                return record
            if error.data == {"reason": "other_version"}:
                return replace(
                    record, message=self._seal.write(Words(error.message), f"{record.id} words")
                )
            await self._settle(record.id, error)
            record = await self._found(ctx, record.id)
        return record

    def _fields(self, record: Record, status: Status) -> dict[str, Any]:
        return {
            "task_id": record.id,
            "status": status,
            "status_message": CANCELLED if status == "cancelled" else self._words_in(record),
            "created_at": _iso(record.created),
            "last_updated_at": _iso(record.updated),
            "ttl_ms": record.ttl,
            "poll_interval_ms": self._poll_ms,
        }

    def _words_in(self, record: Record) -> str | None:
        if record.message is None:
            return None
        return self._read(Words, record.message, f"{record.id} words").text

    def _outcome_in(self, record: Record) -> types.Result | Exception:
        return self._read(Ended, record.outcome or "", f"{record.id} outcome").outcome

    def _read(self, kind: type[T], text: str, place: str) -> T:
        try:
            return self._seal.read(kind, text, place)
        except Unreadable as error:
            logger.warning("%s", error)
            raise _unknown_task() from error

    async def _open_questions(self, task: str) -> tuple[Asked | None, int]:
        """What a task asks at the moment, and the number under which it does."""
        last = await self.engine.exchange.last_of_call(task)
        if last is None:
            return None, 0
        output, number = self.output_in(task, last), int(last.topic)
        if isinstance(output, Refused):
            number -= 1
            output, _ = await self.said(task, number)
        return (output if isinstance(output, Asked) else None), number


def _unknown_task() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "There is no such task.", {"reason": "unknown_task"})


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
