"""The settings with which one instance of a server is run: its keys, its database, its resources.

Knows `handler` and `protection`.

None of it is the author's business: it comes from the environment, or from whoever builds the
server.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import anyio
from mcp.server.request_state import authenticated_principal

from mrtr_options.checks import check_functions, check_numbers
from mrtr_options.errors import UsageError, in_one_line
from mrtr_options.sdk.handler import Clock, Principal, mark_need
from mrtr_options.sdk.protection import (
    check_instance,
    check_keys,
    instance_from_environment,
    keys_from_environment,
    make_record_codec,
    new_key,
)

LifespanT = TypeVar("LifespanT")

STATE_TTL_SECONDS = 600.0
DATABASE_VARIABLE = "MRTR_DATABASE_URL"


class BadDatabase(UsageError, ValueError):
    """An unusable value of `MRTR_DATABASE_URL`, which is not a database's URL.

    The text is one line, without the URL's password.
    """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings with which one instance of a server is run.

    Attributes:
        keys: The ring of state keys, the signing one first; None for a key of this process only.
        ttl_seconds: How long a state is valid for, from the round that handed it out.
        principal: Names who is calling, for states, frames and calls to be bound to; None for an
            unknown caller.
        database: Where calls are kept by an option that keeps them in a database, as a URL.
        clock: Tells the time by which states and tasks age, in seconds since 1970; None for the
            machine's. For instances on machines whose clocks differ: one that all of them follow.
        instance: What this instance is called in the states that it hands out, for a balancer to
            route on; None to name none.
        authenticated: Whether the app around the server authenticates its callers, so that the
            SDK's own principal is known. One of your own is taken to know them.

    Raises:
        BadKeys: A key is too short, is named twice, or the keys are not a list of bytes.
        BadInstance: The name is not 1 to 32 letters, digits, "_" and "-".
        ValueError: `ttl_seconds` is not over 0.
        TypeError: The principal or the clock is not a function.
    """

    keys: Sequence[bytes] | None = None
    ttl_seconds: float = STATE_TTL_SECONDS
    principal: Principal = authenticated_principal
    database: str | None = None
    clock: Clock | None = None
    instance: str | None = None
    authenticated: bool = False

    def __post_init__(self) -> None:
        check_numbers("Settings", self.ttl_seconds)
        check_functions("Settings", principal=self.principal, clock=self.clock or time.time)
        if self.keys is not None:
            check_keys(self.keys, "Settings(keys=...)")
        if self.instance is not None:
            check_instance(self.instance, "Settings(instance=...)")

    @property
    def knows_callers(self) -> bool:
        """Return whether two callers can be told apart."""
        return self.authenticated or self.principal is not authenticated_principal

    @staticmethod
    def from_environment(
        principal: Principal = authenticated_principal,
    ) -> Settings:
        """Read settings from `MRTR_STATE_KEYS`, `MRTR_DATABASE_URL` and `MRTR_INSTANCE`.

        Args:
            principal: Names who is calling, which no environment can say.

        Raises:
            BadKeys, BadInstance, BadDatabase: One line that says what to do.
        """
        return Settings(
            keys=keys_from_environment(),
            principal=principal,
            database=database_from_environment(),
            instance=instance_from_environment(),
        )


def settings_or_environment(settings: Settings | None) -> Settings:
    """Return the settings themselves; where there are none, the environment's.

    An environment that cannot be used ends the process in one line.

    Raises:
        TypeError: They are not of the class `Settings`.
    """
    given: object = settings
    if isinstance(given, Settings):
        return given
    if given is not None:
        raise TypeError(f"settings=... takes sdk.Settings(...), not {given!r}")
    with in_one_line():
        return Settings.from_environment()


def database_from_environment() -> str | None:
    """Read the URL in `MRTR_DATABASE_URL`; None if unset.

    Raises:
        BadDatabase: It is of no kind that can be used.
    """
    url = os.environ.get(DATABASE_VARIABLE) or None
    if url is not None and not _is_database(url):
        raise BadDatabase(
            f"{DATABASE_VARIABLE} must look like sqlite:///FILE, postgresql://HOST/NAME "
            "or temporal://HOST:PORT"
        )
    return url


def _is_database(url: str) -> bool:
    if url.startswith("postgresql://"):
        return True
    with suppress(ValueError):
        parts = urlsplit(url)
        is_server = parts.scheme == "temporal" and bool(parts.hostname) and parts.port != 0
        is_file = url.startswith("sqlite:///") and parts.path not in ("/", "/:memory:")
        return (is_server or is_file) and not parts.query
    return False


# --- what is open while a server serves ----------------------------------------------------------

Resource = AbstractAsyncContextManager[Any] | Callable[..., AbstractAsyncContextManager[Any]]
"""A resource that a handler needs while its server serves, or a function that opens it.

See `build_server`.
"""


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

    return mark_need(lifespan, try_each)
