"""Option L's store: a request brings answers to a durable call, and gets its next output.

The state that the client carries is the call's handle and the number of what it was asked, sealed.
An engine runs the call and keeps it: `embedded` (DBOS on a file of this machine) or `fleet`
(Temporal). An author's file is the same under both. docs/OPERATIONS.md says what holds
("Databases"); in short:

- A step that is recorded does not run again. One that ran and was not recorded runs again with its
  key.
- The handler is deterministic: reading clocks, drawing numbers and talking to others belongs in
  steps.
- An answer is taken once, for the question that its user saw. A duplicate gets the response on
  record.
- A first request that is cancelled takes its call along, since the client has no state of it.
- A call whose question was declined, dismissed or not answered in time frees a name of the
  server's: the next first request begins another call, under the next handle of the name.
- So it does after a call that ended in `Unknown`. That call asks its user again, and takes what its
  steps and memos returned, and its idempotency keys, from the one before.
- asyncio only, as the engines are.

Knows `context`, `events`, `capabilities` and `call_key`; of engines only the interface `Engine`.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from inspect import isroutine
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.request_state import RequestStateCodec, authenticated_principal

from mrtr_options.checks import check_numbers
from mrtr_options.sdk.call_key import (
    CallFunction,
    CallName,
    CallNaming,
    as_repeat,
    error_as_repeat,
    naming_calls,
)
from mrtr_options.sdk.capabilities import declares_forms, is_modern, kinds
from mrtr_options.sdk.current_request import check_arguments, request_here
from mrtr_options.sdk.durable.context import DurableContext, Running
from mrtr_options.sdk.durable.engine import NO_DATABASE, Engine, WrongDatabase, need
from mrtr_options.sdk.durable.events import (
    Answers,
    Asked,
    Attempt,
    Begun,
    Caller,
    Ended,
    Handed,
    Output,
    Reply,
)
from mrtr_options.sdk.durable.position import Position, handle_after
from mrtr_options.sdk.durable.record import Record
from mrtr_options.sdk.durable.sealing import MAX_BYTES, Seal, Unreadable, length
from mrtr_options.sdk.effects import effects_here
from mrtr_options.sdk.handler import (
    CallParams,
    Clock,
    Context,
    DeskT,
    HandlerOf,
    HandlerT,
    NotAHandler,
    Principal,
    check_handler,
    mark_need,
    mark_times,
    reason_of,
    refusal,
    seals,
)
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.settings import DATABASE_VARIABLE
from mrtr_options.sdk.waiting import GO_ON

ResultT = TypeVar("ResultT", types.CallToolResult, types.GetPromptResult)

STOP_SECONDS = 5.0
"""The time that a call gets to end, while its cancelled first request or its user's no waits."""
_AHEAD = 0.1
"""The most that the time in a call key may be ahead, as a share of the time that calls are kept."""
_GO_ON = types.ElicitRequest(
    params=types.ElicitRequestFormParams(
        message="This is still being worked at. Go on waiting?",
        requested_schema={"type": "object", "properties": {}},
    )
)
_SAID_CHARS = 8 * 1024
"""The longest answers that a state carries, in characters."""

AnyHandler = Callable[[Any, CallParams], Awaitable[types.CallToolResult | types.GetPromptResult]]
Params = types.CallToolRequestParams | types.GetPromptRequestParams


_Opened = Callable[
    [Any, "DurableStore", RequestStateCodec | None], AbstractAsyncContextManager[Engine]
]


def _adapter(url: str | None) -> tuple[_Opened, Callable[[str], None]]:
    """Return two functions of the engine that a URL names: one opens it, one tries the URL.

    The first opens the engine for a store and the length of a block.
    """
    if url is not None and url.startswith("temporal://"):
        need("temporalio", extra="fleet")
        from mrtr_options.sdk.durable.fleet import open_engine, try_url
    else:
        from mrtr_options.sdk.durable.embedded import open_engine, try_url
    return open_engine, try_url


@dataclass(kw_only=True, eq=False)
class DurableStore:
    """A store that turns handlers that await their answers into ones that return their questions.

    A handler begins again from its first line when its process has died. What it reads, draws or
    waits for belongs in steps, whose values are recorded: outside of one it awaits its context
    only.

    Attributes:
        idle_seconds: How long a question may stay unanswered before its call is given up.
        wait_seconds: How long a request is held while the call is at work. Clients give up after
            60 seconds.
        while_working: What a client gets then: "form" asks its user whether to go on waiting, and
            ends the call if not; "state" tells the client to retry by a state without a question,
            which some hosts show as an error. A client that takes no forms gets a state.
        rounds: How often a client retries in one call. Its last request is told that the call goes
            on.
        keep_seconds: How long a call is kept after its end.
        version: The version of the handlers' code, of 100 characters at most; None for the digest
            of their file.

    Raises:
        ValueError: A number is not over 0, or the version is not 1 to 100 characters long.
    """

    idle_seconds: float = 600.0
    wait_seconds: float = 50.0
    while_working: Literal["form", "state"] = "form"
    rounds: int = 10
    keep_seconds: float = 24 * 3600.0
    version: str | None = None

    def __post_init__(self) -> None:
        need("dbos", extra="durable")
        numbers = self.idle_seconds, self.wait_seconds, self.rounds, self.keep_seconds
        check_numbers(type(self).__name__, *numbers)
        if self.while_working not in ("form", "state"):
            raise ValueError(f'while_working is "form" or "state", not {self.while_working!r}')
        if self.version is not None and not 0 < len(f"{self.version}") <= 100:
            raise ValueError(f"{type(self).__name__} takes a version of 1 to 100 characters")
        self._key_seconds = self.keep_seconds
        self._ttl_ms: int | None = None
        self.handlers: dict[str, AnyHandler] = {}
        self._engine: Engine | None = None
        self._lifespan_context: Any = None
        self._principal: Principal = authenticated_principal
        self.clock: Clock = lambda: time.time()  # a review moves the clock

    def try_database(self, url: str | None) -> None:
        """Raise for a database that cannot be used; warn if there is none.

        Raises:
            WrongDatabase: It cannot be read, or reached, or another process has it.
        """
        if url is None:
            print(NO_DATABASE, file=sys.stderr)
            return
        try:
            _, try_url = _adapter(url)
            try_url(url)
        except (WrongDatabase, ValueError) as error:
            said = error if isinstance(error, WrongDatabase) else "its URL cannot be read"
            raise WrongDatabase(
                f"cannot use the database in {DATABASE_VARIABLE}: {said}"
            ) from error

    @property
    def engine(self) -> Engine:
        """The engine that an open store runs on."""
        if self._engine is None:
            raise RuntimeError("this store is closed: enter `serving` while its server serves")
        return self._engine

    def linear(
        self,
        handler: Callable[[DurableContext[DeskT], CallParams], Awaitable[ResultT]],
        *,
        call: str | CallFunction | None = None,
        call_is_secret: bool = False,
    ) -> HandlerOf[Params, ResultT]:
        """Return the handler of a tool or a prompt as a server takes it.

        Calls are kept under its qualified name: it must be unique, and stay the same.

        Args:
            handler: The author's.
            call: The name of a call: an argument, or a function of caller and arguments; without
                one, the client's call key. A call that is made again under its name while it is
                kept is the same call, unless its user refused a question or did not answer it in
                time.
            call_is_secret: Whether only one caller can know what names a call.

        Raises:
            NotAHandler: It is not a handler, or has no name of its own.
        """
        check_handler(handler, "store.linear", (DurableContext, CallParams))
        naming = CallNaming(call, call_is_secret)
        return self.in_rounds(self.register(handler, "rounds"), naming)

    def register(self, handler: AnyHandler, kind: str) -> str:
        """Register a handler and return the name of its calls.

        The name includes the kind, which says how the handler is served, and its version.

        Raises:
            NotAHandler: It has no name of its own, under which its calls could be kept.
        """
        if not isroutine(handler):
            raise NotAHandler(
                f"a durable handler is a function or a method, which has a name; wrap {handler!r}"
            )
        name = f"{kind}.{handler.__qualname__}@{self.version or _digest_of_file(handler)}"
        if self.handlers.setdefault(name, handler) != handler:
            raise NotAHandler(
                f"there is another handler {handler.__qualname__!r} in this store, and calls are"
                " kept under their handler's name: give this one another name"
            )
        return name

    @asynccontextmanager
    async def serving(
        self,
        lifespan_context: object,
        *,
        database: str | None = None,
        principal: Principal = authenticated_principal,
        clock: Clock | None = None,
        codec: RequestStateCodec | None = None,
    ) -> AsyncGenerator[Self]:
        """Open while the server serves. Unfinished calls stay with the engine at its end.

        Args:
            lifespan_context: What handlers find in theirs.
            database: `sqlite:///FILE` or `postgresql://...` for DBOS in this process,
                `temporal://HOST:PORT` for Temporal. None for a file that goes with the block.
            principal: Tells who sends a request.
            clock: Tells the time in seconds since 1970; the machine's if there is none.
            codec: Seals what is kept. Without one it can be read by who can read the engine's
                database.

        Raises:
            WrongDatabase: The engine of this process runs on another database or in another event
                loop, or there is no Temporal.
            RuntimeError: The store is open already.
        """
        if self._engine is not None:
            raise RuntimeError("this store is open already: it is one server's")
        self._lifespan_context = lifespan_context
        self._principal = principal
        self.clock = clock or self.clock
        open_engine, _ = _adapter(database)
        async with open_engine(database, self, codec) as self._engine:
            try:
                yield self
            finally:
                self._engine = None

    async def perform(self, name: str, running: Running) -> Output:
        """Run the handler of this name to its end."""
        context = DurableContext(self._lifespan_context, running, idle_seconds=self.idle_seconds)
        handler = self.handlers[name]
        outcome = await context.outcome(handler(context, running.record.begun.call))
        return running.record.ended(outcome)

    def begins_as_task(self, name: str, begun: Begun) -> bool:
        """Return whether a call of the handler of this name is a task from its first line."""
        return False

    def caller(self, ctx: Context) -> Caller:
        """Return the client of this round, as the call sees it."""
        return Caller(kinds(ctx), principal=self._principal(ctx))

    # --- rounds ---

    def in_rounds(self, name: str, naming: CallNaming) -> HandlerOf[Params, Any]:
        """Return the function that answers the rounds of this handler's calls."""

        async def durable(ctx: Context, params: Params) -> types.Result:
            effects_here().is_named = naming.call is not None
            if params.request_state is None:
                position = Position(secrets.token_urlsafe(16), began=round(self.clock() * 1e6))
            else:
                position = Position.of(params.request_state)
            if _wants_no_more(params):
                with anyio.move_on_after(max(self.wait_seconds, STOP_SECONDS)):
                    await self.engine.stop(position.handle)
                    raise refusal(Reason.STOPPED)
                return self._tell_to_wait(ctx, position)
            named: CallName | None = None
            if position.number < 0:  # a retry, too, looks for the call of its name
                named = naming.name_of(ctx, params, self._principal(ctx))
                self._check_age(named)
                if named is not None:
                    position.handle = named.handle
            # An old client has this one request for the whole call.
            hold = self.wait_seconds if is_modern(ctx) else math.inf
            try:
                with anyio.move_on_after(hold):
                    return await self._answer_round(name, ctx, params, position, named)
            except anyio.get_cancelled_exc_class():
                if params.request_state is None and named is None:  # its client has no state of it
                    with suppress(MCPError), anyio.move_on_after(STOP_SECONDS, shield=True):
                        await self.engine.stop(position.handle)
                raise
            return self._tell_to_wait(ctx, position)

        return self.marked(durable, naming)

    def marked(self, handler: HandlerT, naming: CallNaming) -> HandlerT:
        """Mark a handler as one of this store, and return it."""
        needing = mark_need(seals(handler), self.serving)
        return naming_calls(mark_times(needing, idle_seconds=self.idle_seconds), naming)

    def _check_age(self, named: CallName | None) -> None:
        """Raise for a client's key whose call may be forgotten before its user ends it."""
        if named is not None and named.made is not None:
            age = (self.clock() - named.made) / self._key_seconds
            if not -_AHEAD <= age <= 1 - _AHEAD:
                raise refusal(Reason.CALL_KEY_EXPIRED)

    def _tell_to_wait(self, ctx: Context, position: Position) -> types.Result:
        """Return the response to a client whose call is still at work."""
        position.waited += 1
        if position.number + 1 + position.waited > self.rounds:
            raise refusal(Reason.STILL_AT_WORK)
        held = types.InputRequiredResult(request_state=position.state)
        if self.while_working == "form" and declares_forms(ctx):
            held.input_requests = {GO_ON: _GO_ON}
        return held

    async def _answer_round(
        self,
        name: str,
        ctx: Context,
        params: Params,
        position: Position,
        named: CallName | None,
    ) -> types.Result:
        """Return the response of a round.

        If that takes too long it is cancelled, and the client's retry goes on from `position`.
        """
        answers = self._read_answers(ctx, params, position)
        began = position.began / 1e6
        record: Record | None = None
        if position.number >= 0:
            found = await self.engine.visit(position.handle, position.number, answers)
        else:
            call = CallParams.of(params)
            same = "" if named is None else named.same
            begun = Begun(call, answers.caller, began, self._ttl_ms, same)
            found, record = await self._begin(name, position, begun, named)
        since: float | None = None
        if named is not None and record is not None:
            if record.begun.same != named.same:
                raise named.other_arguments()
            since = record.updated if record.begun.at < began else None
            found = await self._look_up_output(record, position, answers)
        if isinstance(found, Record):
            found.new_answers(position.number, answers)
            found = cast(Reply, found.reply(position.number))  # it has ended
        try:
            result = await self.result_of(ctx, position.handle, found)
        except MCPError as error:
            raise error if since is None else error_as_repeat(error, since) from None
        if since is None or not isinstance(found.output, Ended):
            return result
        return as_repeat(result, since)

    async def _begin(
        self, name: str, position: Position, begun: Begun, named: CallName | None
    ) -> tuple[Reply | Record, Record | None]:
        """Begin a call, or find the one that has its name now; return its output and its record."""
        while True:
            if length(begun) > MAX_BYTES:
                raise refusal(Reason.TOO_LONG)
            if request_here().misfit is not None:
                await self._check_known(position.handle)
            found = await self.engine.begin(name, position.handle, begun)
            if named is None:
                return found, None
            record = await self.engine.look(position.handle)
            end = record.end
            if end is None or record.begun.at == begun.at:  # it goes on, or this request began it
                return found, record
            if end.unknown is not None:
                if record.begun.same != named.same:
                    raise named.other_arguments()
                first = end.unknown.first or position.handle
                begun = replace(begun, before=replace(end.unknown, first=first))
            elif end.frees and not named.is_key:
                begun = replace(begun, before=Attempt())
            else:  # a call under a key keeps its name: another intention has another key
                return found, record
            position.handle = cast(str, handle_after(position.handle))

    async def _check_known(self, handle: str) -> None:
        """Raise for arguments that do not fit, unless the call has begun with them."""
        try:
            await self.engine.look(handle)
        except MCPError as error:
            if reason_of(error) == Reason.UNKNOWN_CALL:
                check_arguments()
            raise

    async def _look_up_output(
        self, record: Record, position: Position, answers: Answers
    ) -> Reply | Record:
        """Return the current output of a call that was made again."""
        last = len(record.outputs) - 1
        if record.task_at is not None:
            return Reply(0, Handed(record.task_at))
        if record.output is not None:
            return Reply(last, record.output)
        position.number = last
        return await self.engine.visit(position.handle, last, answers)

    def _read_answers(self, ctx: Context, params: Params, position: Position) -> Answers:
        """Return the answers of this round: those that it sends, or those in its state."""
        responses = {
            key: each for key, each in (params.input_responses or {}).items() if key != GO_ON
        }
        if responses:
            answers = Answers(responses, self.caller(ctx), position.asked)
            said = Seal(None).write(answers, position.handle)
            if len(said) > MAX_BYTES:
                raise refusal(Reason.TOO_LONG)
            position.said = said if len(said) <= _SAID_CHARS else ""
            return answers
        if not position.said:
            return Answers({}, self.caller(ctx))
        try:
            return Seal(None).read(Answers, position.said, position.handle)
        except Unreadable:
            raise refusal(Reason.UNKNOWN_CALL) from None

    async def result_of(self, ctx: Context, handle: str, reply: Reply) -> types.Result:
        """Return the response of a round that got this reply."""
        match reply.output:
            case Asked(requests=requests) as asked:
                state = Position(handle, reply.number, asked=asked.digest).state
                return types.InputRequiredResult(input_requests=dict(requests), request_state=state)
            case Ended(outcome=None):
                raise refusal(Reason.UNKNOWN_CALL)
            case Ended(outcome=Exception() as error, effects=effects, unknown=handed_on):
                here = effects_here()
                here.add(effects)
                here.is_handed_on = handed_on is not None
                here.is_in_doubt = bool(effects)
                raise error
            case Ended(outcome=types.Result() as result):
                return result
            case _:
                raise AssertionError("a call that is a task, and no store of tasks")


def _wants_no_more(params: Params) -> bool:
    """Return whether the user was asked whether to go on waiting, and declined."""
    answer = (params.input_responses or {}).get(GO_ON)
    return answer is not None and getattr(answer, "action", None) != "accept"


def _digest_of_file(handler: Callable[..., Any]) -> str:
    # We hash the whole file, since a handler is more than its own lines: a false mismatch is safer
    # than a missed one.
    return hashlib.sha256(Path(handler.__code__.co_filename).read_bytes()).hexdigest()[:16]
