"""Transfers money, after a consent to the fee and a one-time code that is typed at the bank."""

import argparse
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from typing import Annotated, Any

from bank import OWNERS, Bank, Transfer
from mcp.server import MCPServer
from pydantic import Field

from mrtr_options import sdk
from mrtr_options.errors import in_one_line

Sender = Annotated[str, Field(alias="from", description="The account that pays")]
Recipient = Annotated[str, Field(alias="to", description="The account that is paid")]
Amount = Annotated[int, Field(gt=0, le=10_000)]
Reference = Annotated[
    str, Field(min_length=1, max_length=50, description="What is paid, an invoice for example.")
]

TYPED_SECONDS = 1.0
"""The time in which the bank hears of a code that was typed."""


def add_tool(
    server: MCPServer[Any], calls: sdk.Calls, bank: Bank, fee: int, round_seconds: float
) -> None:
    """Serve the tool. It runs from its first line in every round, with equal answers."""

    @calls.tool(
        server,
        name_by="reference",
        round_seconds=round_seconds,  # what takes longer counts as dead
        wait_seconds=2 * round_seconds,  # longer than that, shorter than a client waits
    )
    async def transfer_money(
        call: sdk.Call,
        reference: Reference,
        sender: Sender,
        to: Recipient,
        amount: Amount,
    ) -> str:
        """Transfer money, once for each reference."""
        owner = call.caller
        if OWNERS.get(sender) != owner:
            raise sdk.NotDone(f"{sender} is no account of yours.")
        wanted = Transfer(sender, to, amount, fee)

        if not await call.confirm(f"Transfer {wanted}?"):
            raise sdk.NotDone("Nothing was transferred.")
        page = bank.page(owner, reference)
        link = sdk.link("code", "Type the code from your phone at your bank.", page)
        confirmed = partial(bank.is_confirmed, owner, reference)
        try:
            await call.until("confirmed", confirmed, seconds=TYPED_SECONDS, link=link)
        except sdk.NotInTime:
            raise sdk.NotDone("Nothing was transferred: the bank has no right code yet.") from None

        paid = await call.once("pay", bank.transfer, owner, reference, wanted, settled=bank.find)
        if await call.confirm("Send a receipt?"):
            await call.once("receipt", bank.send_receipt, owner, reference)
        return f"{reference} was paid at {paid.at}: {paid.transfer}."


# --- the server ----------------------------------------------------------------------------------

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}


def caller_of(ctx: sdk.Context) -> str | None:
    """Return the caller of a request; None for a stranger."""
    header = "" if ctx.request is None else ctx.request.headers.get("authorization", "")
    return TOKENS.get(header.removeprefix("Bearer "))


@contextmanager
def instance(
    bank: Bank,
    rounds: str,
    settings: sdk.Settings,
    fee: int = 1,
    round_seconds: float = 20.0,
) -> Generator[Any]:
    """Build an instance. All instances share the bank and the file of rounds."""
    server = MCPServer("bank")
    with closing(sdk.SqliteStore(rounds)) as store:
        add_tool(server, sdk.Calls(store, settings=settings), bank, fee, round_seconds)
        yield server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("port", type=int)
    port = parser.parse_args().port
    sdk.log_to_standard_error()
    with (
        in_one_line(),
        instance(
            Bank("bank.sqlite"), "rounds.sqlite", sdk.Settings.from_environment(caller_of)
        ) as server,
    ):
        sdk.serve(server, port=port)
