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
- With a call key (`call_key`) two first requests are one call, for 0.9 times `keep_seconds` from the
  key's time. A key from more than 0.1 times as far ahead is refused. One whose call was in a database
  that is lost begins another call.
  The second one gets what the call has come to: its result, or the question that is open. A cancelled
  one leaves its call alone. The same key with other arguments, and one that is older, is refused.
- A call is finished by the code it began on. The version is the digest of the handler's file, or what
  the author says it is; the engine gives a call to processes of its version only. A round that reaches
  another version is passed on while a process of the call's own version lives, and is refused in one
  clear error when none does. A deployment that must not lose calls keeps old processes until their
  calls are done, as DBOS recommends.
- A call that waits costs a task in its process and rows in the database: no thread, no statement. One
  thread of each process listens for all of them (`exchange`).
- While the database is away, a round ends with a state and no question. That state carries the answers,
  sealed, so the client's retry brings them again. Calls go on by themselves once it is back.
- A client makes `rounds` rounds of one call at most. Where work takes longer than these are held, the
  last one ends in an error with the code -32001 and the reason `still_at_work`. The call goes on, and
  the same request with the same state waits further.
- What a call keeps is JSON, sealed under the server's keys where there are some; a pickle is never
  read. It is deleted `keep_seconds` after the call's end.
- asyncio only, as DBOS is. Instances in one process share its one engine.

Knows `engine`, `context`, `messages`, `questions` and `call_key`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

import anyio
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.request_state import RequestStateCodec, authenticated_principal
from sqlalchemy.exc import IntegrityError

from mrtr_options.sdk.call_key import CallKey, call_key_of, digest_of, other_arguments, too_old
from mrtr_options.sdk.durable.context import DeskT, DurableContext
from mrtr_options.sdk.durable.database import AWAY
from mrtr_options.sdk.durable.engine import KEEP_SECONDS, Engine
from mrtr_options.sdk.durable.exchange import TO_CALL, Text
from mrtr_options.sdk.durable.messages import (
    Answers,
    Asked,
    Begun,
    Call,
    Caller,
    Ended,
    Output,
    Refused,
    Seal,
    Unreadable,
    answered_differently,
    gave_up,
    other_version,
    recordable,
    still_at_work,
    unknown_call,
)
from mrtr_options.sdk.durable.shared import Shared
from mrtr_options.sdk.questions import is_modern, kinds

ResultT = TypeVar("ResultT", bound=types.Result)

FIRST_LOOK_SECONDS = 0.15
"""How long a round waits before it checks that its call runs somewhere."""
AGAIN_SECONDS = 0.5
"""How long it waits before it checks again."""
STOP_SECONDS = 5.0
"""How long a first request that was cancelled waits until its call has ended."""
ROUNDS = 10
"""How many rounds a client makes of one call, as the SDK's does unless it is told otherwise."""
_AHEAD = 0.1
"""How far ahead a call key may be, as a share of the time that calls are kept."""

_LOG = logging.getLogger(__name__)

AnyHandler = Callable[[Any, Call], Awaitable[types.Result]]
Params = types.CallToolRequestParams | types.GetPromptRequestParams
Principal = Callable[[ServerRequestContext[Any, Any]], str | None]
Next = Literal["begin", "answer", "later"]


@dataclass
class Round:
    """One round of a call, and what is left to do of it: what a state says.

    Attributes:
        handle: The call.
        number: Of the output that the round answers; of the one that it waits for, if it is `later`.
        next: `begin` the call, `answer` what was asked, or look `later` for what it says.
        waited: How many rounds in a row ended without a question.
        said: What the user said, sealed, where an earlier round could not hand it to the call.
    """

    handle: str
    number: int = 0
    next: Next = "answer"
    waited: int = 0
    said: str = ""

    @classmethod
    def of(cls, state: str) -> Round:
        """The round that goes on from a state.

        Raises:
            MCPError: Genuine, but not a state of this kind.
        """
        handle, number, next, waited, said = [*state.split(".", 4), "", "", "", ""][:5]
        numbers = number, waited or "0"
        if not all(each.isdecimal() and len(each) <= 9 for each in numbers):
            raise unknown_call()
        for known in get_args(Next):
            if (next or "answer") == known:
                return cls(handle, int(number), known, int(waited or 0), said)
        raise unknown_call()

    @property
    def state(self) -> str:
        """What the client is to bring back."""
        if self.next == "answer" and not self.said:
            return f"{self.handle}.{self.number}"
        return f"{self.handle}.{self.number}.{self.next}.{self.waited}.{self.said}"


class DurableStore:
    """Turns handlers that await their answers into ones that return their questions.

    Args:
        idle_seconds: How long a question may stay unanswered before its call is given up.
        wait_seconds: How long a request is held before the client is told to retry.
        rounds: How many rounds a client makes of one call. The last one is told that the call goes on.
        keep_seconds: How long a call is kept after its end. A call that no process runs is kept as long
            after its last change, so this should be longer than a question waits.
        version: The version of the handlers' code; None for the digest of their file.
    """

    def __init__(
        self,
        *,
        idle_seconds: float = 600.0,
        wait_seconds: float = 10.0,
        rounds: int = ROUNDS,
        keep_seconds: float = KEEP_SECONDS,
        version: str | None = None,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._rounds = rounds
        self._keep_seconds = keep_seconds
        self._version = version
        self._handlers: dict[str, AnyHandler] = {}
        self._opening: Shared[Self] = Shared()
        self._engine: Engine | None = None
        self._lifespan_context: Any = None
        self._principal: Principal = authenticated_principal
        self._seal = Seal(None)
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
            is_first = params.request_state is None
            key = call_key_of(ctx, params) if is_first else None
            begin = f"{self._handle(ctx, params, key)}.0.begin"
            round = Round.of(begin if params.request_state is None else params.request_state)
            # An old client has this one request for the whole call.
            hold = self._wait_seconds if is_modern(ctx) else math.inf
            try:
                with anyio.move_on_after(hold):
                    if key is not None and (known := await self._known(ctx, params, round)) is not None:
                        return known
                    return await self._round(name, ctx, params, round)
            except anyio.get_cancelled_exc_class():
                if is_first and key is None:  # its client has no state of it
                    with anyio.move_on_after(STOP_SECONDS, shield=True):
                        await self.stop(round.handle)
                raise
            return self._later(round)

        return durable

    def _handle(self, ctx: ServerRequestContext[Any, Any], params: Params, key: CallKey | None) -> str:
        """The name of the call that a first request begins, or has begun."""
        if key is None:
            return secrets.token_urlsafe(16)
        # Its call is kept from now on at least. A key is good for no longer, if it is from ahead, too.
        age = (self.clock() - key.made) / self.remembers_seconds
        if not -_AHEAD <= age <= 1 - _AHEAD:
            raise too_old()
        return key.call_of(self._principal(ctx), params.name)

    @property
    def remembers_seconds(self) -> float:
        """For how long from its beginning a call is surely kept."""
        return self._keep_seconds

    async def _known(
        self, ctx: ServerRequestContext[Any, Any], params: Params, round: Round
    ) -> types.Result | None:
        """What the call of a first request with a key has come to.

        None if it is at work, or has not begun; `round` says what is left to do then.

        Raises:
            MCPError: The key came with other arguments before.
        """
        if (begun := await self.engine.begun_with(round.handle)) is None:
            return None
        call = self._seal.read(Begun, begun, round.handle).call
        if digest_of(call.arguments) != digest_of(params.arguments):
            raise other_arguments()
        round.next = "later"
        return await self.stands(ctx, round)

    async def stands(self, ctx: ServerRequestContext[Any, Any], round: Round) -> types.Result | None:
        """What a call that has begun published last; None if it is at work on what follows.

        Args:
            ctx: The request's.
            round: The call's. It goes on to what follows.
        """
        last = await self.engine.exchange.last_of_call(round.handle)
        if last is None:
            return None
        output, round.number = self.output_in(round.handle, last), int(last.topic)
        if isinstance(output, Refused):
            round.number -= 1
            output, _ = await self.said(round.handle, round.number)
            assert output is not None
        elif isinstance(output, Asked) and await self.engine.exchange.last(
            round.handle, f"{TO_CALL}{round.number}"
        ):
            round.number += 1
            return None
        return await self.result_of(ctx, output, round.handle, round.number)

    def _later(self, round: Round) -> types.Result:
        """The response of a round that was held for long enough."""
        round.waited += 1
        if round.number + round.waited > self._rounds:
            raise still_at_work(self._rounds * self._wait_seconds)
        return types.InputRequiredResult(request_state=round.state)

    @asynccontextmanager
    async def serving(
        self,
        lifespan_context: object,
        *,
        database: str | None = None,
        principal: Principal = authenticated_principal,
        clock: Callable[[], float] | None = None,
        codec: RequestStateCodec | None = None,
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
            codec: Seals what is kept of a call. All instances need the same keys, and a call is lost
                with its keys. None to leave it readable in the database.

        Raises:
            ValueError: Not such a URL. One line that says what to do.
            WrongDatabase: The engine of this process runs on another database.
        """
        self.clock = clock or self.clock
        async with self._opening.used(lambda: self._open(lifespan_context, database, principal, codec)):
            yield self

    @asynccontextmanager
    async def _open(
        self,
        lifespan_context: object,
        database: str | None,
        principal: Principal,
        codec: RequestStateCodec | None,
    ) -> AsyncGenerator[Self]:
        if database is not None and not database.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("the database is sqlite:///FILE or postgresql://...")
        url, mark, apart = (database or "").partition("#")
        self._lifespan_context, self._principal, self._apart = lifespan_context, principal, mark + apart
        self._seal = Seal(codec)
        version = "+".join(sorted({name.rpartition("@")[2] for name in self._handlers}))
        opening = Engine.opened(url or None, version, keep_seconds=self._keep_seconds)
        async with opening as engine, AsyncExitStack() as beside:
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

    async def run(self, name: str, handle: str, begun: str) -> None:
        """Run a call to its end, and publish the end."""
        first = self._seal.read(Begun, begun, handle)
        context = DurableContext(
            self._lifespan_context, handle, first.caller, self._seal, idle_seconds=self._idle_seconds
        )
        outcome = await self.outcome(name, context, first.call)
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

    async def stop(self, handle: str) -> None:
        """End a call for good: it records nothing from here on."""
        await self.engine.stop([handle])

    async def _round(
        self, name: str, ctx: ServerRequestContext[Any, Any], params: Params, round: Round
    ) -> types.Result:
        """The response of a round. Where that takes too long it is cancelled, and `round` says what is
        left to do."""
        answer: Answers | None = None
        if round.next == "begin":
            await self._begin(name, ctx, params, round)
        elif round.next == "answer":
            asked, _ = await self.said(round.handle, round.number)
            if not isinstance(asked, Asked):
                raise unknown_call()
            answer = self._answers(ctx, params, asked, round)
            if answer is None:
                return await self._without_answer(ctx, asked, round)
        return await self._output(ctx, round, answer)

    async def _begin(
        self, name: str, ctx: ServerRequestContext[Any, Any], params: Params, round: Round
    ) -> None:
        call = Call(params.name, None if params.arguments is None else {**params.arguments})
        begun = self._seal.write(Begun(call, self.caller(ctx)), round.handle)
        is_new = params.request_state is None and call_key_of(ctx, params) is None
        while is_new or await self.engine.status_of(round.handle) is None:
            is_new = False
            start = self.engine.start(self, name + self._apart, round.handle, begun)
            try:
                # Who waits for it may stop waiting. It begins all the same, once the database is there.
                await asyncio.shield(asyncio.ensure_future(start))
                break
            except AWAY as error:
                _LOG.warning("call %s has not begun: %s", round.handle, str(error).splitlines()[0])
            await anyio.sleep(AGAIN_SECONDS)
        round.next, round.waited = "later", 0

    def _answers(
        self, ctx: ServerRequestContext[Any, Any], params: Params, asked: Asked, round: Round
    ) -> Answers | None:
        """What this round brings: what the client says, or what it said to an earlier round."""
        given = params.input_responses or {}
        responses = {key: given[key] for key in asked.requests if key in given}
        if responses:
            answers = Answers(responses, self.caller(ctx))
            round.said = self._seal.write(answers, round.handle)
            return answers
        return self._seal.read(Answers, round.said, round.handle) if round.said else None

    async def _without_answer(
        self, ctx: ServerRequestContext[Any, Any], asked: Asked, round: Round
    ) -> types.Result:
        output, _ = await self.said(round.handle, round.number + 1)
        if output is not None and not isinstance(output, Refused):
            return await self.result_of(ctx, output, round.handle, round.number + 1)
        await self.look_after(round.handle)
        return await self.result_of(ctx, asked, round.handle, round.number)

    async def _output(
        self, ctx: ServerRequestContext[Any, Any], round: Round, answer: Answers | None
    ) -> types.Result:
        """Send the answers, if there are some, and wait for what the call publishes next."""
        handle, after = round.handle, 0
        if answer is not None:
            number = round.number + 1
            output, after = await self.said(handle, number)
            if isinstance(output, Refused) and output.after == answer.digest:
                raise output.error
            if output is None or isinstance(output, Refused):
                # Once for each refusal: what was refused before may be said again after something else.
                await self.send(handle, f"{TO_CALL}{round.number}", answer, f"{answer.digest}.{after}")
            else:
                after -= 1  # it is what this round waits for
            round.number, round.next, round.waited, round.said = number, "later", 0, ""
        while True:
            output, after = await self.following(handle, round.number, after)
            match output:
                case Refused():
                    if answer is not None and output.after == answer.digest:
                        raise output.error
                    if answer is None:  # a retry without the answer, so the question is asked again
                        asked, _ = await self.said(handle, round.number - 1)
                        assert asked is not None
                        return await self.result_of(ctx, asked, handle, round.number - 1)
                case _:  # a refusal of what another round said is not of interest
                    if answer is not None and output.after not in (answer.digest, None):
                        raise answered_differently(min(answer.responses))
                    return await self.result_of(ctx, output, handle, round.number)

    # --- what is said ---

    async def said(self, handle: str, number: int) -> tuple[Output | None, int]:
        """What a call published last under a number, and its position there."""
        last = await self.engine.exchange.last(handle, str(number))
        return (None, 0) if last is None else (self.output_in(handle, last), last.position)

    async def following(self, handle: str, number: int, after: int) -> tuple[Output, int]:
        """What a call publishes next under a number, however long that takes. Has it run somewhere.

        Args:
            handle: The call.
            number: The number.
            after: A position there.
        """
        pause = FIRST_LOOK_SECONDS
        while True:
            with anyio.move_on_after(pause):
                text = await self.engine.exchange.next(handle, str(number), after)
                return self.output_in(handle, text), text.position
            pause = AGAIN_SECONDS
            await self.look_after(handle)

    def output_in(self, handle: str, text: Text) -> Output:
        """What a call published.

        Raises:
            MCPError: It cannot be read: it is of other keys.
        """
        try:
            return self._seal.read(Output, text.body, f"{handle} {text.topic}")
        except Unreadable as error:
            _LOG.warning("%s", error)
            raise unknown_call() from error

    async def send(self, handle: str, topic: str, answers: Answers, key: str) -> None:
        """Send answers to a call, once under a key.

        Raises:
            MCPError: The call has been deleted.
        """
        body = self._seal.write(answers, f"{handle} {topic}")
        try:
            await self.engine.exchange.put(handle, topic, key, body)
        except IntegrityError:
            raise unknown_call() from None

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
        """Make sure that a call runs somewhere, if the database can be used.

        Raises:
            MCPError: It does not and will not.
        """
        try:
            await self._have_run(handle)
        except AWAY as error:
            _LOG.warning("call %s was not looked after: %s", handle, str(error).splitlines()[0])

    async def _have_run(self, handle: str) -> None:
        engine = self.engine
        status = await engine.status_of(handle)
        if status is None or status.status not in ("PENDING", "ENQUEUED", "SUCCESS"):
            raise gave_up() if await engine.was_ended(handle) else unknown_call()
        if status.status != "PENDING" or status.process is None:
            return
        if status.process != engine.process:
            gone = await engine.take_over(status.process, self._workflows)
        else:
            gone = engine.was_interrupted(handle)
        if gone and status.name not in self._workflows:
            raise other_version()
        if gone and status.process == engine.process:
            await engine.run_again(handle)


def _digest_of_file(handler: Callable[..., Any]) -> str:
    # The whole file, since a handler is more than its own lines: a false mismatch is safer than a
    # missed one.
    return hashlib.sha256(Path(handler.__code__.co_filename).read_bytes()).hexdigest()[:16]
