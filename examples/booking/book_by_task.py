"""Books a table where the restaurant takes minutes to confirm: option K, a durable task.

`python book_by_task.py PORT` serves it; MRTR_DATABASE_URL names the database that outlives the
process.
"""

import argparse
from typing import Any

import anyio
from book_table import Booking, which_deposit, which_time
from restaurant import Restaurant

from mrtr_options import sdk

store = sdk.TaskStore(outcome_of=sdk.outcome_of)


async def book_table(ctx: sdk.TaskContext[Restaurant], params: sdk.CallParams) -> Any:
    """Await each question, then book; the call survives the death of its process."""
    booking = sdk.arguments_of(params, Booking)
    when = await ctx.elicit(which_time(booking.party))
    deposit = await ctx.elicit(which_deposit(when.time))
    await ctx.status(f"The restaurant looks at its tables for {when.time}.")
    await anyio.sleep(1)  # minutes, if the restaurant is called by telephone

    # The key is the same on every attempt, so a destination may use it to book once.
    async def book(key: str) -> None:
        ctx.lifespan_context.book(booking.guest, booking.party, when.time, deposit.method)

    await ctx.step("book", book)  # recorded: it does not run again
    return sdk.text(f"A table for {booking.party} at {when.time}, in the name of {booking.guest}.")


def build(restaurant: Restaurant) -> Any:
    tool = sdk.Tool("book_table", "Books a table for tonight.", Booking, store.task(book_table))
    return sdk.build_server(
        "restaurant",
        tool,
        lifespan_context=restaurant,
        resources=[store.serving],
        extensions=[store],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("port", type=int)
    sdk.serve(build(Restaurant("bookings.sqlite")), port=parser.parse_args().port)
