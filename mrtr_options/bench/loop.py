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
    """An event loop whose clock runs ahead of the machine's by all that it did not wait."""

    def __init__(self) -> None:
        self.ahead = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """The time in seconds."""
        return super().time() + self.ahead


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: SwiftLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        self._loop.ahead += timeout
        return super().select(0)


def swift() -> dict[str, Any]:
    """What `anyio.run` takes as `backend_options` to run on a loop of this kind."""
    return {"loop_factory": SwiftLoop}
