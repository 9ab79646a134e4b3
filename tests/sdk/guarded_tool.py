"""A tool in the single-use guard, and its answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from pydantic import BaseModel

from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.single_use import single_use
from mrtr_options.sdk.single_use.reservations import Store
from mrtr_options.tool.server import Handler
from tests.bounds import SECONDS
from tests.sdk.fakes import (
    Context,
    Params,
    deliver,
    named,
    refused,
    result,
    who,
)
from tests.sending import Response

ADA = named("Ada")
BOB = named("Bob")


class State(BaseModel):
    """The state of the tool below: the number of times that it has asked."""

    asked: int = 0


@dataclass
class Tool:
    """A handler that asks for a name and then does one effect.

    Attributes:
        entered: The number of times that it was entered.
        effects: The names of the effects, in order.
        half_way: A function that it calls right after the effect.
    """

    entered: int = 0
    effects: list[str] = field(default_factory=list[str])
    half_way: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, ctx: Context, params: Params) -> Response:
        self.entered += 1
        state = load_state(params, State)
        name = answer_to(who(), ctx, params)
        if name is None:
            return ask(who(), State(asked=state.asked + 1))
        self.effects.append(name.name)
        if self.half_way is not None:
            await self.half_way()
        return result(f"{name.name}, asked {state.asked} times")


def guarded(handler: Handler, store: Store) -> Handler:
    """Wrap a handler in a guard in which a second delivery waits for the first."""
    return single_use(store, wait_seconds=SECONDS)(handler)


async def begun(store: Store, **more: Any) -> tuple[Tool, Handler, Response]:
    """Begin a call: return the tool, the tool in the guard, and its question."""
    tool = Tool(**more)
    handler = guarded(tool, store)
    return tool, handler, await deliver(handler)


async def refused_once_begun(tool: Tool, handler: Handler, asked: Response) -> tuple[int, str]:
    """Deliver Ada's round until it has begun and is refused, and return the code and the reason.

    A slow machine takes a round of a short time too late to begin it, and gives it back.
    """
    told = await refused(handler, asked, ADA)
    while not tool.effects:
        assert told == (types.INTERNAL_ERROR, "store_unusable")
        told = await refused(handler, asked, ADA)
    return told


SPENT = (types.INVALID_PARAMS, "answered_differently")
INDETERMINATE = (types.INTERNAL_ERROR, "indeterminate")
