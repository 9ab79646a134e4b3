"""Waiting for something that is done elsewhere: a payment, an approval, a delivery.

A link's acceptance is the user's consent to open it. Whether they did what the page asks is known
elsewhere, and a tool asks there: `ctx.until(...)` of options H, K and L.

Knows anyio and `handler`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from mrtr_options.sdk.handler import await_result

T = TypeVar("T")

GO_ON = "mrtr-go-on"
"""The key of the form that asks a user whether to wait further."""
POLL_SECONDS = 1.0
"""The pause between two calls of the author's function."""


class NotInTime(Exception):
    """The failure of a wait: its result did not come in time.

    Attributes:
        key: The author's name for it.
        seconds: How long the call waited.
    """

    def __init__(self, key: str, seconds: float) -> None:
        super().__init__(f"{key!r} was not there after {seconds:g} s")
        self.key = key
        self.seconds = seconds


def check_seconds(seconds: float, poll_seconds: float) -> None:
    """Raise for times that are not finite and over 0.

    Raises:
        ValueError: A number is not over 0, or has no end.
    """
    if not 0 < seconds < float("inf") or not 0 < poll_seconds < float("inf"):
        raise ValueError(f"until takes seconds over 0, not {seconds!r} and {poll_seconds!r}")


async def poll(
    check: Callable[[], Awaitable[T | None] | T | None],
    *,
    left: Callable[[], float],
    poll_seconds: float,
) -> T | None:
    """Return the first value of the author's function that is true, or None once no time is left.

    It is asked once more when the time is over, so that what came in the last moment counts.
    """
    while True:
        seconds = left()
        value = await await_result(check())
        if value or seconds <= 0:
            return value or None
        await anyio.sleep(min(poll_seconds, seconds))
