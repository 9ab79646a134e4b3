"""Books a table: the rounds by hand (E), inside the shim for old clients (A)."""

from typing import Literal

from mcp.server import MCPServer
from pydantic import BaseModel

from mrtr_options import sdk


class Arguments(BaseModel):
    guest: str


class Time(BaseModel):
    time: Literal["18:00", "20:30"]


class Deposit(BaseModel):
    method: Literal["card", "voucher"]


class State(BaseModel):
    time: str | None = None


booked: list[str] = []
server = MCPServer("restaurant")


async def book_table(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    guest = sdk.arguments_of(params, Arguments).guest
    state = sdk.load_state(params, State)
    when = sdk.Question("time", "When?", Time)
    if state.time is None:
        answer = sdk.answer_to(when, ctx, params)
        if answer is None:
            return sdk.ask(when, state)
        state.time = answer.time
    how = sdk.Question("deposit", f"How will you leave the deposit for {state.time}?", Deposit)
    deposit = sdk.answer_to(how, ctx, params)
    if deposit is None:
        return sdk.ask(how, state)
    booked.append(f"{guest} at {state.time}, {deposit.method}")
    return sdk.text(f"A table for {guest} at {state.time}.")


sdk.Tool(
    "book_table", "Books a table for tonight.", Arguments, book_table, [sdk.legacy_shim]
).add_to(server)
