"""One payment for each invoice, in six styles: how an author passes the business key.

The business key is what the payment is about: the invoice's number, an argument of the tool. It is
the same when the tool is called again, so a destination that knows it pays an invoice once. The
idempotency key that J and L hand to an effect is the same on every attempt of one call, and another
one in the next call.

The tool `pay(invoice, amount)` asks which account pays, and then pays. The main below calls it for
one invoice, calls it again for the same one, and calls it for another one.

Knows the names of `sdk`. Run it:
`python -m examples.business_key`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp import Client
from mcp_types import CallToolResult, ElicitResult
from pydantic import BaseModel

from examples.expect import expect, start
from mrtr_options import sdk

TOOL = "pay"


class Invoice(BaseModel):
    """What the tool is called with."""

    invoice: str
    amount: int


class Account(BaseModel):
    """The form of the question."""

    account: Literal["current", "savings"]


class State(sdk.Markers):
    """What F keeps between rounds: which effects are done."""


# --- where the payments go -----------------------------------------------------------------------

Knows = Literal["business key", "idempotency key", "no key"]


@dataclass
class Bank:
    """The destination of the payments.

    Attributes:
        knows: What it knows a payment by that it has taken before.
        payments: Those that it has taken: the invoice, and the idempotency key.
    """

    knows: Knows
    payments: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])

    def pay(self, invoice: str, amount: int, account: str, key: str | None = None) -> None:
        """Pay, unless the payment is known."""
        by_invoice = self.knows == "business key" and invoice in {of for of, _ in self.payments}
        keys = {of for _, of in self.payments}
        by_key = self.knows == "idempotency key" and key is not None and key in keys
        if not by_invoice and not by_key:
            self.payments.append((invoice, key))


# --- the tool in six styles ----------------------------------------------------------------------


def which_account(asked: Invoice) -> sdk.Question[Account]:
    """Ask which account pays. The answer is no part of the business key."""
    return sdk.Question(
        "account", f"Which account pays {asked.amount} for {asked.invoice}?", Account
    )


def paid(invoice: Invoice) -> CallToolResult:
    """Say what is paid."""
    return sdk.text(f"{invoice.invoice} is paid.")


async def pay_e(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Pay, as E: the effect is below the last question."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    answer = sdk.answer_to(which_account(asked), ctx, params)
    if answer is None:
        return sdk.ask(which_account(asked))
    bank.pay(asked.invoice, asked.amount, answer.account)
    return paid(asked)


async def pay_f(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Pay, as F: the effect has a marker."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    state = sdk.load_state(params, State)
    answer = sdk.answer_to(which_account(asked), ctx, params)
    if answer is None:
        return sdk.ask(which_account(asked), state)
    await state.once("pay", lambda: bank.pay(asked.invoice, asked.amount, answer.account))
    return paid(asked)


def account_step(ctx: sdk.Context, params: sdk.Params, values: sdk.Values) -> sdk.Question[Account]:
    """Ask, as G."""
    return which_account(sdk.arguments_of(params, Invoice))


async def pay_g(ctx: sdk.Context, params: sdk.Params, values: sdk.Values) -> CallToolResult:
    """Pay, as G: the effect is in the end step."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    answer = values.get("account", Account)
    bank.pay(asked.invoice, asked.amount, answer.account)
    return paid(asked)


async def pay_h(ctx: sdk.LinearContext[Bank], params: sdk.CallParams) -> sdk.Result:
    """Pay, as H: the effect is a line like any other."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    answer = await ctx.elicit(which_account(asked))
    bank.pay(asked.invoice, asked.amount, answer.account)
    return paid(asked)


async def pay_j(ctx: sdk.ReplayContext[Bank], params: sdk.Params) -> sdk.Result:
    """Pay, as J: the effect has a name, and is given an idempotency key."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    answer = await ctx.elicit(which_account(asked))
    await ctx.once("pay", lambda key: bank.pay(asked.invoice, asked.amount, answer.account, key))
    return paid(asked)


async def pay_l(ctx: sdk.DurableContext[Bank], params: sdk.CallParams) -> CallToolResult:
    """Pay, as L and K: the effect is a step, and is given an idempotency key."""
    asked, bank = sdk.arguments_of(params, Invoice), ctx.lifespan_context
    answer = await ctx.elicit(which_account(asked))
    await ctx.step("pay", lambda key: bank.pay(asked.invoice, asked.amount, answer.account, key))
    return paid(asked)


def handler_of(style: str) -> tuple[Any, list[Any]]:
    """Return the handler of a style, and the resources that it needs."""
    frames, calls = sdk.ContinuationStore(), sdk.DurableStore()
    styles: dict[str, tuple[Any, list[Any]]] = {
        "E": (pay_e, []),
        "F": (pay_f, []),
        "G": (sdk.ToolBuilder[Bank]().step("account", account_step).end(pay_g).build(), []),
        "H": (frames.linear(pay_h), [frames]),
        "J": (sdk.keyed_replay(pay_j), []),
        "L": (calls.linear(pay_l), [calls.serving]),
    }
    return styles[style]


# --- the demonstration ---------------------------------------------------------------------------

STYLES = ("E", "F", "G", "H", "J", "L")
CALLS = ("invoice 1", "invoice 1", "invoice 2")
"""A call, the same one made again, and another one."""
PAYMENTS: dict[Knows, int] = {"business key": 2, "idempotency key": 3, "no key": 3}
"""How many payments these calls come to, in every style."""


async def user(context: Any, params: Any) -> ElicitResult:
    """Choose an account."""
    return ElicitResult(action="accept", content={"account": "current"})


async def payments(style: str, knows: Knows) -> int:
    """Return how many payments the bank has taken after these calls."""
    bank, settings = Bank(knows), sdk.Settings(keys=[secrets.token_bytes(32)])
    handler, resources = handler_of(style)
    tool = sdk.Tool(TOOL, "Pays an invoice.", Invoice, handler)
    server: Any = sdk.build_server(
        "bank", tool, lifespan_context=bank, settings=settings, resources=resources
    )
    async with Client(server, mode="2026-07-28", elicitation_callback=user) as client:
        for invoice in CALLS:
            await client.call_tool(TOOL, {"invoice": invoice, "amount": 100})
    return len(bank.payments)


async def demonstrate() -> None:
    """Show the payments of each style at each destination."""
    print(f"payments for {', '.join(CALLS)}; the destination knows\n")
    print("  ".join(["style", *PAYMENTS]))
    for style in STYLES:
        counts = {knows: await payments(style, knows) for knows in PAYMENTS}
        columns = [f"{counts[knows]:<{len(knows)}}" for knows in PAYMENTS]
        print("  ".join([f"{style:5}", *columns]).rstrip())
        expect(f"the payments of {style}", counts, PAYMENTS)


if __name__ == "__main__":
    start(demonstrate, __doc__)
