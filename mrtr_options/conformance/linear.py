"""The fixtures as linear handlers: one body for every style whose author awaits the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from mcp.server import Server
from mcp_types import CallToolResult, GetPromptResult
from pydantic import BaseModel

from mrtr_options.conformance import fixtures as the
from mrtr_options.sdk.questions import Inquiry
from mrtr_options.tool.weather import Question

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Context(Protocol):
    """What these handlers need of a stand-in's context."""

    elicit_all: Callable[..., Awaitable[Any]]

    async def elicit(self, question: Question[AnswerT] | Inquiry[AnswerT]) -> AnswerT:
        """See the stand-ins."""
        ...


async def call_elicitation(ctx: Context, params: object) -> CallToolResult:
    """One form."""
    return the.hello(await ctx.elicit(the.NAME))


async def call_sampling(ctx: Context, params: object) -> CallToolResult:
    """One message from the client's model."""
    return the.capital(await ctx.elicit(the.CAPITAL))


async def call_list_roots(ctx: Context, params: object) -> CallToolResult:
    """The client's folders."""
    return the.folders(await ctx.elicit(the.ROOTS))


async def call_confirm(ctx: Context, params: object) -> CallToolResult:
    """One form."""
    return the.confirmed(await ctx.elicit(the.CONFIRM))


async def call_multiple_inputs(ctx: Context, params: object) -> CallToolResult:
    """A form, a message and the folders in one round."""
    return the.welcome(*await ctx.elicit_all(the.NAME, the.GREETING, the.ROOTS))


async def call_multi_round(ctx: Context, params: object) -> CallToolResult:
    """One form after another."""
    name = await ctx.elicit(the.STEP1)
    return the.likes(name, await ctx.elicit(the.STEP2))


async def call_capabilities(ctx: Context, params: object) -> CallToolResult:
    """A form if the client takes forms, and a message."""
    return the.greeted(*await ctx.elicit_all(the.ANY_NAME, the.GREETING))


async def get_prompt(ctx: Context, params: object) -> GetPromptResult:
    """A prompt that asks."""
    return the.prompt(await ctx.elicit(the.TOPIC))


def linear_server(
    style: str,
    linear: Callable[[Any], Any],
    *,
    sealed: bool = False,
    resource: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
) -> Server[None]:
    """A fresh server.

    Args:
        style: The style's name.
        linear: Turns a linear handler into one that a server takes.
        sealed, resource: As for `fixture_server`.
    """
    tools = {
        "elicitation": call_elicitation,
        "sampling": call_sampling,
        "list_roots": call_list_roots,
        "request_state": call_confirm,
        "multiple_inputs": call_multiple_inputs,
        "multi_round": call_multi_round,
        "tampered_state": call_confirm,
        "capabilities": call_capabilities,
    }
    return the.fixture_server(
        style,
        {name: linear(handler) for name, handler in tools.items()},
        linear(get_prompt),
        sealed=sealed,
        resource=resource,
    )
