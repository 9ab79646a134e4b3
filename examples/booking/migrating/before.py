"""Books a table: as it was written for 2025-11-25, where a tool can push a question and wait."""

from typing import Literal

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel


class Time(BaseModel):
    time: Literal["18:00", "20:30"]


class Deposit(BaseModel):
    method: Literal["card", "voucher"]


booked: list[str] = []
server = MCPServer("restaurant")


@server.tool()
async def book_table(guest: str, ctx: Context) -> str:
    """Books a table for tonight."""
    when = await ctx.elicit("When?", Time)
    if when.action != "accept":
        return "Nothing was booked."
    deposit = await ctx.elicit(f"How will you leave the deposit for {when.data.time}?", Deposit)
    if deposit.action != "accept":
        return "Nothing was booked."
    booked.append(f"{guest} at {when.data.time}, {deposit.data.method}")
    return f"A table for {guest} at {when.data.time}."
