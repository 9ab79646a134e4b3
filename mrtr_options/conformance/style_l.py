"""The fixtures in the style of option L: linear, on a durable engine."""

from __future__ import annotations

from mcp.server import Server
from mcp_types import CallToolResult, GetPromptResult

from mrtr_options.conformance import fixtures as the
from mrtr_options.sdk.durable import Call, DurableContext, DurableStore
from mrtr_options.tool.server import database_url

Context = DurableContext[None]


async def call_elicitation(ctx: Context, params: Call) -> CallToolResult:
    """One form."""
    return the.hello(await ctx.elicit(the.NAME))


async def call_sampling(ctx: Context, params: Call) -> CallToolResult:
    """One message from the client's model."""
    return the.capital(await ctx.elicit(the.CAPITAL))


async def call_list_roots(ctx: Context, params: Call) -> CallToolResult:
    """The client's folders."""
    return the.folders(await ctx.elicit(the.ROOTS))


async def call_confirm(ctx: Context, params: Call) -> CallToolResult:
    """One form."""
    return the.confirmed(await ctx.elicit(the.CONFIRM))


async def call_multiple_inputs(ctx: Context, params: Call) -> CallToolResult:
    """A form, a message and the folders in one round."""
    return the.welcome(*await ctx.elicit_all(the.NAME, the.GREETING, the.ROOTS))


async def call_multi_round(ctx: Context, params: Call) -> CallToolResult:
    """One form after another."""
    name = await ctx.elicit(the.STEP1)
    return the.likes(name, await ctx.elicit(the.STEP2))


async def call_capabilities(ctx: Context, params: Call) -> CallToolResult:
    """A form if the client takes forms, and a message."""
    return the.greeted(*await ctx.elicit_all(the.ANY_NAME, the.GREETING))


async def get_prompt(ctx: Context, params: Call) -> GetPromptResult:
    """A prompt that asks."""
    return the.prompt(await ctx.elicit(the.TOPIC))


def server() -> Server[None]:
    """A fresh server."""
    store = DurableStore(database_url())
    return the.fixture_server(
        "l",
        {
            "elicitation": store.linear(call_elicitation),
            "sampling": store.linear(call_sampling),
            "list_roots": store.linear(call_list_roots),
            "request_state": store.linear(call_confirm),
            "multiple_inputs": store.linear(call_multiple_inputs),
            "multi_round": store.linear(call_multi_round),
            "tampered_state": store.linear(call_confirm),
            "capabilities": store.linear(call_capabilities),
        },
        store.linear(get_prompt),
        sealed=True,
        resource=lambda: store.serving(None),
    )
