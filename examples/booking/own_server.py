"""Serves the tool beside other tools, on a server of your own: MCPServer or lowlevel Server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

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

    return with_table(server, *wrappers, settings=settings)


def lowlevel(restaurant: Restaurant, *wrappers: Any, settings: sdk.Settings | None = None) -> Any:
    """Build a lowlevel Server, which lists and calls its other tools by itself."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[Restaurant]:
        yield restaurant

    return with_table(Server("restaurant", lifespan=lifespan), *wrappers, settings=settings)


def with_table(server: Any, *wrappers: Any, settings: sdk.Settings | None) -> Any:
    """Add the tool to a server, which has to be protected first."""
    sdk.protect(server, settings)
    handler = sdk.keyed_replay(book_table)
    sdk.Tool("book_table", "Books a table for tonight.", Booking, handler, wrappers).add_to(server)
    return server
