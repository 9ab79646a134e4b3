"""An event loop that does not wait: where there is nothing to do until some time, it is that time.

What a run in memory waits for is time alone: the guard for another delivery, a client between two
retries. So its history is the same on every machine, however busy, and no run takes longer than its
work. Not for what works in threads, of which the loop does not know.

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
        """The time in seconds."""
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: SwiftLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(timeout)
        if (
            timeout <= 0
        ):  # there is something to do; what comes from outside has time until there is not
            return []
        self._loop.now += timeout
        return super().select(0)


def swift() -> dict[str, Any]:
    """What `anyio.run` takes as `backend_options` to run on a loop of this kind."""
    return {"loop_factory": SwiftLoop}
