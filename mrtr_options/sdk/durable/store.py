"""Option L's store: the handler runs as a workflow of DBOS, on the process that took the first round.

Every step, every question and every answer is recorded. A question is published as an event and the
answer awaited as a message; the state that the client carries is the call's handle and the number of
the round, sealed. Whichever instance gets the next round sends the answer on and waits for the next
event.

What holds, and what does not
-----------------------------
- Any process may die, between two rounds or inside one. When a round finds the process of its call
  dead (`liveness` says when that is), or when a process starts, the call goes back to the engine's
  queue. A live process runs the handler again from its first line, with everything recorded taken from
  the record. The handler must be deterministic: read clocks and randomness only in steps.
- A step that is recorded does not run again. One that ran and was not recorded (the process died in
  between) runs again: give its key to a destination that honours it.
- A call that takes several processes along, one after another and at the same step, is ended. Its
  rounds are refused in one clear error.
- An answer is taken once. A duplicate gets the response on record; a different answer is refused. A
  bad answer is refused and may be corrected.
- A request is held for `wait_seconds` at most. After that the round ends with a state and no question,
  and the client retries with that state. An old client cannot do that, so its one request is held for
  as long as the call takes.
- A first request that is cancelled takes its call along, since the client has no state of it. A later
  one does not. A first response that is *lost* leaves its call behind, and the client begins another:
  the protocol does not tell two first requests apart. The call left behind is given up in time.
- A call is finished by the code it began on. The version is the digest of the handler's file, or what
  the author says it is; the engine gives a call to processes of its version only. A round that reaches
  another version is passed on while a process of the call's own version lives, and is refused in one
  clear error when none does. A deployment that must not lose calls keeps old processes until their
  calls are done, as DBOS recommends.
- Waiting costs a task in the process and a row in the database. On SQLite each process also polls the
  database every few milliseconds for every call it has parked: use it on one machine, for some hundred
  calls.
- asyncio only, as DBOS is. Instances in one process share its one engine.

Knows `engine`, `context`, `messages` and `questions`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import mcp_types as types
from dbos import DBOS
from mcp.server import ServerRequestContext
from mcp.server.request_state import authenticated_principal

from mrtr_options.sdk.durable.context import DeskT, DurableContext
from mrtr_options.sdk.durable.engine import Engine
from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Call,
    Caller,
    Ended,
    Output,
    Refused,
    answered_differently,
    gave_up,
    other_version,
    recordable,
    unknown_call,
)
from mrtr_options.sdk.durable.shared import Shared
from mrtr_options.sdk.questions import is_modern, kinds

ResultT = TypeVar("ResultT", bound=types.Result)

FIRST_LOOK_SECONDS = 0.15
"""How long a round waits before it checks that its call runs somewhere."""
AGAIN_SECONDS = 0.5
"""How long it waits before it checks again."""
UNREAD_SECONDS = 0.05
"""How long it waits where another round's answers were refused and its own have not been read."""

AnyHandler = Callable[[Any, Call], Awaitable[types.Result]]
Params = types.CallToolRequestParams | types.GetPromptRequestParams
Principal = Callable[[ServerRequestContext[Any, Any]], str | None]


class DurableStore:
    """Turns handlers that await their answers into ones that return their questions.

    Args:
        idle_seconds: How long a question may stay unanswered before its call is given up.
        wait_seconds: How long a request is held before the client is told to retry.
        version: The version of the handlers' code; None for the digest of their file.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = 600.0,
        wait_seconds: float = 10.0,
        version: str | None = None,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._version = version
        self._handlers: dict[str, AnyHandler] = {}
        self._opening: Shared[Self] = Shared()
        self._engine: Engine | None = None
        self._lifespan_context: Any = None
        self._principal: Principal = authenticated_principal
        self._apart = ""
        self.clock: Callable[[], float] = lambda: time.time()

    @property
    def engine(self) -> Engine:
        """The engine that an open store runs on."""
        if self._engine is None:
            raise RuntimeError("this store is closed: enter `serving` while its server serves")
        return self._engine

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
        """Have a handler run here; its name, with its version."""
        name = f"{handler.__qualname__}@{self._version or _digest_of_file(handler)}"
        self._handlers[name] = handler
        return name

    def rounds(self, name: str) -> Callable[[ServerRequestContext[Any, Any], Params], Awaitable[Any]]:
        """Answers the rounds of calls of the handler of this name."""

        async def durable(ctx: ServerRequestContext[Any, Any], params: Params) -> types.Result:
            if params.request_state is None:
                return await self._begin(name, ctx, params)
            return await self._resume(ctx, params)

        return durable

    @asynccontextmanager
    async def serving(
        self,
        lifespan_context: object,
        *,
        database: str | None = None,
        principal: Principal = authenticated_principal,
        clock: Callable[[], float] | None = None,
    ) -> AsyncGenerator[Self]:
        """Open while the server serves. Calls that are not finished at its end stay in the database.

        A store that is open already stays open as it is, until the last block ends.

        Args:
            lifespan_context: What handlers find in theirs.
            database: `sqlite:///file`, or `postgresql://...` for a fleet on several machines. Calls
                under `database#name` are apart from those of the same database under other names. None
                for the database that this process uses already, or else a temporary file, which is
                enough to try it and keeps nothing.
            principal: Names who is calling.
            clock: Tells the time by which tasks are kept, in seconds since 1970; None for the system's.

        Raises:
            ValueError: Not such a URL. One line that says what to do.
            WrongDatabase: The engine of this process runs on another database.
        """
        self.clock = clock or self.clock
        async with self._opening.used(lambda: self._open(lifespan_context, database, principal)):
            yield self

    @asynccontextmanager
    async def _open(
        self, lifespan_context: object, database: str | None, principal: Principal
    ) -> AsyncGenerator[Self]:
        if database is not None and not database.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("the database is sqlite:///FILE or postgresql://...")
        url, mark, apart = (database or "").partition("#")
        self._lifespan_context, self._principal, self._apart = lifespan_context, principal, mark + apart
        version = "+".join(sorted({name.rpartition("@")[2] for name in self._handlers}))
        async with Engine.opened(url or None, version) as engine, AsyncExitStack() as beside:
            await self.open_beside(engine, beside)
            self._engine = engine
            try:
                engine.add(self, self._workflows)
                await self.take_up()
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await engine.remove(self)

    async def open_beside(self, engine: Engine, beside: AsyncExitStack) -> None:
        """Open what this store needs besides the engine."""

    async def take_up(self) -> None:
        """Have the calls that were left at work run again."""
        await self.engine.take_up(self._workflows)

    @property
    def _workflows(self) -> list[str]:
        return [name + self._apart for name in self._handlers]

    async def run(self, name: str, call: Call, handle: str, caller: Caller) -> None:
        """Run a call to its end, and publish the end."""
        context = DurableContext(self._lifespan_context, handle, caller, idle_seconds=self._idle_seconds)
        outcome = await self.outcome(name, context, call)
        await context.publish(Ended(context.after, outcome))

    async def outcome(
        self, name: str, context: DurableContext[Any], call: Call
    ) -> types.Result | Exception:
        """How a handler ends, as it can be recorded."""
        try:
            return await self._handlers[name.partition("#")[0]](context, call)
        except Exception as error:
            return recordable(error)
        except BaseException:  # CallAbandoned, alone or in a group of the author's
            if not context.abandoned:
                raise
            return unknown_call()

    def caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """What a call is told of the client of this round."""
        return Caller(kinds(ctx), principal=self._principal(ctx))

    async def _begin(
        self, name: str, ctx: ServerRequestContext[Any, Any], params: Params
    ) -> types.Result:
        handle = secrets.token_urlsafe(16)
        call = Call(params.name, None if params.arguments is None else {**params.arguments})
        try:
            with anyio.CancelScope(shield=True):
                await self.engine.start(self, name + self._apart, handle, call, self.caller(ctx))
            return await self._output(ctx, handle, 0)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self.stop(handle)
            raise

    async def stop(self, handle: str) -> None:
        """End a call for good: it records nothing from here on."""
        await self.engine.stop([handle])

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
        output: Output | None = await DBOS.get_event_async(handle, str(number + 1), 0)
        if isinstance(output, Refused) and output.after == answers.digest:
            raise output.error
        # Once for each refusal: what was refused before may be said again after something else was.
        tries = output.count if isinstance(output, Refused) else 0
        await DBOS.send_async(
            handle, answers, str(number), idempotency_key=f"{handle}.{number}.{answers.digest}.{tries}"
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
        """Wait for what the call publishes next, and make sure that it runs somewhere.

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
                    if answer is None:  # a retry without the answer, so the question is asked again
                        asked: Output = await DBOS.get_event_async(handle, str(number - 1), 0)
                        return await self.result_of(ctx, asked, handle, number - 1)
                    await anyio.sleep(UNREAD_SECONDS)  # ours has not been read yet
                case _:
                    if answer is not None and output.after not in (answer, None):
                        raise answered_differently(key)
                    return await self.result_of(ctx, output, handle, number)
            left = deadline - anyio.current_time()
            if is_modern(ctx) and left <= 0:
                return types.InputRequiredResult(request_state=f"{handle}.{number}.later")
            pause = min(AGAIN_SECONDS, left) if is_modern(ctx) else AGAIN_SECONDS

    async def result_of(
        self, ctx: ServerRequestContext[Any, Any], output: Output, handle: str, number: int
    ) -> types.Result:
        """The response of a round for which the call has published this as event `number`."""
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
        """Make sure that a call runs somewhere.

        Raises:
            MCPError: It does not and will not.
        """
        engine = self.engine
        status = await engine.status_of(handle)
        if status is None or status.status not in ("PENDING", "ENQUEUED", "SUCCESS"):
            raise gave_up() if await engine.was_ended(handle) else unknown_call()
        if status.status != "PENDING" or status.executor_id is None:
            return
        if status.executor_id != engine.process:
            gone = await engine.take_over(status.executor_id, self._workflows)
        else:
            gone = engine.was_interrupted(handle)
        if gone and status.name not in self._workflows:
            raise other_version()
        if gone:
            await engine.run_again(handle)


def _digest_of_file(handler: Callable[..., Any]) -> str:
    # The whole file, since a handler is more than its own lines: a false mismatch is safer than a
    # missed one.
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
