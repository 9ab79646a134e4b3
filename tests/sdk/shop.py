"""A shop whose refunds are calls of `sdk.Calls`, its bank and its users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from pydantic import BaseModel

from mrtr_options import sdk
from mrtr_options.review.bench.client import MODES
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.testing import call_as_client
from tests.sending import round_of

KEY = new_key()
WANTED = {"order": "o-1", "reference": "r-1", "amount": 40}
TIERS = pytest.mark.parametrize("make", [MCPServer, Server], ids=["high", "lowlevel"])
Make = Callable[[str], Any]


class Paid(BaseModel):
    """What the bank returns."""

    id: str
    amount: int


@dataclass
class Bank:
    """A bank without idempotency keys, whose payments can be looked up.

    Attributes:
        paid: The payments, in order.
        troubles: Raised by the next payments, after they were made.
    """

    paid: list[Paid] = field(default_factory=list[Paid])
    troubles: list[Exception] = field(default_factory=list[Exception])

    async def pay(self, reference: str, amount: int) -> Paid:
        self.paid.append(Paid(id=f"p-{len(self.paid) + 1}", amount=amount))
        if self.troubles:
            raise self.troubles.pop()
        return self.paid[-1]

    async def find(self, reference: str) -> Paid | bool:
        return self.paid[-1] if self.paid else False


@dataclass
class User:
    """Answers each question with a yes or a no, and keeps its words."""

    go_ahead: str = "yes"
    action: Any = "accept"
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        (name,) = params.requested_schema["properties"]
        content: Any = {name: self.go_ahead} if self.action == "accept" else None
        return types.ElicitResult(action=self.action, content=content)


def calls_in(path: Path, caller: str | None = "clerk", **more: Any) -> sdk.Calls:
    return sdk.Calls(sdk.SqliteStore(path), keys=[KEY], caller=lambda ctx: caller, **more)


def instance(
    make: Make, path: Path, bank: Bank, fee: str = "", *, calls: sdk.Calls | None = None, **how: Any
) -> Any:
    """Build an instance; all of them share a file and a bank. `how` has options of its tool."""
    server = make("shop")

    @(calls or calls_in(path)).tool(server, name_by="reference", **how)
    async def refund(call: sdk.Call, order: str, reference: str, amount: int = 40) -> str:
        """Refund an order."""
        if not await call.confirm(f"Refund {amount} on {order}{fee}?"):
            raise sdk.NotDone("Nothing was refunded.")
        done = await call.once("refund", bank.pay, reference, amount, settled=bank.find)
        receipt = await call.confirm("Send a receipt?")
        return f"Refunded {done.amount}: {done.id}, receipt {receipt}, by {call.caller}"

    return server


async def told(server: Any, user: User, era: Any = "modern", **arguments: Any) -> str:
    """Make a call and return what is told; an error begins with "error: "."""
    connect = partial(Client, server, mode=MODES[era], elicitation_callback=user)
    return await call_as_client("stops", connect, "refund", WANTED | arguments)


async def one_round(server: Any, asked: Any = None) -> Any:
    """Send one round, at whichever instance, with a yes to what is asked."""
    yes = types.ElicitResult(action="accept", content={"go_ahead": "yes"})
    answers: Any = asked and dict.fromkeys(asked.input_requests, yes)
    async with Client(server, mode=MODES["modern"], elicitation_callback=User()) as client:
        try:
            return await round_of(client, "refund", WANTED, asked, answers)
        except MCPError as error:  # raised outside the client's groups
            refusal = error
    raise refusal
