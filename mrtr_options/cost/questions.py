"""What a call costs by the number of its questions: the generated tool in every style, in turns.

Knows the styles as `chains` makes them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext

from mrtr_options.bench.client import MODES
from mrtr_options.cost import chains
from mrtr_options.cost.chains import STYLES, TOOL, Chain, Style
from mrtr_options.cost.floor import FLOOR, RESOLVER
from mrtr_options.cost.timing import Progress, Spread, in_turns, ratio, spread
from mrtr_options.tool.catalogue import DURABLE, installed

COUNTS = (1, 2, 3, 5, 10)
"""Questions in a call."""
CALLS, TURNS = 3, 20
DURABLE_CALLS, DURABLE_TURNS = 1, 5
"""The same for L, which keeps its calls in a database."""


@dataclass(frozen=True)
class QuestionsCost:
    """Time of one call of the generated tool, in memory.

    Attributes:
        option: A letter, "floor", or "FastMCP".
        questions: How many the call asks.
        milliseconds: Of one call.
        ratio: To the floor's time in the same turn.
        resolver_ratio: To the time of the SDK's resolver in the same turn; None for L, which has
            turns of its own.
    """

    option: str
    questions: int
    milliseconds: Spread
    ratio: Spread
    resolver_ratio: Spread | None


async def time_questions(counts: Sequence[int], progress: Progress) -> list[QuestionsCost]:
    """Time one call of each style, for each number of questions.

    Args:
        counts: The numbers of questions.
        progress: Called `TURNS` times for each of them, and `DURABLE_TURNS` times if L is installed.
    """
    costs: list[QuestionsCost] = []
    for questions in counts:
        costs += await _time(STYLES, questions, CALLS, TURNS, progress)
        if installed(DURABLE):
            styles = {FLOOR: STYLES[FLOOR], "L": chains.durable}
            timed = await _time(styles, questions, DURABLE_CALLS, DURABLE_TURNS, progress)
            costs += [each for each in timed if each.option != FLOOR]
    return costs


async def _time(
    styles: Mapping[str, Style], questions: int, calls: int, turns: int, progress: Progress
) -> list[QuestionsCost]:
    made = {name: style(questions, no_effect) for name, style in styles.items()}
    async with clients_of(made) as clients:
        work = {name: partial(_call, client, calls) for name, client in clients.items()}
        readings = await in_turns(work, turns, progress)
    floor, resolver = readings[FLOOR].wall, readings.get(RESOLVER)
    return [
        QuestionsCost(
            name,
            questions,
            spread([seconds / calls * 1000 for seconds in own.wall]),
            ratio(own.wall, floor),
            resolver and ratio(own.wall, resolver.wall),
        )
        for name, own in readings.items()
    ]


async def no_effect(name: str) -> None:
    """An effect that does nothing."""


@asynccontextmanager
async def clients_of(made: Mapping[str, Chain]) -> AsyncGenerator[dict[str, Client]]:
    """A client in front of each of these, whose user says "yes" to everything."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                Client(
                    each.server,
                    mode=MODES["modern"],
                    elicitation_callback=_yes,
                    input_required_max_rounds=30,
                )
            )
            for name, each in made.items()
        }


async def _yes(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": "yes"})


async def _call(client: Client, calls: int) -> None:
    for _ in range(calls):
        await client.call_tool(TOOL)
