"""What a server keeps open while it serves. Knows `settings`, `protection` and `handlers`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar, cast

import anyio

from mrtr_options.sdk.handlers import needing
from mrtr_options.sdk.protection import make_record_codec, new_key
from mrtr_options.sdk.settings import Settings

LifespanT = TypeVar("LifespanT")

Resource = AbstractAsyncContextManager[Any] | Callable[..., AbstractAsyncContextManager[Any]]
"""What a handler needs while its server serves, or what opens it: see `build_server`."""


class _Shared:
    """Resources that are open while at least one connection uses them.

    One that comes in while they are opened or closed waits until that is done.

    Args:
        opened: Opens all of them.
    """

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[AsyncExitStack]]) -> None:
        self._opened = opened
        self._connections = 0  # with those that wait for the resources to be opened or closed
        self._serving = 0
        self._turn = anyio.Lock()
        self._held = AsyncExitStack()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[None]:
        """Use the resources for one connection."""
        if self._connections == 0:
            self._turn = anyio.Lock()  # of this event loop
        self._connections += 1
        try:
            await self._enter()
            try:
                yield
            finally:
                await self._leave()
        finally:
            self._connections -= 1

    async def _enter(self) -> None:
        async with self._turn:
            if self._serving == 0:
                async with self._opened() as stack:
                    self._held = stack.pop_all()
            self._serving += 1

    async def _leave(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._serving -= 1
                if self._serving == 0:
                    await self._held.aclose()


def shared_lifespan(
    settings: Settings, lifespan_context: LifespanT, resources: Sequence[Resource]
) -> Callable[[object], AbstractAsyncContextManager[LifespanT]]:
    """Make one lifespan for all connections of a server.

    The SDK enters a server's lifespan once per in-memory connection and once per HTTP app. What is
    held here belongs to the instance, so the first one in opens it and the last one out closes it.
    """
    codec = make_record_codec(settings.keys or [new_key()]) if resources else None

    @asynccontextmanager
    async def opened() -> AsyncGenerator[AsyncExitStack]:
        async with AsyncExitStack() as stack:  # closes what was opened before one that fails
            for resource in resources:
                if not isinstance(resource, AbstractAsyncContextManager):
                    resource = resource(
                        lifespan_context,
                        database=settings.database,
                        principal=settings.principal,
                        clock=settings.clock,
                        codec=codec,
                    )
                await stack.enter_async_context(cast("Any", resource))
            yield stack

    shared = _Shared(opened)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[LifespanT]:
        async with shared.connection():
            yield lifespan_context

    def try_each() -> None:
        for resource in resources:
            store = getattr(resource, "__self__", None)
            if hasattr(store, "try_database"):
                cast("Any", store).try_database(settings.database)

    return needing(lifespan, try_each)
