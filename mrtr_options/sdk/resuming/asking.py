"""The user's part of a call: whose question a callback is given, and time that is not the server's.

Knows the SDK's client and `open_calls`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext

from mrtr_options.sdk.resuming.open_calls import KeptCall

R = TypeVar("R")


@dataclass(kw_only=True)
class QuestionContext(ClientRequestContext):
    """The context that a callback gets with a question of a call on a modern connection.

    Attributes:
        request_id: Of this question alone, among all of this process.
        call: Whose question it is: the tool, its arguments, the call's key.
        key: The question's key.
    """

    call: KeptCall
    key: str


class UserTime:
    """Time limits that stop while a callback of the host's is at work.

    On a legacy connection a request is a whole call, and its user answers within it. The callbacks
    do not learn to which request they belong, so one stops the limits of all of a connection.
    """

    def __init__(self) -> None:
        self._limits: dict[anyio.CancelScope, float] = {}
        self._at_work = 0

    def watch(self, client: Client) -> None:
        """Have the callbacks of a client, not yet entered, stop the limits."""
        for name in ("elicitation_callback", "sampling_callback", "list_roots_callback"):
            if (callback := getattr(client, name)) is not None:
                setattr(client, name, self._stopping(callback))

    def _stopping(self, callback: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(callback)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self.stopped():
                return await callback(*args, **kwargs)

        return call

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Stop the limits in this block."""
        self._at_work += 1
        if self._at_work == 1:
            for scope in self._limits:
                self._limits[scope] = scope.deadline - anyio.current_time()
                scope.deadline = math.inf
        try:
            yield
        finally:
            self._at_work -= 1
            if self._at_work == 0:
                for scope, left in self._limits.items():
                    scope.deadline = anyio.current_time() + left

    async def within(self, seconds: float, do: Callable[[], Awaitable[R]]) -> R:
        """Do something in so much time of the server's.

        Raises:
            MCPError: REQUEST_TIMEOUT, it took longer.
        """
        with anyio.CancelScope() as scope:
            self._limits[scope] = seconds
            if self._at_work == 0:
                scope.deadline = anyio.current_time() + seconds
            try:
                return await do()
            finally:
                del self._limits[scope]
        raise MCPError(
            types.REQUEST_TIMEOUT, f"timed out after {seconds:g} s without the user's time"
        )
