"""Transfers money, after a consent to the fee and a one-time code: J in the guard, call named."""

import argparse
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bank import OWNERS, WRONG_CODES, Bank, Transfer
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.errors import in_one_line


class Arguments(BaseModel):
    """The arguments of the tool."""

    sender: str = Field(alias="from", description="The account that pays")
    recipient: str = Field(alias="to", description="The account that is paid")
    amount: int = Field(gt=0, le=10_000)
    reference: str = Field(
        min_length=1,
        max_length=50,
        description="What is paid, an invoice's number for example. A call with the same reference"
        " is the same transfer; take another one to pay once more.",
    )


class Consent(BaseModel):
    """The form of the first question."""

    go_ahead: Literal["yes", "no"]


class Code(BaseModel):
    """The form of the other questions."""

    code: str = Field(min_length=6, max_length=6)


@dataclass(frozen=True)
class World:
    """The handler's surroundings.

    Attributes:
        bank: The destination of the transfers.
        fee: The price of a transfer in this version.
    """

    bank: Bank
    fee: int


def may_i(wanted: Transfer) -> sdk.Question[Consent]:
    """Ask for consent to everything that will happen, including the fee."""
    return sdk.Question("consent", f"Transfer {wanted}?", Consent)


def which_code(number: int) -> sdk.Question[Code]:
    """Ask for the code. Each try is a question of its own, with a key of its own."""
    before = "" if number == 1 else "That was not the code. "
    return sdk.Question(f"code {number}", f"{before}Which code was sent to your phone?", Code)


async def transfer_money(ctx: sdk.ReplayContext[World], params: sdk.Params) -> sdk.Result:
    """Transfer money. Every round starts at the first line, and gets equal answers."""
    world = ctx.lifespan_context
    owner = ctx.caller
    asked = sdk.arguments_of(params, Arguments)
    if owner is None or OWNERS.get(asked.sender) != owner:
        return sdk.text(f"{asked.sender} is no account of yours.", is_error=True)
    wanted = Transfer(asked.sender, asked.recipient, asked.amount, world.fee)

    consent = await ctx.elicit(may_i(wanted))
    if consent.go_ahead == "no":
        raise sdk.Declined("consent")

    await ctx.once("code", lambda key: world.bank.send_code(owner, asked.reference))
    if not await code_is_right(ctx, owner, asked.reference):
        return sdk.text(
            "Nothing was transferred, since the code was wrong too often. The bank takes no more"
            f" codes for {asked.reference}; take another reference.",
            is_error=True,
        )

    await ctx.once("pay", lambda key: world.bank.transfer(owner, asked.reference, wanted))
    return report(world.bank.recorded(owner, asked.reference), asked.reference, wanted)


async def code_is_right(ctx: sdk.ReplayContext[World], owner: str, reference: str) -> bool:
    """Ask for the code until it is right, or was wrong too often."""
    bank = ctx.lifespan_context.bank
    for number in range(1, WRONG_CODES + 1):
        code = (await ctx.elicit(which_code(number))).code

        def take(code: str = code) -> bool:
            return bank.takes_code(owner, reference, code)

        if await ctx.memo(f"code {number}", take):  # a later round does not count it once more
            return True
    return False


def report(recorded: tuple[Transfer, str] | None, reference: str, wanted: Transfer) -> sdk.Result:
    """Return what the bank has recorded, which may be another transfer than the wanted one."""
    assert recorded is not None
    done, at = recorded
    if done != wanted:
        return sdk.text(
            f"Nothing was transferred now. {reference} was paid at {at}: {done}.", is_error=True
        )
    return sdk.text(f"{reference} was paid at {at}: {done}.")


def outcome_of(error: Exception) -> CallToolResult | None:
    """Return a result for a call whose user did not agree."""
    if isinstance(error, sdk.Declined | sdk.Cancelled):
        return sdk.text("Nothing was transferred: the user did not agree.")
    return sdk.outcome_of(error)


# --- the server ----------------------------------------------------------------------------------

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}
REPEAT = "This call was made before, at {since}. Nothing was done now; its result was:"


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
    with closing(sdk.SqliteStore(rounds)) as store:
        guard = sdk.single_use(
            store,
            call="reference",
            repeat_note=REPEAT,
            attempts=2,  # a round whose process died runs again: the bank absorbs a second transfer
            round_seconds=round_seconds,
            wait_seconds=2 * round_seconds,
        )
        tool = sdk.Tool(
            "transfer_money",
            "Transfers money, once for each reference.",
            Arguments,
            sdk.keyed_replay(transfer_money),
            [guard],
            outcome_of,
            annotations=ToolAnnotations(idempotent_hint=True),
        )
        yield sdk.build_server("bank", tool, lifespan_context=World(bank, fee), settings=settings)


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
