"""What one instance of a server is run with: its ledger, its keys, its database.

An option file does not mention any of it. Whoever loads the file puts settings in force around it
(`configured`); a file that is imported or run by itself gets them from the environment. Knows
`weather` and `protection`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.request_state import authenticated_principal

from mrtr_options.sdk.protection import (
    BadInstance,
    BadKeys,
    instance_from_environment,
    keys_from_environment,
)
from mrtr_options.tool import weather

STATE_TTL_SECONDS = 600.0
LEDGER_VARIABLE = "MRTR_LEDGER"
DATABASE_VARIABLE = "MRTR_DATABASE_URL"

Context = ServerRequestContext[weather.Desk, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Context, Params], Awaitable[Result]]


class BadDatabase(Exception):
    """`MRTR_DATABASE_URL` is not a database's URL. The text is one line, without the URL's password."""


@dataclass(frozen=True)
class Settings:
    """What one instance of a server is run with.

    Attributes:
        ledger: Where effects are counted.
        keys: The ring of state keys, the signing one first; None for a key of this process only.
        ttl_seconds: How long a state is good for, from the round that handed it out.
        wrappers: Put around the option's handler, the last one outermost. They see results as they
            go on the wire: a declined question is a text by then.
        principal: Names who is calling, for the state to be bound to; None for an unknown caller.
        database: Where calls are kept by an option that keeps them in a database, as a URL.
        clock: Tells the time by which states and tasks age, in seconds since 1970; None for the
            system's.
        instance: What this instance is called in the states that it hands out, for a balancer to route
            on; None to name none.
    """

    ledger: weather.Ledger
    keys: Sequence[bytes] | None = None
    ttl_seconds: float = STATE_TTL_SECONDS
    wrappers: Sequence[Callable[[Handler], Handler]] = ()
    principal: Callable[[Context], str | None] = authenticated_principal
    database: str | None = None
    clock: Callable[[], float] | None = None
    instance: str | None = None

    @staticmethod
    def from_environment() -> Settings:
        """Settings from `MRTR_STATE_KEYS`, `MRTR_LEDGER` (a SQLite file; else in memory),
        `MRTR_DATABASE_URL` and `MRTR_INSTANCE`.

        Raises:
            BadKeys, BadInstance, BadDatabase, LedgerUnusable: One line that says what to do.
        """
        path = os.environ.get(LEDGER_VARIABLE)
        ledger = weather.SqliteLedger(path) if path else weather.MemoryLedger()
        return Settings(
            ledger,
            keys_from_environment(),
            database=_database_from_environment(),
            instance=instance_from_environment(),
        )


_settings: ContextVar[Settings | None] = ContextVar("settings", default=None)


@contextmanager
def configured(settings: Settings) -> Generator[None]:
    """Servers built inside this block are run with these settings."""
    token = _settings.set(settings)
    try:
        yield
    finally:
        _settings.reset(token)


def settings_in_force() -> Settings:
    """The settings that a server built now is run with.

    Where none are in force, an option file is imported or run by itself. An environment that cannot be
    used then ends the process with one line and exit code 2.
    """
    if settings := _settings.get():
        return settings
    with _ending_in_one_line():
        return Settings.from_environment()


@contextmanager
def _ending_in_one_line() -> Generator[None]:
    try:
        yield
    except (BadKeys, BadInstance, BadDatabase, weather.LedgerUnusable) as error:
        print("mrtr-options:", error, file=sys.stderr)
        sys.exit(2)


def database_url() -> str | None:
    """Where calls that must outlive a process are kept; None where that is not set.

    A bad `MRTR_DATABASE_URL` ends the process as in `settings_in_force`.
    """
    if settings := _settings.get():
        return settings.database
    with _ending_in_one_line():
        return _database_from_environment()


def _database_from_environment() -> str | None:
    url = os.environ.get(DATABASE_VARIABLE) or None
    if url is not None and not url.startswith(("sqlite:///", "postgresql://")):
        raise BadDatabase(f"{DATABASE_VARIABLE} must look like sqlite:///FILE or postgresql://HOST/NAME")
    return url
