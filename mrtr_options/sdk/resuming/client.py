"""A client that does what the specification asks of one, round the SDK's own client.

    connect = lambda: Client(url, elicitation_callback=fill_in)
    whose = {"server": url, "principal": "alice"}
    async with ResumingClient(connect, calls=CallFolder(path), **whose) as client:
        result = await client.call_tool("weather", {"location": "Springfield"})

The rules
---------
- *A lost round is sent again*: as a new request with a new id and the same state, a bounded number
  of times, after a pause that grows. A connection that broke is replaced. H, K, L and the guard
  keep an effect from happening again; other servers do it again.
- *A first request that got no response* is sent again only where that does no harm: nothing was
  sent; the tool says that it is read-only or idempotent; or the server honours call keys
  (`call_key`), which every request carries, and the connection is a modern one. All others end in
  one error, since the effects may have happened. Whether a tool is read-only is the server's own
  word: trust the server.
- *What a server refused is not sent again*, unless it says that the call is still at work, or that
  the request may come later. Where the server honours keys, a caller's own state that is too old
  does not end the call while the key is good: the first request, under the key, gets its result or
  its question. For this the guard's `keep_seconds` has to be longer than its states are good for;
  by default both are ten minutes, and the call ends in an error. Any other refused state may be
  somebody else's, and under the key a new call of this caller's would begin. A new key that a
  server finds too old, one with a new store for example, is replaced once: nothing was done. A key
  that the host gave is not replaced: its call may have happened.
- *A state that the server takes no more* ends in `StateRefused`. A call whose state is too old is
  dropped; one whose state was refused otherwise is kept and marked: another instance may take it.
- *The user's time is not the server's.* No response is waited for while a question is open. On a
  legacy connection, where the user answers within the request, its time limit stops then.
  A callback of a modern connection is told whose question it is (`QuestionContext`).
- *The user is asked once for each question.* A question that a repeated first request brings once
  more gets the answer on record, where the server names the call as it did at first. Where it names
  another, it has forgotten this one, and nothing is answered. Where it names none, the user is
  asked.
- *What is needed to go on is kept* (`calls`) before each request and after each answer, until a
  result has come or the very first request was refused. Any other call may be going on at the
  server: the host can ask what became of it (`resume`), or drop it (`CallFolder.forget`). A call is
  resumed for the server and the principal that it was made for, by one process at a time. A host
  that calls again for the same intention gives `call_tool` the key of the first time.

What it trades: a call may take `attempts` times as long before it fails, and a server that keeps no
record of rounds does its effects again. Answers and states lie in files that their owner can read.
It takes results and questions; a task or another extension's result is an error. It does not check
a result against the tool's output schema.

Knows the SDK's client, `call_key`, and the other modules of this folder. `delivery` sends a round.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Self, TypeVar

import anyio
import mcp_types as types
from mcp import Client, ClientSession, MCPError

from mrtr_options.checks import check_functions, check_numbers
from mrtr_options.sdk.call_key import CALL
from mrtr_options.sdk.resuming.asking import QuestionContext, UserTime
from mrtr_options.sdk.resuming.connection import Connection, Lost, Use
from mrtr_options.sdk.resuming.delivery import Delivery, Manner, Response
from mrtr_options.sdk.resuming.errors import StateRefused, TooManyRounds, Unanswered
from mrtr_options.sdk.resuming.open_calls import (
    CallFolder,
    CannotKeep,
    KeptCall,
    Records,
    as_json,
    check_text,
    digest_of,
)

__all__ = ["ResumingClient", "StateRefused", "TooManyRounds", "Unanswered"]

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ResumingClient(Manner, anyio.AsyncContextManagerMixin):
    """A client that sends a round again if its response was lost. An async context manager.

    Attributes:
        connect: Makes a client of the SDK's with the host's callbacks, not yet entered. Called
            again when a connection broke.
        server: The host's name for the server, its URL for example.
        principal: The host's name for the account that it connects as, "" where there is none; it
            is needed with `calls`. A call is resumed for the same server and principal alone. With
            several accounts, make several clients.
        calls: Where calls are kept; None to keep nothing, and to lose them with this process.
        honours_keys: Whether the server honours call keys. The protocol has no way to find out yet.
            None are honoured on a legacy connection.
        attempts: How often a round is sent at most.
        pause_seconds: How long the first pause is; each one is about twice as long as the one
            before.
        round_seconds: How long a response is waited for.
        legacy_seconds: The same on a legacy connection, where a request is a whole call. Time in
            which its user is asked is not counted.
        rounds: How many rounds may follow the first one.

    Raises:
        TypeError: `connect` is not a function.
        ValueError: A number is not over 0, or calls are kept without a principal.
    """

    connect: Callable[[], Client]
    _: KW_ONLY
    server: str = ""
    principal: str | None = None
    calls: CallFolder | None = None
    rounds: int = 10
    _connection: Connection | None = field(init=False, default=None)
    _user_time: UserTime = field(init=False, default_factory=UserTime)

    def __post_init__(self) -> None:
        check_functions("ResumingClient", connect=self.connect)
        numbers = (self.attempts, self.round_seconds, self.legacy_seconds, self.rounds)
        check_numbers("ResumingClient", *numbers)
        check_numbers("ResumingClient", self.pause_seconds or 1)  # 0: no pause
        if self.calls is not None and self.principal is None:
            raise ValueError(
                'calls are kept for a principal: name it, or say "" where there is none'
            )
        self._whose = (self.server, self.principal or "")
        self._records = Records(self.calls)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            self._connection = Connection(self._new_client, group, self.round_seconds)
            try:
                yield self
            except Exception as error:
                failure = error
            finally:
                self._connection = None
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure  # as it is, not in a group

    def _new_client(self) -> Client:
        client = self.connect()
        self._user_time.watch(client)
        return client

    async def use(self, do: Use[T]) -> T:
        """Do something else with the SDK's client, on the same connection."""
        return await self._connected().use(do)

    def _connected(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("this client is not connected: enter it first")
        return self._connection

    async def call_tool(
        self, name: str, arguments: dict[str, object] | None = None, *, key: str | None = None
    ) -> types.CallToolResult:
        """Make a call.

        Args:
            name: The tool.
            arguments: The arguments of the call.
            key: The call's key, where the host called before for the same intention; None for a new
                one.

        Raises:
            Unanswered: A round got no response, or (TooManyRounds) the call took too many.
            StateRefused: The server no longer accepts the state of the call.
            BadResponse: The server sent something that is not a response of the protocol. The call
                is kept after these, as it is after an error of the host's own; not after a
                StateRefused that `is_over`.
            CannotKeep: The folder cannot be used, or somebody else is going on with the call.
            TypeError: A callback of the host's returned no result.
            ValueError: JSON cannot carry the arguments, the name or the key, or the key is that of
                another call.
            MCPError: The server refused, or a callback of the host's did. The call is kept, unless
                it was refused before anything can have happened; `CallFolder.forget` drops it.
        """
        server, principal = self._whose
        check_text("the tool's name", name)
        if key is not None:
            check_text("the key", key)
        given = None if arguments is None else as_json(arguments)
        call = KeptCall(server=server, principal=principal, tool=name, arguments=given)
        if key is not None:
            call = call.model_copy(update={"key": key, "called_before": True})
        with self._records.held(call.key) as kept:
            if kept is not None:
                if (kept.whose, kept.tool, kept.arguments) != (self._whose, name, given):
                    raise ValueError(
                        f"the key {key} is of another call, of {kept.tool!r}; make a new one"
                    )
                call = kept
            return await self._go_on(call)

    async def resume(self, call: KeptCall) -> types.CallToolResult:
        """Go on with a call, perhaps of another process; see `call_tool`.

        Args:
            call: What `Unanswered.call` or a `CallFolder` has of it. Where calls are kept, it goes
                on as it stands there.

        Raises:
            ValueError: It is a call of another server's or principal's, or is not kept any more.
            As `call_tool`.
        """
        with self._records.held(call.key) as kept:
            if self.calls is not None and kept is None:
                raise ValueError(
                    f"the call of {call.tool!r} is not kept: it has ended, or was dropped"
                )
            call = kept or call
            self._check_owner(call)
            return await self._go_on(call)

    async def _go_on(self, call: KeptCall) -> types.CallToolResult:
        self._connected()  # or else nothing is kept
        # The server repeated an earlier call: recorded answers are used again as long as each
        # question was answered before.
        is_known = False
        for _ in range(self.rounds + 1):
            call = await self._answered(call, is_known=is_known)
            self._records.keep(call, sent=True)
            response, call, was_repeated = await self.deliver(call)
            if isinstance(response, types.CallToolResult):
                self._ended(call)
                return response
            self._check_name(call, response)
            begins_again = was_repeated and call.name is not None
            call = call.asked(response)
            were_answered = all(digest_of(*asked) in call.said for asked in call.open.items())
            is_known = (is_known or begins_again) and were_answered
            self._records.keep(call)
            if not call.open:  # a state alone: the result is put off
                await anyio.sleep(self.pause_seconds)
        raise TooManyRounds(f"the call of {call.tool!r} took more than {self.rounds} rounds", call)

    async def deliver(self, call: KeptCall) -> tuple[Response, KeptCall, bool]:
        """Send one round until it is answered.

        Args:
            call: The call, with the answers that the round brings.

        Returns:
            The response, the call as it was last sent, and whether the request was a first one that
            had been sent before.

        Raises:
            As `resume`.
        """
        self._check_owner(call)
        sent = Delivery(call, self._connected(), self._user_time, self, self._records)
        response = await sent.response()
        return response, sent.call, sent.was_repeated

    def _check_owner(self, call: KeptCall) -> None:
        if call.whose != self._whose:
            raise ValueError(f"the call is of another server or principal, {call.whose}")

    async def _answered(self, call: KeptCall, *, is_known: bool) -> KeptCall:
        """Return the call when none of its questions is open."""
        while call.open:
            call = await self._answer_one(call, is_known)
            self._records.keep(call)
        return call

    def _ended(self, call: KeptCall) -> None:
        try:
            self._records.forget(call)
        except CannotKeep as error:
            _logger.warning("a call that has ended stays kept: %s", error)

    def _check_name(self, call: KeptCall, response: types.InputRequiredResult) -> None:
        """Check that a question is one of this call's.

        Raises:
            Unanswered: The server has begun another one under its key.
        """
        if call.pending is None and call.name not in (None, (response.meta or {}).get(CALL)):
            raise Unanswered(
                f"the server has forgotten the call of {call.tool!r} and begun another; the effects"
                " of the first one may have happened",
                call,
            )

    async def _answer_one(self, call: KeptCall, is_known: bool) -> KeptCall:
        """Answer one of a call's open questions: the user does, unless the answer is on record."""
        key, question = next(iter(call.open.items()))
        before = call.said.get(digest_of(key, question)) if is_known else None
        if before is not None:
            return call.answered(key, before)
        try:
            session = await self.use(_session)
        except Lost as error:
            raise Unanswered(f"the question {key!r} cannot be asked now: {error}", call) from error
        # Not within the connection: one that breaks while the user thinks does not interrupt them.
        context = QuestionContext(session=session, request_id=str(uuid.uuid4()), call=call, key=key)
        answer = await session.dispatch_input_request(context, question)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        if not isinstance(answer, types.Result):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"the callback that answers {key!r} returned {type(answer).__name__}, and no result"
            )
        return call.answered(key, answer)


async def _session(client: Client) -> ClientSession:
    return client.session
