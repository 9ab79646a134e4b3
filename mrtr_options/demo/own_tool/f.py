"""A tool that asks its user twice and then does one thing, once for each reference.

Option F, a round at a time with markers: no store. A call that is made again with the
same reference asks its questions again, and answers that come with a first request are
taken; the records take it once.

python own_tool.py 8000 serves it, and pytest test_own_tool.py tries it.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

from typing import Literal

from mrtr_options import sdk

from mrtr_options.demo.own_tool.default import World, caller_of
from mrtr_options.demo.own_tool.e import may_i
from mrtr_options.demo.own_tool.j import Arguments, report, which_way


class State(sdk.Markers):
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

    recorded = await state.once(
        "do", lambda: world.records.do(caller, wanted.reference, what)
    )
    return report(recorded, wanted.reference, what)
