"""A tool that asks its user twice and then does one thing, once for each reference.

Option G, a function for each question and one for the effect: no store. A step knows
its answer by its name, so the consent to an old fee is taken for a new one: give the
step another name when its meaning changes. Answers that come with a first request are
taken.

python own_tool.py 8000 serves it, and pytest test_own_tool.py tries it.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp.server import Server
from mcp_types import CallToolResult, ToolAnnotations
from mrtr_options import sdk

from mrtr_options.demo.own_tool.default import TOOL, Records, World, caller_of
from mrtr_options.demo.own_tool.j import (
    Arguments,
    Consent,
    Way,
    may_i,
    report,
    which_way,
)


def way_step(
    ctx: sdk.Context, params: sdk.Params, values: sdk.Values
) -> sdk.Question[Way]:
    """Ask in which way."""
    return which_way(sdk.arguments_of(params, Arguments).item)


def consent_step(
    ctx: sdk.Context, params: sdk.Params, values: sdk.Values
) -> sdk.Question[Consent]:
    """Ask for the consent to that."""
    return may_i(wanted_in(ctx, params, values))


async def end_step(
    ctx: sdk.Context, params: sdk.Params, values: sdk.Values
) -> CallToolResult:
    """Act, once there is nothing left to ask."""
    world: World = ctx.lifespan_context
    caller, reference = caller_of(ctx), sdk.arguments_of(params, Arguments).reference
    if caller is None:
        return sdk.text("This tool needs to know who calls.", is_error=True)
    if values.get("consent", Consent).go_ahead == "no":
        raise sdk.Declined("consent")
    what = wanted_in(ctx, params, values)
    recorded = world.records.do(caller, reference, what)
    return report(recorded, reference, what)


def wanted_in(ctx: sdk.Context, params: sdk.Params, values: sdk.Values) -> str:
    """Say what is to be done, from the arguments and the first answer."""
    item, way = sdk.arguments_of(params, Arguments).item, values.get("way", Way).way
    fee = ctx.lifespan_context.fee if way == "express" else 0
    return f"{item}, {way}, for {fee}"


call_tool = (
    sdk.ToolBuilder[World]()
    .step("way", way_step)
    .step("consent", consent_step)
    .end(end_step)
    .build()
)


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
