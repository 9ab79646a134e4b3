"""A tool that asks its user twice and then does one thing, once for each reference.

Option H, a handler that waits in its process: one instance, or sticky routing, and a
restart ends the calls that are open. A call that is made again with the same reference
asks its questions again; the records take it once.

python own_tool.py 8000 serves it, and pytest test_own_tool.py tries it.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp.server import Server
from mcp_types import ToolAnnotations
from mrtr_options import sdk

from mrtr_options.demo.own_tool.default import TOOL, Records, World
from mrtr_options.demo.own_tool.j import Arguments, may_i, report, which_way


async def call_tool(
    ctx: sdk.LinearContext[World], params: sdk.CallParams
) -> sdk.Result:
    """Ask, then act. It waits here while its user answers."""
    world, caller = ctx.lifespan_context, ctx.caller
    wanted = sdk.arguments_of(params, Arguments)
    if caller is None:
        return sdk.text("This tool needs to know who calls.", is_error=True)

    answer = await ctx.elicit(which_way(wanted.item))
    fee = world.fee if answer.way == "express" else 0
    what = f"{wanted.item}, {answer.way}, for {fee}"

    consent = await ctx.elicit(may_i(what))
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
    store = sdk.ContinuationStore()
    tool = sdk.Tool(
        TOOL,
        "Does one thing, once for each reference.",
        Arguments,
        store.linear(call_tool),
        annotations=ToolAnnotations(idempotent_hint=True),
    )
    yield sdk.build_server(
        f"{TOOL}-server",
        tool,
        lifespan_context=world,
        settings=settings,
        resources=[store],
    )
