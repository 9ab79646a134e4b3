"""A handler of option L's stand-in, a store that serves it, and what callers see of a round."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.request_state import RequestStateCodec

from mrtr_options.sdk.durable import Call, DurableContext, DurableStore
from tests.bounds import SECONDS
from tests.rounds import Response
from tests.sdk.fakes import deliver, modern, result, who

Ctx = DurableContext[Any]
Stated = Callable[..., Coroutine[Any, Any, Response]]


@dataclass
class World:
    """What handlers do effects in."""

    effects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    entered: int = 0

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.effects]

    async def do(self, kind: str, key: str) -> str:
        self.effects.append((kind, key))
        return f"{kind} done"


async def couple(ctx: Ctx, call: Call) -> types.CallToolResult:
    """Asks two names, one after the other, between two effects."""
    world: World = ctx.lifespan_context
    world.entered += 1
    assert await ctx.step("first", lambda key: world.do("first", key)) == "first done"
    one = await ctx.elicit(who("one"))
    two = await ctx.elicit(who("two", assumed="nobody"))
    await ctx.step("last", lambda key: world.do("last", key))
    return result(f"{one.name} and {two.name}")


@asynccontextmanager
async def served(
    url: str | None,
    world: object,
    handler: Callable[[Ctx, Call], Awaitable[types.CallToolResult]] = couple,
    *,
    version: str = "1",
    idle_seconds: float = 600.0,
    wait_seconds: float = SECONDS,
    rounds: int = 10,
    codec: RequestStateCodec | None = None,
) -> AsyncGenerator[Stated]:
    """A store that is open, for a bounded time; the function sends it a round."""
    store = DurableStore(
        version=version, idle_seconds=idle_seconds, wait_seconds=wait_seconds, rounds=rounds
    )
    call = store.linear(handler)

    async def send(
        answers: types.InputResponses | None = None,
        asked: Response | None = None,
        *,
        forms: bool = True,
        **more: Any,
    ) -> Response:
        return await deliver(call, asked, answers, ctx=modern(forms=forms), **more)

    with anyio.fail_after(SECONDS):
        async with store.serving(world, database=url, codec=codec):
            yield send


async def asked_by(send: Stated) -> Response:
    """The first question of a call, however long it takes on a busy machine."""
    return await ended(send, await send())


async def ended(send: Stated, response: Response) -> Response:
    """What a round leads to that was held for long enough, and once more."""
    while isinstance(response, types.InputRequiredResult) and response.input_requests is None:
        response = await send(None, response)
    return response


def reason(error: pytest.ExceptionInfo[MCPError]) -> str:
    """Why a round was refused."""
    assert error.value.code == types.INVALID_PARAMS
    return error.value.data["reason"]
