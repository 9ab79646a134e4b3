"""A connection that is replaced when it breaks.

The SDK's client cancels whoever waits for a response when its transport breaks, and cannot be used
afterwards. So it runs in its own task here: requests in progress are told that they were lost, and
the next one makes a new connection. Knows the SDK's client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from pydantic import ValidationError

from mrtr_options.sdk.handler import first_error

T = TypeVar("T")

Use = Callable[[Client], Awaitable[T]]
"""Something that is done with a connected client."""

_GATEWAY = "Server returned an error response"
"""The SDK's text for an HTTP error whose body is no JSON-RPC: a gateway's 502 or 503."""


_NO_JSON = "Failed to parse JSON response"
"""The SDK's text for a body that is empty or cut off."""
_DISPATCHER = "_dispatcher"
_LAST_ID = "_next_id"
"""The attributes in which the SDK's client counts its requests; it has no public way to go on."""
_IDS = 1_000_000
"""The number of request ids of one connection, before those of the next one."""


class Lost(Exception):
    """The loss of a response to a request that may have been sent. The text is one line."""


class CannotConnect(Lost):
    """The failure to connect: nothing was sent."""


class BadResponse(Exception):
    """The server sent something that is not a response of the protocol. The text is one line."""


@dataclass(eq=False)
class _Job(Generic[T]):
    do: Use[T]
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    result: list[T] = field(default_factory=list[T])
    error: Exception | None = None

    async def run(self, client: Client) -> None:
        try:
            with self.scope:
                self.result.append(await self.do(client))
        except Exception as error:
            self.error = error
        self.done.set()  # where the connection broke, whoever holds it does so


@dataclass
class _Live:
    """A connection.

    Attributes:
        client: The SDK's client.
        tasks: Where jobs run.
        under_way: The jobs that were begun and have no end of their own.
        retired: Set when no more are to be begun.
        was_left: Whether a caller left its job: what the job began may still be sent.
        failure: What broke it.
        is_over: Whether it has ended.
    """

    client: Client
    tasks: anyio.abc.TaskGroup
    under_way: list[_Job[Any]] = field(default_factory=list[_Job[Any]])
    retired: anyio.Event = field(default_factory=anyio.Event)
    was_left: bool = False
    failure: Exception | None = None
    is_over: bool = False

    async def run(self, job: _Job[Any]) -> None:
        await job.run(self.client)  # does not return where the connection breaks
        self.under_way.remove(job)

    @property
    def lost(self) -> Lost:
        """The error of the requests that were under way when the connection broke."""
        text = "the connection broke" if self.failure is None else _inner(self.failure)
        # Only where it was alone: another request may have been sent on a connection of its own.
        was_alone = len(self.under_way) == 1 and not self.was_left
        if isinstance(_first(self.failure), httpx2.ConnectError) and was_alone:
            return CannotConnect(f"cannot connect: {text}")
        return Lost(text)


class Connection:
    """A connection to one server, made when it is needed and again when it broke.

    Args:
        connect: Makes a client, not yet entered.
        group: Holds the connection.
        connect_seconds: How long connecting may take.
    """

    def __init__(
        self, connect: Callable[[], Client], group: anyio.abc.TaskGroup, connect_seconds: float
    ) -> None:
        self._connect = connect
        self._connect_seconds = connect_seconds
        self._group = group
        self._live: _Live | None = None
        self._connecting = anyio.Lock()
        self._count = 0

    async def use(self, do: Use[T]) -> T:
        """Call a function with a connected client, and return its result.

        Raises:
            Lost, CannotConnect, BadResponse: See the classes.
            MCPError: The server's own error.
        """
        live = await self._connected()
        job = _Job(do)
        live.under_way.append(job)
        try:
            live.tasks.start_soon(live.run, job)
        except RuntimeError as error:  # they have ended
            raise CannotConnect("the connection is about to be replaced") from error
        try:
            await job.done.wait()
        finally:
            live.was_left |= not job.done.is_set()
            job.scope.cancel()
        if job.result:
            return job.result[0]
        match job.error:
            case MCPError(code=types.CONNECTION_CLOSED) as error:
                if self._live is live:
                    self._live = None  # what is half broken is replaced as well
                live.retired.set()
                raise Lost(error.message) from error
            case MCPError(code=types.REQUEST_TIMEOUT, data=None) as error:
                raise Lost(error.message) from error
            case MCPError(code=types.INTERNAL_ERROR, message=message) as error if (
                message == _GATEWAY
            ):
                raise Lost("a gateway's HTTP error in place of a response") from error
            case MCPError(code=types.PARSE_ERROR, message=message) as error if _NO_JSON in message:
                raise Lost("the response was empty or cut off") from error
            case ValidationError() as error:
                raise BadResponse(
                    f"the response is not of the protocol: {first_error(error)}"
                ) from error
            case None:
                raise live.lost
            case error:
                raise error

    async def _connected(self) -> _Live:
        async with self._connecting:
            live = self._live
            if live is None or live.is_over:
                try:
                    with anyio.fail_after(self._connect_seconds):
                        live = self._live = await self._group.start(self._hold)
                except Exception as error:
                    raise CannotConnect(f"cannot connect: {_inner(error)}") from error
            return live

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[_Live]) -> None:
        live = None
        try:
            async with self._connect() as client, anyio.create_task_group() as tasks:
                self._new_ids(client)
                live = _Live(client, tasks)
                task_status.started(live)
                await live.retired.wait()
        except Exception as error:
            if live is None:
                raise
            live.failure = error
        finally:
            if live is not None:
                live.is_over = True
                for job in live.under_way:
                    job.done.set()

    def _new_ids(self, client: Client) -> None:
        """Have a request that is sent again on a new connection have an id of its own."""
        dispatcher = getattr(client.session, _DISPATCHER, None)
        if hasattr(dispatcher, _LAST_ID):  # not within one process
            setattr(dispatcher, _LAST_ID, self._count * _IDS + getattr(dispatcher, _LAST_ID))
        self._count += 1


def _inner(error: Exception) -> str:
    first = _first(error)
    return f"{type(first).__name__}: {first}"


def _first(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
