"""Waiting for something that is done elsewhere: a payment, an approval, a delivery.

A link's acceptance is the user's consent to open it. Whether they did what the page asks is known
elsewhere, and a tool asks there: `ctx.until(...)` of options H, J, K and L.

Knows anyio and `handler`.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from mrtr_options.sdk.handler import Action, T, await_result

GO_ON = "mrtr-go-on"
"""The key of the form that asks a user whether to wait further."""
POLL_SECONDS = 1.0
"""The pause between two calls of the author's function."""


ROUND_WAIT_SECONDS = 20.0
"""The time for which a round of J waits, shorter than a client does."""


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


async def poll(
    check: Action[T | None],
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
