"""A tool that asks its user twice and then does one thing, once for each reference.

Option E, a round at a time: no store, and nothing of an SDK's own. A call that is made
again with the same reference asks its questions again, and answers that come with a
first request are taken; the records take it once. An effect above a question happens
again in every round.

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
from mcp_types import ToolAnnotations
from mrtr_options import sdk
from pydantic import BaseModel

from mrtr_options.demo.own_tool.default import TOOL, Records, World, caller_of
from mrtr_options.demo.own_tool.j import Arguments, Consent, report, which_way


def may_i(what: str) -> sdk.Question[Consent]:
    """Make the second question, which names the answer to the first.

    Its words are its key: the answer to another version's words is none to this one.
    """
    return sdk.Question(f"consent to {what}", f"{what}: go ahead?", Consent)


class State(BaseModel):
    """What a later round needs. The client carries it, sealed."""

    way: Literal["standard", "express"] | None = None


async def call_tool(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Ask, then act. It runs from its first line in every round."""
    world: World = ctx.lifespan_context
    caller = caller_of(ctx)
    wanted, state = sdk.arguments_of(params, Arguments), sdk.load_state(params, State)
    if caller is None:
        return sdk.text("This tool needs to know who calls.", is_error=True)

    if state.way is None:
        answer = sdk.answer_to(which_way(wanted.item), ctx, params)
        if answer is None:
            return sdk.ask(which_way(wanted.item), state)
        state.way = answer.way
    fee = world.fee if state.way == "express" else 0
    what = f"{wanted.item}, {state.way}, for {fee}"

    consent = sdk.answer_to(may_i(what), ctx, params)
    if consent is None:
        return sdk.ask(may_i(what), state)
    if consent.go_ahead == "no":
        raise sdk.Declined("consent")

    recorded = world.records.do(caller, wanted.reference, what)
    return report(recorded, wanted.reference, what)


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
        call_tool,
        annotations=ToolAnnotations(idempotent_hint=True),
    )
    yield sdk.build_server(
        f"{TOOL}-server", tool, lifespan_context=world, settings=settings
    )
