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
    reference: str = Field(
        min_length=16,
        max_length=50,
        description="A random text, new for each booking. Send the same one to call again.",
    )


class Time(BaseModel):
    """The form of the first question; its choices are known only in the call."""

    time: str


class Deposit(BaseModel):
    """The form of the second question."""

    method: Literal["card", "voucher"]


def which_time(party: int) -> sdk.Question[Time]:
    """Ask for a time, and offer the hours at which there is a table."""
    hours: Any = Literal[hours_for(party)]
    form = create_model("Time", __base__=Time, time=(hours, ...))
    return sdk.Question("time", f"When, for {party}?", form)


def which_deposit(time: str) -> sdk.Question[Deposit]:
    """Ask for the deposit; the question names the chosen time."""
    return sdk.Question("deposit", f"How will you leave the deposit for {time}?", Deposit)


async def book_table(ctx: sdk.ReplayContext[Restaurant], params: sdk.Params) -> sdk.Result:
    """Book a table. Every round starts at the first line, and gets the same answers."""
    booking = sdk.arguments_of(params, Booking)
    when = await ctx.elicit(which_time(booking.party))
    deposit = await ctx.elicit(which_deposit(when.time))

    def book(key: str) -> None:
        restaurant = ctx.lifespan_context
        restaurant.book(booking.guest, booking.party, when.time, deposit.method)

    await ctx.once("book", book)
    return sdk.text(f"A table for {booking.party} at {when.time}, in the name of {booking.guest}.")


def build(restaurant: Restaurant, *wrappers: Any, settings: sdk.Settings | None = None) -> Any:
    handler = sdk.keyed_replay(book_table)
    tool = sdk.Tool("book_table", "Books a table for tonight.", Booking, handler, wrappers)
    return sdk.build_server("restaurant", tool, lifespan_context=restaurant, settings=settings)


def guard(file: str) -> Any:
    """Make a guard that knows a call by its reference."""
    return sdk.single_use(sdk.SqliteStore(file), call="reference", call_is_secret=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)  # an error is one line
    parser.add_argument("port", type=int)
    port = parser.parse_args().port
    sdk.log_to_standard_error()
    sdk.serve(build(Restaurant("bookings.sqlite"), guard("rounds.sqlite")), port=port)
