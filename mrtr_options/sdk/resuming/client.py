"""A client that does what the specification asks of one, round the SDK's own client.

    connect = lambda: Client(url, elicitation_callback=fill_in) async with ResumingClient(connect,
    server=url, principal="alice", calls=CallFolder(path)) as client:
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
  does not end the call: the first request, under the key, gets its result or its question. Any
  other refused state may be somebody else's, and under the key a new call of this caller's would
  begin. A new key that a server finds too old, one with a new store for example, is replaced once:
  nothing was done. A key that the host gave is not replaced: its call may have happened.
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
It takes results and questions; a task or another extension's result is an error.

Knows the SDK's client, `call_key`, and the other modules of this folder.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from random import uniform
from typing import Self, TypeVar, cast

import anyio
import mcp_types as types
from mcp import Client, ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mrtr_options.checks import check_functions, check_numbers
from mrtr_options.sdk.call_key import CALL, CALL_KEY, new_call_key
from mrtr_options.sdk.resuming.connection import BadResponse, CannotConnect, Connection, Lost
from mrtr_options.sdk.resuming.kept import CallFolder, CannotKeep, KeptCall, digest_of

T = TypeVar("T")

Response = types.CallToolResult | types.InputRequiredResult

LONGEST_PAUSE_SECONDS = 10.0

_LATER = ("store_unusable", "store_full", "too_many_continuations")
"""What a server says that could not finish a request, or not begin it, and takes it later."""


_logger = logging.getLogger(__name__)


class Unanswered(Exception):
    """A call that has not ended: a round got no response, or the server has forgotten the call. The
    text is one line.

    Attributes:
        call: How the call stands. `resume` goes on with it.
    """

    def __init__(self, text: str, call: KeptCall) -> None:
        super().__init__(text)
        self.call = call


class TooManyRounds(Unanswered):
    """The server has asked, or has put off its result, too often; it may still be at work."""


class _WithoutKeys(Exception):
    """The connection is of the legacy era, where a request is a whole call and a key is not
    heeded.
    """


class ResumingClient(anyio.AsyncContextManagerMixin):
    """Calls tools, and sends a round again whose response was lost. An async context manager.

    Args:
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
        legacy_seconds: The same on a legacy connection, where a request is a whole call and its
            user may think.
        rounds: How many rounds may follow the first one.

    Raises:
        TypeError: `connect` is not a function.
        ValueError: A number is not over 0, or calls are kept without a principal.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        *,
        server: str = "",
        principal: str | None = None,
        calls: CallFolder | None = None,
        honours_keys: bool = False,
        attempts: int = 4,
        pause_seconds: float = 0.25,
        round_seconds: float = 60.0,
        legacy_seconds: float = 600.0,
        rounds: int = 10,
    ) -> None:
        self._connect = connect
        check_functions("ResumingClient", connect=connect)
        check_numbers("ResumingClient", attempts, round_seconds, legacy_seconds, rounds)
        check_numbers("ResumingClient", pause_seconds or 1)  # 0: no pause
        if calls is not None and principal is None:
            raise ValueError(
                'calls are kept for a principal: name it, or say "" where there is none'
            )
        self._whose = (server, principal or "")
        self._calls = calls
        self._honours_keys = honours_keys
        self._attempts = attempts
        self._pause_seconds = pause_seconds
        self._round_seconds = round_seconds
        self._legacy_seconds = legacy_seconds
        self._rounds = rounds
        self._connection: Connection | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            self._connection = Connection(self._connect, group, self._round_seconds)
            try:
                yield self
            except Exception as error:
                failure = error
            finally:
                self._connection = None
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure  # as it is, not in a group

    async def use(self, do: Callable[[Client], Awaitable[T]]) -> T:
        """Do something else with the SDK's client, on the same connection."""
        return await self._connected.use(do)

    @property
    def _connected(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("this client is not connected: enter it first")
        return self._connection

    async def call_tool(
        self, name: str, arguments: dict[str, object] | None = None, *, key: str | None = None
    ) -> types.CallToolResult:
        """Make a call.

        Args:
            name, arguments: The tool, and what it is called with.
            key: The call's key, where the host called before for the same intention; None for a new
                one.

        Raises:
            Unanswered: A round got no response, or (TooManyRounds) the call took too many.
            BadResponse: The server sent something that is not a response of the protocol. The call
                is kept after these, as it is after an error of the host's own.
            CannotKeep: The folder cannot be used, or somebody else is going on with the call.
            ValueError: The key is that of another call.
            MCPError: The server refused, or a callback of the host's did. The call is kept, unless
                it was refused before anything can have happened; `CallFolder.forget` drops it.
        """
        server, principal = self._whose
        call = KeptCall(server=server, principal=principal, tool=name, arguments=arguments)
        if key is not None:
            call = call.model_copy(update={"key": key, "called_before": True})
        with self._held(call.key) as kept:
            if kept is not None:
                if (kept.whose, kept.tool, kept.arguments) != (self._whose, name, arguments):
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
        with self._held(call.key) as kept:
            if self._calls is not None and kept is None:
                raise ValueError(
                    f"the call of {call.tool!r} is not kept: it has ended, or was dropped"
                )
            call = kept or call
            self._check(call)
            return await self._go_on(call)

    def _held(self, key: str) -> AbstractContextManager[KeptCall | None]:
        return nullcontext() if self._calls is None else self._calls.held(key)

    async def _go_on(self, call: KeptCall) -> types.CallToolResult:
        _ = self._connected
        knows = False
        for _ in range(self._rounds + 1):
            while call.open:
                call = await self._answer_one(call, knows)
                self._keep(call)
            self._keep(call, sent=True)
            response, call, again = await self.deliver(call)
            if isinstance(response, types.CallToolResult):
                try:
                    self._forget(call)
                except CannotKeep as error:
                    _logger.warning("a call that has ended stays kept: %s", error)
                return response
            if call.pending is None and call.name not in (None, (response.meta or {}).get(CALL)):
                raise Unanswered(
                    f"the server has forgotten the call of {call.tool!r} and begun another; the effects"
                    " of the first one may have happened",
                    call,
                )
            knows = knows or (again and call.name is not None)
            call = call.asked(response)
            knows = knows and all(digest_of(*asked) in call.said for asked in call.open.items())
            self._keep(call)
            if not call.open:  # a state alone: the result is put off
                await anyio.sleep(self._pause_seconds)
        raise TooManyRounds(f"the call of {call.tool!r} took more than {self._rounds} rounds", call)

    async def deliver(self, call: KeptCall) -> tuple[Response, KeptCall, bool]:
        """Send one round until it is answered.

        Args:
            call: The call, with the answers that the round brings.

        Returns:
            The response, the call as it was sent at last, and whether this is a response to a first
            request that was sent before.

        Raises:
            As `resume`.
        """
        self._check(call)
        begun, lost = call.begun, "it was sent before, and is not known to have been answered"
        listed = renewed = False
        has_keys = self._honours_keys
        for attempt in range(self._attempts):
            is_first = call.pending is None
            by_key = is_first and begun and has_keys
            if is_first and begun and not (by_key or await self._may_begin_again(call)):
                raise Unanswered(
                    f"no response to the first request of {call.tool!r} ({lost}); its effects may have"
                    " happened, and it may not be sent again",
                    call,
                )
            if attempt:
                pause = min(self._pause_seconds * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
                await anyio.sleep(
                    pause * uniform(0.75, 1.25)
                )  # not all clients of a server at once
            try:
                return await self._send(call, by_key), call, is_first and begun
            except _WithoutKeys:
                has_keys = False
            except CannotConnect as error:
                lost = str(error)
            except Lost as error:
                begun, lost = True, str(error)
            except MCPError as error:
                if error.code == types.HEADER_MISMATCH and not listed:
                    listed, lost = True, error.message  # as the SDK's own client does
                    await self._listed(call.tool)
                    continue
                match error.data:
                    case {"reason": "still_at_work"}:
                        lost = error.message
                    case {"reason": str(reason)} if reason in _LATER:
                        begun, lost = True, error.message
                    case {"reason": "request_state_expired"} if self._honours_keys and not is_first:
                        call = call.from_the_beginning()
                        lost = error.message
                    case {"reason": "call_key_expired"} if not (
                        begun or renewed or call.called_before
                    ):
                        self._forget(call)
                        renewed, call = True, call.model_copy(update={"key": new_call_key()})
                        self._keep(call, sent=True)
                        lost = error.message
                    case {"reason": "invalid_answer"}:
                        self._keep(call.model_copy(update={"answers": {}, "said": {}}))
                        raise
                    case _:
                        if error.code != types.INTERNAL_ERROR and not (
                            begun or call.pending or call.called_before
                        ):
                            self._forget(call)
                        raise
        raise Unanswered(
            f"no response from {call.tool!r} in {self._attempts} attempts: {lost}", call
        )

    def _check(self, call: KeptCall) -> None:
        if call.whose != self._whose:
            raise ValueError(f"the call is of another server or principal, {call.whose}")

    async def _send(self, call: KeptCall, by_key: bool) -> Response:
        """Send a round once.

        Args:
            call: The call.
            by_key: Whether it was sent before, and only the key says that it is the same one.
        """
        state = call.pending.request_state if call.pending is not None else None

        async def send(client: Client) -> Response:
            is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            if call.pending is not None and not is_modern:
                # The SDK takes a server that is slow to say what it is for one of the legacy era.
                raise MCPError(types.CONNECTION_CLOSED, "the server was taken for a legacy one")
            if by_key and not is_modern:
                raise _WithoutKeys
            return await client.session.call_tool(
                call.tool,
                call.arguments,
                read_timeout_seconds=self._round_seconds if is_modern else self._legacy_seconds,
                input_responses=call.answers or None,
                request_state=state,
                meta=cast("types.RequestParamsMeta", {CALL_KEY: call.key}),
                allow_input_required=True,
            )

        return await self.use(send)

    async def _may_begin_again(self, call: KeptCall) -> bool:
        tool = await self._listed(call.tool)
        if tool is None or (hints := tool.annotations) is None:
            return False  # without hints a tool is presumed destructive
        return bool(hints.read_only_hint or hints.idempotent_hint)

    async def _listed(self, name: str) -> types.Tool | None:
        """A tool as the server lists it; None if it does not, or cannot be asked."""

        async def look(client: Client) -> types.Tool | None:
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor, cache_mode="refresh")
                found = [tool for tool in page.tools if tool.name == name]
                if found or page.next_cursor is None:
                    return found[0] if found else None
                cursor = page.next_cursor

        try:
            with anyio.move_on_after(self._round_seconds):
                return await self.use(look)
        except (Lost, BadResponse, MCPError):
            pass
        return None

    async def _answer_one(self, call: KeptCall, knows: bool) -> KeptCall:
        """The call with an answer to one of its open questions; the user's, unless it is on
        record.
        """
        key, question = next(iter(call.open.items()))
        if knows and (before := call.said.get(digest_of(key, question))) is not None:
            return call.answered(key, before)
        try:
            session = await self.use(_session)
        except Lost as error:
            raise Unanswered(f"the question {key!r} cannot be asked now: {error}", call) from error
        # Not within the connection: one that breaks while the user thinks does not interrupt them.
        context = ClientRequestContext(session=session, request_id=key)
        answer = await session.dispatch_input_request(context, question)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        if not isinstance(answer, types.Result):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"the callback that answers {key!r} returned {type(answer).__name__}, and no result"
            )
        return call.answered(key, answer)

    def _keep(self, call: KeptCall, *, sent: bool = False) -> None:
        """Keep how a call stands, before what is said next, or is `sent` next."""
        if self._calls is not None:
            try:
                self._calls.keep(call.model_copy(update={"begun": call.begun or sent}))
            except CannotKeep as error:
                error.call = call
                raise

    def _forget(self, call: KeptCall) -> None:
        if self._calls is not None:
            self._calls.forget(call)


async def _session(client: Client) -> ClientSession:
    return client.session
