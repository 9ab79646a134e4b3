"""A tool that asks its user twice and then does one thing, once for each reference.

Keyed replay, option J, without the guard: no store. A call that is made again with the
same reference asks its questions again; the records still take it once.

python own_tool.py 8000 serves it, and pytest test_own_tool.py tries it.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from mcp.server import Server
from mcp_types import CallToolResult, ToolAnnotations
from mrtr_options import sdk
from pydantic import BaseModel, Field

from mrtr_options.demo.own_tool.default import TOOL, Records, World


class Arguments(BaseModel):
    """What the tool is called with."""

    item: str = Field(min_length=1, max_length=50, description="What it is done to")
    reference: str = Field(
        min_length=1,
        max_length=50,
        description="What it is for, an invoice for example. A call with the"
        " same reference is the same call; take another one to have it done once more.",
    )


class Way(BaseModel):
    """The form of the first question."""

    way: Literal["standard", "express"]


class Consent(BaseModel):
    """The form of the second question."""

    go_ahead: Literal["yes", "no"]


def which_way(item: str) -> sdk.Question[Way]:
    """Make the first question."""
    return sdk.Question("way", f"How is it to be done to {item}?", Way)


def may_i(what: str) -> sdk.Question[Consent]:
    """Make the second question, which names the answer to the first."""
    return sdk.Question("consent", f"{what}: go ahead?", Consent)


async def call_tool(ctx: sdk.ReplayContext[World], params: sdk.Params) -> sdk.Result:
    """Ask, then act. It runs from its first line in each round, with equal answers."""
    world, caller = ctx.lifespan_context, ctx.caller
    wanted = sdk.arguments_of(params, Arguments)
    if caller is None:
        return sdk.text("This tool needs to know who calls.", is_error=True)

    answer = await ctx.elicit(which_way(wanted.item))
    fee = world.fee if answer.way == "express" else 0
    what = f"{wanted.item}, {answer.way}, for {fee}"

    # An answer belongs to the question in its words: a new fee is asked for again.
    consent = await ctx.elicit(may_i(what))
    if consent.go_ahead == "no":
        raise sdk.Declined("consent")

    recorded = await ctx.once(
        "do", lambda _: world.records.do(caller, wanted.reference, what)
    )
    return report(recorded, wanted.reference, what)


def report(recorded: tuple[str, str], reference: str, what: str) -> CallToolResult:
    """Say what is recorded, which an earlier call may have asked for in another way."""
    done, at = recorded
    if done != what:
        return sdk.text(
            f"Nothing was done. Since {at}, {reference} is recorded as: {done}.",
            is_error=True,
        )
    return sdk.text(f"Recorded under {reference} at {at}: {done}.")



@contextmanager
def instance(
    folder: Path, settings: sdk.Settings, fee: int = World.fee
) -> Generator[Server[World]]:
    """Build an instance, whose files are in a folder that all instances share."""
    world = World(Records(folder / "records.sqlite"), fee)
    tool = sdk.Tool(
        TOOL,
        "Does one thing, once for each reference.",
        Arguments,
        sdk.keyed_replay(call_tool),
        annotations=ToolAnnotations(idempotent_hint=True),
    )
    yield sdk.build_server(
        f"{TOOL}-server", tool, lifespan_context=world, settings=settings
    )
