"""What one instance of a server is run with: its keys, its database, its name. Knows `protection`.

None of it is the author's business: it comes from the environment, or from whoever builds the
server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp.server.request_state import authenticated_principal

from mrtr_options.checks import check_functions, check_numbers
from mrtr_options.errors import UsageError, in_one_line
from mrtr_options.sdk.handlers import Context
from mrtr_options.sdk.protection import (
    check_instance,
    check_keys,
    instance_from_environment,
    keys_from_environment,
)

STATE_TTL_SECONDS = 600.0
DATABASE_VARIABLE = "MRTR_DATABASE_URL"


class BadDatabase(UsageError, ValueError):
    """`MRTR_DATABASE_URL` is not a database's URL.

    The text is one line, without the URL's password.
    """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What one instance of a server is run with.

    Attributes:
        keys: The ring of state keys, the signing one first; None for a key of this process only.
        ttl_seconds: How long a state is valid for, from the round that handed it out.
        principal: Names who is calling, for states, frames and call keys to be bound to; None for
            an unknown caller.
        database: Where calls are kept by an option that keeps them in a database, as a URL.
        clock: Tells the time by which states and tasks age, in seconds since 1970; None for the
            machine's. For instances on machines whose clocks differ: one that all of them follow.
        instance: What this instance is called in the states that it hands out, for a balancer to
            route on; None to name none.

    Raises:
        BadKeys: A key is too short, is named twice, or the keys are not a list of bytes.
        BadInstance: The name is not 1 to 32 letters, digits, "_" and "-".
        ValueError: `ttl_seconds` is not over 0.
        TypeError: The principal or the clock is not a function.
    """

    keys: Sequence[bytes] | None = None
    ttl_seconds: float = STATE_TTL_SECONDS
    principal: Callable[[Context], str | None] = authenticated_principal
    database: str | None = None
    clock: Callable[[], float] | None = None
    instance: str | None = None

    def __post_init__(self) -> None:
        check_numbers("Settings", self.ttl_seconds)
        check_functions("Settings", principal=self.principal, clock=self.clock or time.time)
        if self.keys is not None:
            check_keys(self.keys, "Settings(keys=...)")
        if self.instance is not None:
            check_instance(self.instance, "Settings(instance=...)")

    @staticmethod
    def from_environment() -> Settings:
        """Read settings from `MRTR_STATE_KEYS`, `MRTR_DATABASE_URL` and `MRTR_INSTANCE`.

        Raises:
            BadKeys, BadInstance, BadDatabase: One line that says what to do.
        """
        return Settings(
            keys=keys_from_environment(),
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
        if parts.scheme == "temporal":
            return bool(parts.hostname) and parts.port != 0 and not parts.query
        return (
            url.startswith("sqlite:///")
            and parts.path not in ("/", "/:memory:")
            and not parts.query
        )
    return False
