"""One opening for everybody who needs it at the same time. Knows anyio only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Shared(Generic[T]):
    """Opened for the first block that uses it and closed with the last.

    What raises while it opens or closes leaves it closed, ready to be opened again.

    Attributes:
        value: What is open; None while nothing is.
    """

    def __init__(self) -> None:
        self.value: T | None = None
        self._users = 0
        self._changing = anyio.Lock()
        self._held = AsyncExitStack()

    @asynccontextmanager
    async def used(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncGenerator[T]:
        """What is open, for the length of a block.

        Args:
            make: Opens it, if it is closed.
        """
        async with self._changing:
            if self.value is None:
                self.value = await self._held.enter_async_context(make())
            value = self.value
            self._users += 1
        try:
            yield value
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changing:
                    self._users -= 1
                    if self._users == 0:
                        try:
                            await self._held.aclose()
                        finally:
                            self.value = None
