"""From the model to the code: what else may happen, on the real servers.

The server of this package has one rule of forgetting, "forgets when too old": the guard refuses
what it has forgotten. The three other rules are of no server here, so no path of theirs is driven.
"""

import pytest

from model.anomalies import anomalies
from model.check import MOST_WITH_EXTRAS, Cell, check, with_extras
from model.extras import FORGETTING, WHEN_OLD, Extras
from tests.evidence import every
from tests.model.covering import follow
from tests.model.driving import LETTERS
from tests.model.walking import Graph

OTHER_RULES = frozenset(FORGETTING) - {WHEN_OLD}
"""The rules of forgetting that no server of this package has."""

Task = tuple[Cell, Extras]
TASKS: dict[str, Task] = {
    " / ".join((*cell, *extras)): (cell, extras)
    for cell, extras in with_extras()
    if cell.mechanism in LETTERS and not extras & OTHER_RULES
}


@pytest.mark.anyio
@pytest.mark.parametrize("task", every("counterexamples with an extra", TASKS))
async def test_counterexample_with_an_extra_shows_the_same_on_the_real_servers(task: Task) -> None:
    cell, extras = task
    found = check(cell, most=MOST_WITH_EXTRAS, extras=extras)
    graph = Graph(cell, extras=extras)
    for name, actions in found.counterexamples.items():
        reached = await follow(graph, actions)
        assert name == "stuck call" or name in anomalies(reached)
