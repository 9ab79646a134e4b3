"""The fixtures in the style of option J: keyed replay."""

from __future__ import annotations

from mcp.server import Server
from mcp_types import CallToolResult, GetPromptResult

from mrtr_options.conformance import fixtures as the
from mrtr_options.conformance.fixtures import PromptParams, ToolParams
from mrtr_options.sdk.replay import ReplayContext, keyed_replay

Context = ReplayContext[None]


async def call_elicitation(ctx: Context, params: ToolParams) -> CallToolResult:
    """One form."""
    return the.hello(await ctx.elicit(the.NAME))


async def call_sampling(ctx: Context, params: ToolParams) -> CallToolResult:
    """One message from the client's model."""
    return the.capital(await ctx.elicit(the.CAPITAL))


async def call_list_roots(ctx: Context, params: ToolParams) -> CallToolResult:
    """The client's folders."""
    return the.folders(await ctx.elicit(the.ROOTS))


async def call_confirm(ctx: Context, params: ToolParams) -> CallToolResult:
    """One form."""
    return the.confirmed(await ctx.elicit(the.CONFIRM))


async def call_multiple_inputs(ctx: Context, params: ToolParams) -> CallToolResult:
    """A form, a message and the folders in one round."""
    return the.welcome(*await ctx.elicit_all(the.NAME, the.GREETING, the.ROOTS))


async def call_multi_round(ctx: Context, params: ToolParams) -> CallToolResult:
    """One form after another."""
    name = await ctx.elicit(the.STEP1)
    return the.likes(name, await ctx.elicit(the.STEP2))


async def call_capabilities(ctx: Context, params: ToolParams) -> CallToolResult:
    """A form if the client takes forms, and a message."""
    return the.greeted(*await ctx.elicit_all(the.ANY_NAME, the.GREETING))


async def get_prompt(ctx: Context, params: PromptParams) -> GetPromptResult:
    """A prompt that asks."""
    return the.prompt(await ctx.elicit(the.TOPIC))


def server() -> Server[None]:
    """A fresh server."""
    return the.fixture_server(
        "j",
        {
            "elicitation": keyed_replay(call_elicitation),
            "sampling": keyed_replay(call_sampling),
            "list_roots": keyed_replay(call_list_roots),
            "request_state": keyed_replay(call_confirm),
            "multiple_inputs": keyed_replay(call_multiple_inputs),
            "multi_round": keyed_replay(call_multi_round),
            "tampered_state": keyed_replay(call_confirm),
            "capabilities": keyed_replay(call_capabilities),
        },
        keyed_replay(get_prompt),
        sealed=True,
    )
