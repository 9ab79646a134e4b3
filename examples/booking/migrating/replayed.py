"""Books a table: the handler runs again in every round (J), inside the shim for old clients (A)."""

from typing import Any, Literal

from mcp.server import MCPServer
from pydantic import BaseModel

from mrtr_options import sdk


class Arguments(BaseModel):
    guest: str


class Time(BaseModel):
    time: Literal["18:00", "20:30"]


class Deposit(BaseModel):
    method: Literal["card", "voucher"]


booked: list[str] = []
server = MCPServer("restaurant")


async def book_table(ctx: sdk.ReplayContext[Any], params: sdk.Params) -> Any:
    guest = sdk.arguments_of(params, Arguments).guest
    when = await ctx.elicit(sdk.Question("time", "When?", Time))
    message = f"How will you leave the deposit for {when.time}?"
    deposit = await ctx.elicit(sdk.Question("deposit", message, Deposit))

    async def book(key: str) -> None:
        booked.append(f"{guest} at {when.time}, {deposit.method}")

    ctx.on_commit(book, key="book")
    return sdk.text(f"A table for {guest} at {when.time}.")


handler = sdk.keyed_replay(book_table)
sdk.Tool("book_table", "Books a table for tonight.", Arguments, handler, [sdk.legacy_shim]).add_to(
    server
)
