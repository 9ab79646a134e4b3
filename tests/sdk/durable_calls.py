"""A handler of option L's stand-in, a store that serves it, and helpers for its rounds."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.request_state import RequestStateCodec
from sqlalchemy.exc import OperationalError

from mrtr_options.sdk.durable import CallParams, DurableContext, DurableStore
from mrtr_options.sdk.waiting import GO_ON
from tests.bounds import SECONDS
from tests.sdk.fakes import deliver, named, result, who
from tests.sending import Response, text_of

Ctx = DurableContext[Any]
Send = Callable[..., Awaitable[Response]]

ON: types.InputResponses = {GO_ON: types.ElicitResult(action="accept")}
"""The answer to the form that asks whether to go on waiting."""

NAMED: dict[str, Any] = {"call": "x", "call_is_secret": True}
"""Options of a handler whose calls are named by an argument."""


@dataclass
class World:
    """The world in which handlers do effects."""

    effects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    entered: int = 0

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.effects]

    async def do(self, kind: str, key: str) -> str:
        self.effects.append((kind, key))
        return f"{kind} done"


async def couple(ctx: Ctx, call: CallParams) -> types.CallToolResult:
    """Ask for two names, one after the other, between two effects."""
    world: World = ctx.lifespan_context
    world.entered += 1
    assert await ctx.step("first", lambda key: world.do("first", key)) == "first done"
    one = await ctx.elicit(who("one"))
    two = await ctx.elicit(who("two", assumed="none"))
    await ctx.step("last", lambda key: world.do("last", key))
    return result(f"{one.name} and {two.name}")


@dataclass
class Served:
    """A handler that a store serves; it is called to send it a round.

    Attributes:
        store: The store.
        handler: The handler as it is served.
    """

    store: DurableStore
    handler: Callable[[Any, Any], Awaitable[Response]]

    async def __call__(self, answers: Any = None, asked: Any = None, **more: Any) -> Response:
        return await deliver(self.handler, asked, answers, **more)


@asynccontextmanager
async def served(
    url: str | None,
    world: object,
    handler: Callable[[Ctx, CallParams], Awaitable[types.CallToolResult]] = couple,
    *,
    codec: RequestStateCodec | None = None,
    how: Mapping[str, Any] = {},
    **bounds: Any,
) -> AsyncGenerator[Served]:
    """Open a store for a bounded time, and serve a handler; `how` has options of `store.linear`."""
    usual: dict[str, Any] = {
        "version": "1",
        "idle_seconds": 600,
        "wait_seconds": SECONDS,
        "rounds": 1000,
        "while_working": "state",
    }
    store = DurableStore(**usual | bounds)
    send = Served(store, store.linear(handler, **how))
    with anyio.fail_after(SECONDS):
        async with store.serving(world, database=url, codec=codec):
            yield send


async def asked_by(send: Send) -> Response:
    """Begin a call and return its first question, however long that takes on a busy machine."""
    return await ended(send, await send())


async def ended(send: Send, response: Response) -> Response:
    """Retry a round while the server holds it, go on waiting, and return its outcome."""
    while is_held(response):
        response = await go_on(send, response)
    return response


async def go_on(send: Send, held: Response) -> Response:
    """Send a held round again, as a client does whose user goes on waiting."""
    asked = isinstance(held, types.InputRequiredResult) and held.input_requests
    return await send(ON if asked else None, held)


async def held_until(is_so: Callable[[], bool], send: Send, held: Response) -> Response:
    """Retry a round while the server holds it, until its call has come so far.

    A server that is slow holds a round before its answer is on record, or before its call began.
    """
    while not is_so():
        assert is_held(held), held
        held = await go_on(send, held)
    return held


async def finish(first: Send, asked: Response, last: Send) -> str:
    """Answer the two questions of `couple` through two instances, and return the call's text."""
    asked = await first(named("Ann", "one"), asked)
    return text_of(await last(named("Bob", "two"), asked))


def is_held(response: Response) -> bool:
    """Return whether the server held a round, so that the client has to send it again."""
    if not isinstance(response, types.InputRequiredResult):
        return False
    return response.input_requests is None or set(response.input_requests) == {GO_ON}


async def refused(send: Send, *round: Any, **more: Any) -> str:
    """Send a round that is refused, and return the reason."""
    with pytest.raises(MCPError) as error:
        await send(*round, **more)
    return reason(error)


def reason(error: pytest.ExceptionInfo[MCPError]) -> str:
    """Return the reason of a refusal."""
    assert error.value.code == types.INVALID_PARAMS
    return error.value.data["reason"]


def away(*arguments: Any) -> Any:
    """Fail as a function does whose database is away, in place of such a function."""
    raise OperationalError("", {}, OSError("the database is away"))
