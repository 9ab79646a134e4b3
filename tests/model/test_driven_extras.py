"""From the model to the code: what else may happen, on the real servers.

The guard has one rule of forgetting, "forgets when too old": it refuses what it has forgotten. No
server of this package has one of the three other rules, so nothing of theirs is driven.
"""

import pytest

from model.check import MOST_WITH_EXTRAS, RECORDS, Cell, check, with_extras
from model.extras import (
    BACK,
    DIES,
    EARLY,
    EXTRAS,
    FAIL,
    FORGETTING,
    OLD,
    OTHER_USER,
    REDEPLOY,
    SAME_USER,
    WHEN_OLD,
    Extras,
)
from model.reading import anomalies
from tests.evidence import every
from tests.model.covering import drive, follow
from tests.model.driving import LETTERS
from tests.model.test_driven import MODEL_CODE
from tests.model.test_kept import AGAIN
from tests.model.walking import Graph

IGNORES = "ignores keys"
OTHER_RULES = frozenset(FORGETTING) - {WHEN_OLD}
"""The rules of forgetting that no server of this package has."""

Task = tuple[Cell, Extras]
TASKS: dict[str, Task] = {
    " / ".join((*cell, *extras)): (cell, extras)
    for cell, extras in with_extras()
    if cell.mechanism in LETTERS and not extras & OTHER_RULES
    if " / ".join((*cell, *extras)) in AGAIN
}
"""The searches whose counterexamples are driven: those that are made again."""
QUICK = [name for name in TASKS if name.startswith("guard, named by key") and DIES in name]

NEAREST = 4000
"""The number of states from which transitions are drawn."""
SAMPLE = 1000
SEED = 50
FEW = 15
"""The number of transitions that are driven each time."""

PAIRS = {
    f"{mechanism} / {extra}": (mechanism, extra)
    for mechanism in LETTERS
    for extra in (*EXTRAS, WHEN_OLD)
    if extra in EXTRAS or mechanism in RECORDS
}
OFTEN = [name for name in PAIRS if name.startswith("guard (F)") and REDEPLOY not in name]
"""The pairs that `make evidence` drives; `python -m tests.model` drives every one."""
ONE_EACH = {
    OLD: "guard, named by key (J)",
    REDEPLOY: "frame in memory (H)",
    FAIL: "guard (F)",
    BACK: "guard (F)",
    EARLY: "nothing kept (E)",
    SAME_USER: "guard, named by argument (J)",
    OTHER_USER: "guard, named by key (J)",
    DIES: "nothing kept (J)",
    WHEN_OLD: "guard (F)",
}
"""A mechanism with each extra, of which a few transitions are driven each time."""


def graph_of(mechanism: str, extra: str) -> Graph:
    """Return the graph of one call, for a client that resends."""
    cell = Cell(mechanism, "resends", IGNORES)
    return Graph(cell, wants_second=False, extras=frozenset({extra}))


@pytest.mark.anyio
@pytest.mark.parametrize("task", every("counterexamples with an extra", TASKS, also=QUICK))
async def test_counterexample_with_an_extra_shows_the_same_on_the_real_servers(task: Task) -> None:
    cell, extras = task
    found = check(cell, most=MOST_WITH_EXTRAS, extras=extras)
    graph = Graph(cell, extras=extras)
    assert found.counterexamples or cell.mechanism.startswith("guard, named")
    for name, actions in found.counterexamples.items():
        reached = await follow(graph, actions)
        assert name in anomalies(reached)


@pytest.mark.anyio
@pytest.mark.parametrize("extra", ONE_EACH)
async def test_few_transitions_with_an_extra_are_what_the_servers_do(extra: str) -> None:
    graph = graph_of(ONE_EACH[extra], extra)
    found = await drive(graph, nearest=1000, most=FEW, seed=SEED)
    assert found.differs == ""
    assert len(found.done) >= FEW


@pytest.mark.anyio
@pytest.mark.parametrize(
    "pair", every("transitions with an extra", {name: PAIRS[name] for name in OFTEN})
)
async def test_sample_of_transitions_with_an_extra_is_what_the_servers_do(
    pair: tuple[str, str],
) -> None:
    found = await drive(graph_of(*pair), nearest=NEAREST, most=SAMPLE, seed=SEED)
    assert found.differs == ""
    assert len(found.done) >= min(SAMPLE, found.transitions)
    total = f"{found.transitions:,}" if found.is_whole else f"more than {found.transitions:,}"
    is_all = len(found.done) == found.transitions
    cell = f"all {total}" if is_all else f"{len(found.done):,} of {total}"
    (row,) = (line for line in MODEL_CODE.splitlines() if line.startswith(f"| {pair[1]} |"))
    assert cell in row
