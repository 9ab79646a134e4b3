"""The settings of one instance of the weather server: its ledger, and what any server needs.

An option file does not mention any of it. Whoever loads the file puts settings in force around it
(`configured`); a file that is imported or run by itself gets them from the environment. Knows
`weather` and `sdk.settings`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.request_state import authenticated_principal

from mrtr_options.errors import in_one_line
from mrtr_options.sdk import settings as sdk
from mrtr_options.sdk.handler import Handler, Params, Principal, Result
from mrtr_options.sdk.settings import DATABASE_VARIABLE, STATE_TTL_SECONDS
from mrtr_options.tool import weather

__all__ = [
    "DATABASE_VARIABLE",
    "LEDGER_VARIABLE",
    "STATE_TTL_SECONDS",
    "Context",
    "Handler",
    "Params",
    "Result",
    "Settings",
    "configured",
    "settings_in_force",
]

LEDGER_VARIABLE = "MRTR_LEDGER"

Context = ServerRequestContext[weather.Desk, Any]


@dataclass(frozen=True)
class Settings(sdk.Settings):
    """The settings of one instance of the weather server.

    Attributes:
        ledger: Where effects are counted.
        wrappers: Put around the option's handler, the last one outermost; see `sdk.server.Tool`.
    """

    ledger: weather.Ledger
    wrappers: Sequence[Callable[[Handler], Handler]] = ()

    @staticmethod
    def from_environment(principal: Principal = authenticated_principal) -> Settings:
        """Return settings from the environment; `MRTR_LEDGER` names a SQLite file.

        Args:
            principal: Names who is calling.

        Raises:
            BadKeys, BadInstance, BadDatabase, LedgerUnusable: One line that says what to do.
        """
        path = os.environ.get(LEDGER_VARIABLE)
        ledger = weather.SqliteLedger(path) if path else weather.MemoryLedger()
        return Settings(ledger, **vars(sdk.Settings.from_environment(principal)))


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
    """Return the settings that a server built now runs with.

    Where none are in force, an option file is imported or run by itself. An environment that cannot
    be used then ends the process with one line and exit code 2.
    """
    if settings := _settings.get():
        return settings
    with in_one_line():
        return Settings.from_environment()
