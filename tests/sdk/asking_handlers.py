"""Handlers that ask, and exceptions of authors, for tests of the continuation store."""

from collections.abc import Awaitable, Callable
from typing import Any, Self

import mcp_types as types
import pytest

from mrtr_options.sdk.handler import NotBegun
from mrtr_options.sdk.suspended import CallParams, LinearContext
from tests.sdk.fakes import deliver, result, who

Linear = LinearContext[Any]
Handler = Callable[[Linear, CallParams], Awaitable[types.CallToolResult]]


async def is_unknown(*delivery: Any) -> None:
    """Check that a round gets the error for a call that is not in this store."""
    with pytest.raises(NotBegun, match="is not waiting on this server") as unknown:
        await deliver(*delivery)
    assert unknown.value.data["reason"] == "unknown_continuation"


class Failed(Exception):
    """An author's exception whose `args` are not enough to make it again."""

    def __init__(self, name: str, *, reason: str) -> None:
        super().__init__(name)
        self.reason = reason


class Numbered(Exception):
    """An author's exception whose class cannot be called with its `args`."""

    def __new__(cls, number: int, of: int) -> Self:
        return super().__new__(cls)

    def __init__(self, number: int, of: int) -> None:
        super().__init__(f"{number} of {of}")


class Quit(BaseException):
    """An author's exception that is no `Exception`."""


def raising(error: BaseException) -> Handler:
    """Make a handler that asks, and then raises."""

    async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
        await ctx.elicit(who())
        raise error

    return handler


class Log(list[str]):
    """The steps that the author's code took."""

    def asking(self, *keys: str) -> Handler:
        """Make a handler that asks for one name after the other."""

        async def handler(ctx: Linear, call: CallParams) -> types.CallToolResult:
            names: list[str] = []
            self.append("above")
            try:
                for key in keys:
                    names.append((await ctx.elicit(who(key))).name)
                    self.append(f"after {key}")
            finally:
                self.append("finally")
            return result(" and ".join(names))

        return handler
