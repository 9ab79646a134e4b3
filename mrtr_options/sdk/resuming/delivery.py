"""Sending one round of a call until it is answered. Knows the other modules of this folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from random import uniform
from typing import cast

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.handler import reason_of
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.resuming.asking import UserTime
from mrtr_options.sdk.resuming.connection import BadResponse, CannotConnect, Connection, Lost
from mrtr_options.sdk.resuming.errors import StateRefused, Unanswered
from mrtr_options.sdk.resuming.open_calls import KeptCall, Records

Response = types.CallToolResult | types.InputRequiredResult

_RESPONSE: TypeAdapter[Response] = TypeAdapter(Response)

LONGEST_PAUSE_SECONDS = 10.0

_NOT_UNDER_THE_KEY = Reason.BAD_CALL_KEY, Reason.CALL_REUSED
"""The reasons of refusals after which nothing has happened: no valid key, or another call's."""


class _WithoutKeys(Exception):
    """The connection is of the legacy era, where a request is a whole call.

    A key is not heeded there.
    """


@dataclass(eq=False, kw_only=True)
class Manner:
    """The manner in which rounds are sent; see `ResumingClient`."""

    honours_keys: bool = False
    attempts: int = 4
    pause_seconds: float = 0.25
    round_seconds: float = 60.0
    legacy_seconds: float = 600.0


@dataclass(eq=False)
class Delivery:
    """One round, until it is answered.

    Attributes:
        call: The call, with the answers that the round brings; and as it was sent at last.
        connection: Where it is sent.
        user_time: Knows when the user is asked on a legacy connection.
        manner: How often, and how long a response is waited for.
        records: Keeps how the call stands.
        was_repeated: Whether the response is one to a first request that was sent before.
    """

    call: KeptCall
    connection: Connection
    user_time: UserTime
    manner: Manner
    records: Records
    was_repeated: bool = False

    def __post_init__(self) -> None:
        self._begun = self.call.begun
        self._lost = "it was sent before, and is not known to have been answered"
        self._has_keys = self.manner.honours_keys
        self._listed_again = self._has_new_key = False

    async def response(self) -> Response:
        """Send the round, again and again, until it is answered.

        Raises:
            Unanswered: There was no response.
            StateRefused: The server takes the state no more.
            BadResponse, MCPError: See `ResumingClient.call_tool`.
        """
        for attempt in range(self.manner.attempts):
            is_again = self._is_first and self._begun
            by_key = is_again and self._has_keys
            if is_again and not by_key and not await self._may_begin_again():
                raise self._unanswered(
                    f"no response to the first request of {self.call.tool!r} ({self._lost}); its"
                    " effects may have happened, and it may not be sent again"
                )
            await self._pause_before(attempt)
            try:
                response = await self._send(by_key=by_key)
            except _WithoutKeys:
                self._has_keys = False
            except CannotConnect as error:
                self._lost = str(error)
            except Lost as error:
                self._begun = True
                self._lost = str(error)
            except MCPError as error:
                await self._take_refusal(error)
            else:
                self.was_repeated = is_again
                return response
        raise self._unanswered(
            f"no response from {self.call.tool!r} in {self.manner.attempts} attempts: {self._lost}"
        )

    def _unanswered(self, text: str) -> Unanswered:
        """Return the error, whose call says whether its first request may have been sent."""
        self.call = self.call.model_copy(update={"begun": self._begun})
        if not self._begun:  # it is kept as one that was sent, perhaps
            self.records.keep(self.call)
        return Unanswered(text, self.call)

    @property
    def _is_first(self) -> bool:
        return self.call.pending is None

    async def _pause_before(self, attempt: int) -> None:
        if attempt:
            pause = min(self.manner.pause_seconds * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
            # Not all clients of a server at once.
            await anyio.sleep(pause * uniform(0.75, 1.25))

    async def _take_refusal(self, error: MCPError) -> None:
        """Prepare to send the round again, where the server's refusal allows it.

        Raises:
            StateRefused, MCPError: It does not.
        """
        self._lost = error.message
        if error.code == types.HEADER_MISMATCH and not self._listed_again:
            self._listed_again = True  # as the SDK's own client does
            await self._listed()
            return
        match reason_of(error):
            case Reason.STILL_AT_WORK:
                pass
            case Reason.STORE_UNUSABLE | Reason.STORE_FULL | Reason.TOO_MANY_CONTINUATIONS:
                self._begun = True  # it could not finish or begin the request, and takes it later
            case Reason.STATE_EXPIRED if not self._is_first:
                self._begin_again_after(error)
            case Reason.INVALID_STATE as reason if not self._is_first:
                self.call = self.call.model_copy(update={"refused": str(reason)})
                self.records.keep(self.call)
                raise StateRefused(error, self.call, is_over=False) from error
            case Reason.CALL_KEY_EXPIRED if self._may_renew_key:
                self._renew_key()
            case Reason.INVALID_ANSWER:
                self.records.keep(self.call.model_copy(update={"answers": {}, "said": {}}))
                raise error
            case _:
                self._end_with(error)

    def _begin_again_after(self, error: MCPError) -> None:
        """Go back to the first request, whose key gets its result or its question."""
        if self.manner.honours_keys:
            self.call = self.call.model_copy(update={"pending": None, "answers": {}})
            return
        self.records.forget(self.call)
        raise StateRefused(error, self.call, is_over=True) from error

    @property
    def _may_renew_key(self) -> bool:
        return not (self._begun or self._has_new_key or self.call.called_before)

    def _renew_key(self) -> None:
        key = new_call_key()
        self.records.hold_also(self.call.key, key)
        self.records.forget(self.call)
        self._has_new_key = True
        self.call = self.call.model_copy(update={"key": key})
        self.records.keep(self.call, sent=True)

    def _end_with(self, error: MCPError) -> None:
        is_under_key = reason_of(error) not in _NOT_UNDER_THE_KEY
        was_called_before = self.call.called_before and is_under_key
        may_have_effects = self._begun or not self._is_first or was_called_before
        if error.code != types.INTERNAL_ERROR and not may_have_effects:
            self.records.forget(self.call)
        raise error

    async def _send(self, *, by_key: bool) -> Response:
        """Send the round once.

        Args:
            by_key: Whether it was sent before, and only the key says that it is the same one.
        """
        call = self.call
        state = call.pending.request_state if call.pending is not None else None

        params = types.CallToolRequestParams(
            name=call.tool,
            arguments=call.arguments,
            input_responses=call.answers or None,
            request_state=state,
            _meta=cast("types.RequestParamsMeta", {CALL_KEY: call.key}),
        )

        async def send(client: Client, seconds: float) -> Response:
            # Not `call_tool`: it lists the tools once it has the result, and that can fail.
            return await client.session.send_request(
                types.CallToolRequest(params=params),
                _RESPONSE,
                request_read_timeout_seconds=seconds,
            )

        async def send_in_time(client: Client) -> Response:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return await send(client, self.manner.round_seconds)
            if call.pending is not None:
                # The SDK takes a server that is slow to say what it is for one of the legacy era.
                raise MCPError(types.CONNECTION_CLOSED, "the server was taken for a legacy one")
            if by_key:
                raise _WithoutKeys
            return await self.user_time.within(
                self.manner.legacy_seconds, partial(send, client, math.inf)
            )

        return await self.connection.use(send_in_time)

    async def _may_begin_again(self) -> bool:
        tool = await self._listed()
        hints = None if tool is None else tool.annotations
        if hints is None:
            return False  # without hints a tool is presumed destructive
        return bool(hints.read_only_hint or hints.idempotent_hint)

    async def _listed(self) -> types.Tool | None:
        """Return the tool as the server lists it; None if it does not, or cannot be asked."""

        async def look(client: Client) -> types.Tool | None:
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor, cache_mode="refresh")
                for tool in page.tools:
                    if tool.name == self.call.tool:
                        return tool
                if page.next_cursor is None:
                    return None
                cursor = page.next_cursor

        try:
            with anyio.move_on_after(self.manner.round_seconds):
                return await self.connection.use(look)
        except (Lost, BadResponse, MCPError):
            pass
        return None
