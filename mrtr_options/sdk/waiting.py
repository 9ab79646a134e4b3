"""Waiting for something that is done elsewhere: a payment, an approval, a delivery.

A link's acceptance is the user's consent to open it. Whether they did what the page asks is known
elsewhere, and a tool asks there: `ctx.until(...)` of options H, J, K and L.

Knows anyio, `current_request`, `handler` and `questions`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Literal, Protocol, TypeVar

import anyio
import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk.current_request import request_here
from mrtr_options.sdk.handler import await_result
from mrtr_options.sdk.questions import Inquiry, Question

T = TypeVar("T")

GO_ON = "mrtr-go-on"
"""The key of the form that asks a user whether to wait further."""
POLL_SECONDS = 1.0
"""The pause between two calls of the author's function."""


ROUND_WAIT_SECONDS = 20.0
"""The time for which a round of J waits, shorter than a client does."""


class GoOn(BaseModel):
    """The form that asks whether to go on waiting, in J."""

    go_on: Literal["yes", "no"]


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


# --- in rounds ----------------------------------------------------------------------------------


class _Context(Protocol):
    """The part of J's context that `WaitsInRounds` uses."""

    async def elicit(self, question: Question[Any] | Inquiry[Any]) -> Any: ...
    async def memo(self, key: str, compute: Callable[[], Awaitable[T] | T]) -> T: ...


class WaitsInRounds:
    """The waiting of a handler that runs again in each round, such as J's."""

    async def until(
        self: _Context,
        key: str,
        check: Callable[[], Awaitable[T | None] | T | None],
        *,
        seconds: float,
        link: Inquiry[types.ElicitResult] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> T:
        """Wait for something that is done elsewhere; see `DurableContext.until`.

        A round waits for `ROUND_WAIT_SECONDS`, and then asks the user whether to go on.

        Raises:
            NotInTime: It did not come in time, or the user does not go on.
        """
        check_seconds(seconds, poll_seconds)
        if link is not None:
            await self.elicit(link)
        now = request_here().clock
        ends = await self.memo(f"{key}, ends", lambda: now() + seconds)
        round_ends = now() + ROUND_WAIT_SECONDS
        for number in count(1):
            found = await self.memo(
                f"{key}, look {number}",
                lambda: poll(
                    check,
                    left=lambda: min(ends, round_ends) - now(),
                    poll_seconds=poll_seconds,
                ),
            )
            if found is not None:
                return found
            if await self.memo(f"{key}, over {number}", lambda: now() >= ends):
                break
            message = f"{key!r} is not there yet. Go on waiting?"
            answer = await self.elicit(Question(f"{key}, go on {number}", message, GoOn))
            if answer.go_on == "no":
                break
        raise NotInTime(key, seconds)
