"""Tests of the model: its search agrees with another checker, and its quoted verdicts hold."""

import pytest

from model.check import MOST, Cell, all_steps, check
from model.reading import anomalies
from model.search import search
from model.world import World

IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"


def test_search_finds_the_shortest_way_and_the_state_that_cannot_end() -> None:
    graph = {0: [1, 2], 1: [3], 2: [4], 3: [4], 4: [], 5: []}
    found = search(
        0,
        lambda state: [(f"to {each}", each) for each in graph[state]],
        lambda state: ["four"] if state == 4 else [],
        lambda state: state == 3,
        100,
    )
    assert found.states == 5
    assert found.transitions == 5
    assert found.depth == 2
    assert found.closed is True
    assert found.counterexamples["four"] == ["to 2", "to 4"]
    assert found.counterexamples["never ends"] == ["to 2"]


def test_search_names_a_bound_that_ended_it() -> None:
    found = search(0, lambda state: [("on", state + 1)], lambda _: [], lambda _: False, 10)
    assert not found.closed
    assert "never ends" not in found.counterexamples


@pytest.mark.parametrize("mechanism", ["nothing kept (J)", "guard (F)"])
def test_leaving_out_what_nothing_reads_changes_no_verdict(mechanism: str) -> None:
    cell = Cell(mechanism, "resends", HONOURS)
    whole = search(
        World(),
        lambda world: all_steps(world, cell, wants_second=True),
        anomalies,
        lambda world: bool(world.client.told),
        MOST,
    )
    reduced = check(cell)
    assert reduced.states < whole.states
    lengths = {name: len(how) for name, how in reduced.counterexamples.items()}
    assert lengths == {name: len(how) for name, how in whole.counterexamples.items()}
