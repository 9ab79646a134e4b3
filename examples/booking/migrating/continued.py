"""Books a table: the handler waits in this process (H), inside the shim for old clients (A)."""

from typing import Any, Literal

from pydantic import BaseModel

from mrtr_options import sdk


class Arguments(BaseModel):
    guest: str


class Time(BaseModel):
    time: Literal["18:00", "20:30"]


class Deposit(BaseModel):
    method: Literal["card", "voucher"]


booked: list[str] = []
store = sdk.ContinuationStore()


async def book_table(ctx: sdk.LinearContext[Any], params: sdk.CallParams) -> Any:
    guest = sdk.arguments_of(params, Arguments).guest
    when = await ctx.elicit(sdk.Question("time", "When?", Time))
    message = f"How will you leave the deposit for {when.time}?"
    deposit = await ctx.elicit(sdk.Question("deposit", message, Deposit))
    booked.append(f"{guest} at {when.time}, {deposit.method}")
    return sdk.text(f"A table for {guest} at {when.time}.")


handler = store.linear(book_table)
tool = sdk.Tool("book_table", "Books a table for tonight.", Arguments, handler, [sdk.legacy_shim])
server = sdk.build_server("restaurant", tool, resources=[store])
