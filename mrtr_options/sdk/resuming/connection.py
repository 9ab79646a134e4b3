"""A connection that is replaced when it breaks.

The SDK's client cancels whoever waits for a response when its transport breaks, and cannot be used
afterwards. So it runs in its own task here: requests in progress are told that they were lost, and the
next one makes a new connection. Knows the SDK's client.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client, MCPError
from pydantic import ValidationError

from mrtr_options.sdk.handlers import first_error

T = TypeVar("T")

_GATEWAY = "Server returned an error response"
"""What the SDK's client makes of an HTTP error whose body is no JSON-RPC: a gateway's 502 or 503."""


_NO_JSON = "Failed to parse JSON response"
"""What it makes of a body that is empty or cut off."""
_DISPATCHER, _LAST_ID = "_dispatcher", "_next_id"
"""Where the SDK's client counts its requests; it has no public way to go on counting."""
_IDS = 1_000_000
"""How many requests a connection has ids for, before those of the next one."""


class Lost(Exception):
    """A request was sent, perhaps, and no response came. The text is one line that says why."""


class CannotConnect(Lost):
    """There is no connection: nothing was sent."""


class BadResponse(Exception):
    """The server sent what is no response of the protocol. The text is one line."""


@dataclass
class _Job(Generic[T]):
    do: Callable[[Client], Awaitable[T]]
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
        finally:
            self.done.set()


@dataclass
class _Live:
    """A connection.

    Attributes:
        jobs: Takes what is to be done.
        under_way: How many were begun and have no end of their own.
        failure: What broke it.
        over: Set when it has ended.
    """

    jobs: MemoryObjectSendStream[_Job[Any]]
    under_way: int = 0
    failure: Exception | None = None
    over: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, job: _Job[Any], client: Client) -> None:
        self.under_way += 1
        await job.run(client)
        self.under_way -= bool(job.result or job.error)

    @property
    def lost(self) -> Lost:
        """What became of what was under way when it broke."""
        text = "the connection broke" if self.failure is None else _inner(self.failure)
        # Only where it was alone: another request may have been sent on a connection of its own.
        if isinstance(_first(self.failure), httpx2.ConnectError) and self.under_way == 1:
            return CannotConnect(f"cannot connect: {text}")
        return Lost(text)


class Connection:
    """See the module.

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

    async def use(self, do: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with a connected client.

        Raises:
            Lost, CannotConnect, BadResponse: See there.
            MCPError: The server's own error.
        """
        live = await self._connected()
        job = _Job(do)
        try:
            live.jobs.send_nowait(job)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise CannotConnect("the connection is about to be replaced") from error
        try:
            async with anyio.create_task_group() as either:

                async def broken() -> None:
                    await live.over.wait()
                    job.done.set()

                either.start_soon(broken)
                await job.done.wait()
                either.cancel_scope.cancel()
        finally:
            job.scope.cancel()
        if job.result:
            return job.result[0]
        match job.error:
            case MCPError(code=types.CONNECTION_CLOSED) as error:
                self._live = None  # what is half broken is replaced as well
                live.jobs.close()
                raise Lost(error.message) from error
            case MCPError(code=types.REQUEST_TIMEOUT, data=None) as error:
                raise Lost(error.message) from error
            case MCPError(code=types.INTERNAL_ERROR, message=message) as error if message == _GATEWAY:
                raise Lost("a gateway's HTTP error in place of a response") from error
            case MCPError(code=types.PARSE_ERROR, message=message) as error if _NO_JSON in message:
                raise Lost("the response was empty or cut off") from error
            case ValidationError() as error:
                raise BadResponse(
                    f"the response is not of the protocol: {first_error(error)}"
                ) from error
            case None:
                await live.over.wait()
                raise live.lost
            case error:
                raise error

    async def _connected(self) -> _Live:
        async with self._connecting:
            live = self._live
            if live is None or live.over.is_set():
                try:
                    with anyio.fail_after(self._connect_seconds):
                        live = self._live = await self._group.start(self._hold)
                except Exception as error:
                    raise CannotConnect(f"cannot connect: {_inner(error)}") from error
            return live

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[_Live]) -> None:
        send, jobs = anyio.create_memory_object_stream[_Job[Any]](math.inf)
        live = _Live(send)
        is_open = False
        try:
            async with jobs, self._connect() as client:
                is_open = True
                self._new_ids(client)
                task_status.started(live)
                async with anyio.create_task_group() as running:
                    async for job in jobs:
                        running.start_soon(live.run, job, client)
        except Exception as error:
            if not is_open:
                raise
            live.failure = error
        finally:
            send.close()
            live.over.set()

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
