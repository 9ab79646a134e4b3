"""Books a table, but books a default time without asking if the client cannot be asked."""

from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel


class Time(BaseModel):
    time: Literal["18:00", "20:30"]


booked: list[str] = []
server = MCPServer("restaurant")


@server.tool()
async def book_table(guest: str, ctx: Context) -> str:
    """Books a table for tonight."""
    time = "18:00"
    try:
        when = await ctx.elicit("When?", Time)
        if when.action != "accept":
            return "Nothing was booked."
        time = when.data.time
    except Exception:  # "this client does not support elicitation"
        pass
    booked.append(f"{guest} at {time}")
    return f"A table for {guest} at {time}."
