"""A restaurant's tool, which belongs to no option, and ways to serve and call it."""

from collections.abc import Callable
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES


class Booking(BaseModel):
    """The arguments of the tool."""

    guest: str
    party: int = Field(default=2, ge=1, le=8)


class Hour(BaseModel):
    """The answer to `WHEN`."""

    hour: Literal[18, 20]


class State(sdk.Markers):
    """The chosen hour, which a later round needs."""

    hour: int | None = None


WHEN = sdk.Question("when", "At what time?", Hour)
SURE = sdk.Question("sure", "Is that all?", Hour)


async def book(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    booking = sdk.arguments_of(params, Booking)
    state = sdk.load_state(params, State)
    if state.hour is None:
        answer = sdk.answer_to(WHEN, ctx, params)
        if answer is None:
            return sdk.ask(WHEN, state)
        state.hour = answer.hour
    if sdk.answer_to(SURE, ctx, params) is None:
        return sdk.ask(SURE, state)
    return sdk.text(f"{booking.guest}, {booking.party} at {state.hour}")


async def book_in_line(ctx: Any, params: Any) -> types.CallToolResult:
    answer = await ctx.elicit(WHEN)
    return sdk.text(f"at {answer.hour}")


def tool(handler: Any = book, *wrappers: Any) -> sdk.Tool:
    return sdk.Tool("book_table", "Books a table.", Booking, handler, wrappers)


def answering(action: Literal["accept", "decline", "cancel"] = "accept", hour: object = 20) -> Any:
    async def answer(context: ClientRequestContext, params: Any) -> types.ElicitResult:
        content: Any = {"hour": hour} if action == "accept" else None
        return types.ElicitResult(action=action, content=content)

    return answer


def modern(server: Any, user: Any = None) -> Client:
    return Client(server, mode=MODES["modern"], elicitation_callback=user)


async def call(server: Any, user: Any = None, arguments: Any = None) -> types.CallToolResult:
    """Play one call with the SDK's own client; raise its error outside the client's groups."""
    async with modern(server, user or answering()) as client:
        try:
            return await client.call_tool("book_table", arguments or {"guest": "Ada"})
        except MCPError as error:
            refusal = error
    raise refusal


def high_tier(made: sdk.Tool) -> MCPServer[Any]:
    server = MCPServer("restaurant")

    @server.tool()
    def menu(day: str) -> str:
        return f"soup on {day}"

    made.add_to(server)
    return server


def lowlevel(made: sdk.Tool) -> Server[Any]:
    return sdk.build_server("restaurant", made)


TIERS = pytest.mark.parametrize("serve", [lowlevel, high_tier], ids=["lowlevel", "high"])
Serve = Callable[[sdk.Tool], Any]
