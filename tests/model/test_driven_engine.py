"""From the model to the code: the durable record on its engine (options L and K, DBOS on SQLite).

An engine takes tens of milliseconds for each action, so actions are drawn. All instances are on one
engine here, so a request at another version finds the call at work, and waits where the model
refuses it: redeploys are left out.
"""

from pathlib import Path

import pytest

from model.check import Cell, check
from model.extras import EXTRAS, FAIL, OTHER_USER, REDEPLOY, SAME_USER
from model.reading import anomalies
from tests.evidence import every
from tests.model.covering import Driven, follow, wander
from tests.model.engine import EngineGraph, running

SEED = 50
STEPS = 150
"""The number of actions that are drawn with each extra."""
FEW_STEPS = 50
NEAREST = 20_000
"""The number of states that are searched for counterexamples."""
DURABLE = "durable record (L, K)"
BY_KEY = "durable record, named by key"

SEVERAL = [(DURABLE, FAIL), (DURABLE, SAME_USER), (DURABLE, OTHER_USER)]
"""The pairs in which an engine goes on with one of several unnamed calls, not told apart here."""

DRAWN = {
    f"{mechanism} / {letter} / {extra or 'no extra'}": (mechanism, letter, extra)
    for mechanism in (DURABLE, BY_KEY)
    for letter in ("L", "K")
    for extra in ("", *EXTRAS)
    if extra != REDEPLOY and (letter == "L" or not extra)
    if (mechanism, extra) not in SEVERAL
}
SHOWN = {
    f"{mechanism} / {extra or 'no extra'}": (mechanism, extra)
    for mechanism in (DURABLE, BY_KEY)
    for extra in ("", *EXTRAS)
    if extra != REDEPLOY
}


def graph_of(mechanism: str, extra: str) -> EngineGraph:
    """Return the graph of one call, for a client that resends."""
    extras = frozenset({extra} if extra else ())
    cell = Cell(mechanism, "resends", "ignores keys")
    return EngineGraph(cell, wants_second=False, extras=extras)


async def draw(mechanism: str, letter: str, extra: str, steps: int, folder: Path) -> Driven:
    """Drive drawn actions on an engine of their own."""
    async with running(letter, folder) as engine:
        graph = graph_of(mechanism, extra)
        return await wander(graph, most_steps=steps, seed=SEED, begin=engine.begin)


@pytest.mark.anyio
@pytest.mark.parametrize("mechanism", [DURABLE, BY_KEY])
async def test_a_few_drawn_actions_are_what_the_engine_does(mechanism: str, tmp_path: Path) -> None:
    found = await draw(mechanism, "L", "", FEW_STEPS, tmp_path)
    assert found.differs == []
    assert found.driven > 0


@pytest.mark.anyio
@pytest.mark.parametrize("drawn", every("actions on an engine", DRAWN))
async def test_drawn_actions_are_what_the_engine_does(
    drawn: tuple[str, str, str], tmp_path: Path
) -> None:
    found = await draw(*drawn, STEPS, tmp_path)
    assert found.differs == []
    assert found.driven > 0


@pytest.mark.anyio
@pytest.mark.parametrize("shown", every("counterexamples on an engine", SHOWN))
async def test_counterexample_shows_the_same_on_the_engine(
    shown: tuple[str, str], tmp_path: Path
) -> None:
    graph = graph_of(*shown)
    found = check(graph.cell, wants_second=False, most=NEAREST, extras=graph.extras)
    async with running("L", tmp_path) as engine:
        for name, actions in found.counterexamples.items():
            reached = await follow(graph, actions, begin=engine.begin)
            assert name in anomalies(reached)
