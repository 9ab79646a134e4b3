"""Pay by link: the user opens a page, pays there, and the tool goes on once the money is there.

Accepting a link is consent to open it, and no payment. So the tool asks the payment's provider,
`ctx.until(...)`, for as long as the user may take. The wait outlives the process: on option L it
goes on wherever the call does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import mcp_types as types

from mrtr_options import sdk
from mrtr_options.sdk.durable import CallParams, DurableContext


@dataclass
class Shop:
    """The world outside: a payment provider, and a warehouse.

    Attributes:
        receipt_of: Asks the provider for the receipt of an order; None while it is not paid.
        ship: Sends the goods, given the order and an idempotency key.
        seconds: The time that a user has to pay.
        poll_seconds: The interval at which the provider is asked.
    """

    receipt_of: Callable[[str], Awaitable[str | None]]
    ship: Callable[[str, str], Awaitable[str]]
    seconds: float = 900.0
    poll_seconds: float = 2.0


async def buy(ctx: DurableContext[Shop], call: CallParams) -> types.CallToolResult:
    """Have an order paid, and ship it."""
    shop = ctx.lifespan_context
    order = str((call.arguments or {})["order"])
    page = sdk.link("pay", f"Pay order {order}.", f"https://pay.example/{order}")
    try:
        receipt = await ctx.until(
            "payment",
            lambda: shop.receipt_of(order),
            seconds=shop.seconds,
            link=page,
            poll_seconds=shop.poll_seconds,
        )
    except sdk.NotInTime:
        return sdk.text(f"Order {order} was not paid in time, and is not shipped.", is_error=True)
    parcel = await ctx.step("ship", lambda key: shop.ship(order, key))
    return sdk.text(f"Order {order} is paid ({receipt}) and shipped ({parcel}).")
