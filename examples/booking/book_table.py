"""Books a table: asks for a time and, for that time, how to leave a deposit."""

import argparse
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model
from restaurant import Restaurant, hours_for

from mrtr_options import sdk


class Booking(BaseModel):
    """The arguments of the tool."""

    guest: str = Field(min_length=1, max_length=50, description="In whose name")
    party: int = Field(ge=1, le=8, description="How many people")


class Time(BaseModel):
    """The form of the first question; its choices are known only in the call."""

    time: str


class Deposit(BaseModel):
    """The form of the second question."""

    method: Literal["card", "voucher"]


class State(sdk.Markers):
    """The facts that a later round needs: the client sends only the latest answers."""

    time: str | None = None


def which_time(party: int) -> sdk.Question[Time]:
    """Ask for a time, and offer the hours at which there is a table."""
    hours: Any = Literal[hours_for(party)]
    form = create_model("Time", __base__=Time, time=(hours, ...))
    return sdk.Question("time", f"When, for {party}?", form)


def which_deposit(time: str) -> sdk.Question[Deposit]:
    """Ask for the deposit; the question names the chosen time."""
    return sdk.Question("deposit", f"How will you leave the deposit for {time}?", Deposit)


async def book_table(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Book a table. Every round starts at the first line."""
    booking = sdk.arguments_of(params, Booking)
    state = sdk.load_state(params, State)

    if state.time is None:
        answer = sdk.answer_to(which_time(booking.party), ctx, params)
        if answer is None:
            return sdk.ask(which_time(booking.party), state)
        state.time = answer.time

    deposit = sdk.answer_to(which_deposit(state.time), ctx, params)
    if deposit is None:
        return sdk.ask(which_deposit(state.time), state)

    ctx.lifespan_context.book(booking.guest, booking.party, state.time, deposit.method)
    return sdk.text(f"A table for {booking.party} at {state.time}, in the name of {booking.guest}.")


def build(restaurant: Restaurant, *wrappers: Any, settings: sdk.Settings | None = None) -> Any:
    tool = sdk.Tool("book_table", "Books a table for tonight.", Booking, book_table, wrappers)
    return sdk.build_server("restaurant", tool, lifespan_context=restaurant, settings=settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)  # an error is one line
    parser.add_argument("port", type=int)
    port = parser.parse_args().port
    guard = sdk.single_use(sdk.SqliteStore("rounds.sqlite"))
    sdk.log_to_standard_error()
    sdk.serve(build(Restaurant("bookings.sqlite"), guard), port=port)
