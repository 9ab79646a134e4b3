"""An event loop that does not wait: while nothing is to be done, it moves its clock on.

A run in memory waits for time alone: the guard for another delivery, a client between two retries.
So its history is the same on every machine, however busy, and no run takes longer than its work.
Work in threads is not for this loop, which does not know of it.

Knows asyncio; nothing of runs.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class SwiftLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, which moves only when everything waits for it.

    Attributes:
        now: The time in seconds, from 0.
    """

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the time in seconds."""
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: SwiftLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(timeout)
        if timeout <= 0:  # there is something to do; messages from outside can wait until then
            return []
        self._loop.now += timeout
        return super().select(0)


def swift() -> dict[str, Any]:
    """Return the `backend_options` with which `anyio.run` uses a loop of this kind."""
    return {"loop_factory": SwiftLoop}
