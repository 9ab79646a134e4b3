"""Serves the tool beside other tools, on a server of your own: MCPServer or lowlevel Server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from book_table import Booking, book_table
from mcp.server import MCPServer, Server
from restaurant import Restaurant, hours_for

from mrtr_options import sdk


def high_tier(restaurant: Restaurant, *wrappers: Any, settings: sdk.Settings | None = None) -> Any:
    """Build an MCPServer with another tool."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[Restaurant]:
        yield restaurant

    server = MCPServer("restaurant", lifespan=lifespan)

    @server.tool()
    def hours(party: int) -> str:  # pyright: ignore[reportUnusedFunction]
        """When there is a table."""
        return ", ".join(hours_for(party))

    handler = sdk.keyed_replay(book_table)
    tool = sdk.Tool("book_table", "Books a table for tonight.", Booking, handler, wrappers)
    tool.add_to(server)
    sdk.protect(server, settings)
    return server


def lowlevel(restaurant: Restaurant, *wrappers: Any, settings: sdk.Settings | None = None) -> Any:
    """Build a lowlevel Server, which lists its tools and finds the called tool itself."""
    handler = sdk.keyed_replay(book_table)
    tool = sdk.Tool("book_table", "Books a table for tonight.", Booking, handler, wrappers)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[Restaurant]:
        yield restaurant

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool.listed])

    async def call_tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        if params.name != tool.name:
            return sdk.text(f"There is no tool {params.name!r}.", is_error=True)
        return await tool.call(ctx, params)

    server = Server(
        "restaurant", lifespan=lifespan, on_list_tools=list_tools, on_call_tool=call_tool
    )
    sdk.protect(server, settings)
    return server
