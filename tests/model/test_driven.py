"""From the model to the code: every transition of the model is what the real servers do.

`python -m tests.model` prints how many transitions each mechanism has, and how long they take.
"""

from itertools import product
from pathlib import Path

import pytest

from model.check import Cell
from model.destination import KINDS
from tests.evidence import every
from tests.model.covering import drive
from tests.model.walking import Graph

WHOLE = {
    # "calls again" has every transition of the other clients, and more than can be driven here of
    # the frame and of the guard without names.
    "nothing kept (E)": "calls again",
    "nothing kept (F)": "calls again",
    "nothing kept (J)": "calls again",
    "frame in memory (H)": "resends",
    "guard (F)": "resends",
    "guard, named by key (J)": "calls again",
    "guard, named by argument (J)": "calls again",
}
"""The client with which each mechanism is driven whole."""

ONE_CALL = ("frame in memory (H)",)
"""The mechanisms whose graph with a second wanted call is too large to be driven whole."""

MODEL_CODE = (Path(__file__).parents[2] / "docs" / "results" / "MODEL_CODE.md").read_text(
    encoding="utf-8"
)
"""The page with the numbers of what is driven."""

NEAREST = 1500
"""The number of states from which transitions are drawn each time."""
SAMPLE = 15
SEED = 50


def graph_of(mechanism: str, destination: str) -> Graph:
    """Return the graph that is driven whole."""
    cell = Cell(mechanism, WHOLE[mechanism], destination)
    return Graph(cell, wants_second=mechanism not in ONE_CALL)


SAMPLED = {" / ".join(each): each for each in product(WHOLE, KINDS)}
QUICK = [name for name in SAMPLED if name.endswith(KINDS[0]) or name.startswith("guard, named")]
"""Those of `make test`: each mechanism, and the guards that know what a destination absorbs."""


@pytest.mark.anyio
@pytest.mark.parametrize("sampled", every("transitions of the model", SAMPLED, QUICK))
async def test_sampled_transitions_are_what_the_servers_do(sampled: tuple[str, str]) -> None:
    graph = graph_of(*sampled)
    found = await drive(graph, nearest=NEAREST, most=SAMPLE, seed=SEED)
    assert found.differs == ""
    assert len(found.done) >= SAMPLE


@pytest.mark.anyio
@pytest.mark.evidence("transitions of the model")
@pytest.mark.parametrize("mechanism", WHOLE)
async def test_every_transition_is_what_the_servers_do(mechanism: str) -> None:
    found = await drive(graph_of(mechanism, "ignores keys"))
    assert found.differs == ""
    assert len(found.done) == found.transitions
    assert f"| {found.transitions:,} | all |" in MODEL_CODE
