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

from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.resuming.asking import UserTime
from mrtr_options.sdk.resuming.connection import BadResponse, CannotConnect, Connection, Lost
from mrtr_options.sdk.resuming.errors import StateRefused, Unanswered
from mrtr_options.sdk.resuming.open_calls import KeptCall, Records

Response = types.CallToolResult | types.InputRequiredResult

LONGEST_PAUSE_SECONDS = 10.0

_LATER = ("store_unusable", "store_full", "too_many_continuations")
"""The reasons of a server that could not finish or begin a request, and takes it later."""

_NOT_UNDER_THE_KEY = ("bad_call_key", "call_reused")
"""The reasons of refusals after which nothing has happened: no valid key, or another call's."""


class _WithoutKeys(Exception):
    """The connection is of the legacy era, where a request is a whole call.

    A key is not heeded there.
    """


@dataclass(frozen=True)
class Manner:
    """The manner in which rounds are sent; see `ResumingClient`."""

    honours_keys: bool
    attempts: int
    pause_seconds: float
    round_seconds: float
    legacy_seconds: float


class Delivery:
    """One round, until it is answered.

    Args:
        call: The call, with the answers that the round brings.
        connection: Where it is sent.
        user_time: Knows when the user is asked on a legacy connection.
        manner: How often, and how long a response is waited for.
        records: Keeps how the call stands.

    Attributes:
        call: The call as it was sent at last.
        was_repeated: Whether the response is one to a first request that was sent before.
    """

    def __init__(
        self,
        call: KeptCall,
        connection: Connection,
        user_time: UserTime,
        manner: Manner,
        records: Records,
    ) -> None:
        self.call = call
        self.was_repeated = False
        self._connection = connection
        self._user_time = user_time
        self._manner = manner
        self._records = records
        self._begun = call.begun
        self._lost = "it was sent before, and is not known to have been answered"
        self._has_keys = manner.honours_keys
        self._listed_again = False
        self._has_new_key = False

    async def response(self) -> Response:
        """Send the round, again and again, until it is answered.

        Raises:
            Unanswered: There was no response.
            StateRefused: The server takes the state no more.
            BadResponse, MCPError: See `ResumingClient.call_tool`.
        """
        for attempt in range(self._manner.attempts):
            is_again = self._is_first and self._begun
            by_key = is_again and self._has_keys
            if is_again and not by_key and not await self._may_begin_again():
                raise Unanswered(
                    f"no response to the first request of {self.call.tool!r} ({self._lost}); its"
                    " effects may have happened, and it may not be sent again",
                    self.call,
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
        raise Unanswered(
            f"no response from {self.call.tool!r} in {self._manner.attempts} attempts:"
            f" {self._lost}",
            self.call,
        )

    @property
    def _is_first(self) -> bool:
        return self.call.pending is None

    async def _pause_before(self, attempt: int) -> None:
        if attempt:
            pause = min(self._manner.pause_seconds * 2 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
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
        match error.data:
            case {"reason": "still_at_work"}:
                pass
            case {"reason": str(reason)} if reason in _LATER:
                self._begun = True
            case {"reason": "request_state_expired"} if not self._is_first:
                self._begin_again_after(error)
            case {"reason": "invalid_request_state"} if not self._is_first:
                self.call = self.call.model_copy(update={"refused": "invalid_request_state"})
                self._records.keep(self.call)
                raise StateRefused(error, self.call, is_over=False) from error
            case {"reason": "call_key_expired"} if self._may_renew_key:
                self._renew_key()
            case {"reason": "invalid_answer"}:
                self._records.keep(self.call.model_copy(update={"answers": {}, "said": {}}))
                raise error
            case _:
                self._end_with(error)

    def _begin_again_after(self, error: MCPError) -> None:
        """Go back to the first request, whose key gets its result or its question."""
        if self._manner.honours_keys:
            self.call = self.call.from_the_beginning()
            return
        self._records.forget(self.call)
        raise StateRefused(error, self.call, is_over=True) from error

    @property
    def _may_renew_key(self) -> bool:
        return not (self._begun or self._has_new_key or self.call.called_before)

    def _renew_key(self) -> None:
        self._records.forget(self.call)
        self._has_new_key = True
        self.call = self.call.model_copy(update={"key": new_call_key()})
        self._records.keep(self.call, sent=True)

    def _end_with(self, error: MCPError) -> None:
        match error.data:
            case {"reason": str(reason)} if reason in _NOT_UNDER_THE_KEY:
                was_called_before = False
            case _:
                was_called_before = self.call.called_before
        may_have_effects = self._begun or not self._is_first or was_called_before
        if error.code != types.INTERNAL_ERROR and not may_have_effects:
            self._records.forget(self.call)
        raise error

    async def _send(self, *, by_key: bool) -> Response:
        """Send the round once.

        Args:
            by_key: Whether it was sent before, and only the key says that it is the same one.
        """
        call = self.call
        state = call.pending.request_state if call.pending is not None else None

        async def send(client: Client, seconds: float) -> Response:
            return await client.session.call_tool(
                call.tool,
                call.arguments,
                read_timeout_seconds=seconds,
                input_responses=call.answers or None,
                request_state=state,
                meta=cast("types.RequestParamsMeta", {CALL_KEY: call.key}),
                allow_input_required=True,
            )

        async def send_in_time(client: Client) -> Response:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return await send(client, self._manner.round_seconds)
            if call.pending is not None:
                # The SDK takes a server that is slow to say what it is for one of the legacy era.
                raise MCPError(types.CONNECTION_CLOSED, "the server was taken for a legacy one")
            if by_key:
                raise _WithoutKeys
            return await self._user_time.within(
                self._manner.legacy_seconds, partial(send, client, math.inf)
            )

        return await self._connection.use(send_in_time)

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
            with anyio.move_on_after(self._manner.round_seconds):
                return await self._connection.use(look)
        except (Lost, BadResponse, MCPError):
            pass
        return None
