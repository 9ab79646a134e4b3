"""Tests of the model: its search agrees with another checker, and its quoted verdicts hold."""

from collections.abc import Callable
from typing import Any

import pytest

from model.actions import Step
from model.check import MOST, Cell, all_steps, check, steps_of
from model.reading import NAMES, anomalies
from model.search import search
from model.world import World

IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"
REFUSES = "refuses a second effect about the same thing"


def counterexamples(mechanism: str, policy: str, destination: str) -> dict[str, list[str]]:
    """Return the shortest counterexamples of a cell whose state space closes."""
    found = check(Cell(mechanism, policy, destination))
    assert found.closed
    return found.in_words


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


def test_nothing_kept_charges_twice_if_one_round_is_delivered_twice() -> None:
    assert "charged twice" in counterexamples("nothing kept (F)", "stops", IGNORES)


@pytest.mark.parametrize("destination", [IGNORES, HONOURS, REFUSES])
@pytest.mark.parametrize("policy", ["stops", "resends"])
def test_guard_never_charges_twice_if_the_client_does_not_call_again(
    policy: str, destination: str
) -> None:
    assert "charged twice" not in counterexamples("guard (F)", policy, destination)


def test_guard_charges_twice_if_the_client_calls_again() -> None:
    assert "charged twice" in counterexamples("guard (F)", "calls again", IGNORES)


def test_named_guard_never_charges_twice_if_the_client_calls_again() -> None:
    found = counterexamples("guard, named by key (J)", "calls again", IGNORES)
    assert "charged twice" not in found


def test_argument_swallows_a_second_wanted_call_and_a_key_does_not() -> None:
    by_argument = counterexamples("guard, named by argument (J)", "stops", IGNORES)
    by_key = counterexamples("guard, named by key (J)", "stops", IGNORES)
    assert "second wanted call swallowed" in by_argument
    assert "second wanted call swallowed" not in by_key


def test_another_checker_finds_the_same_states_and_shortest_counterexample() -> None:
    other = pytest.importorskip("minicheck")
    cell = Cell("guard (F)", "calls again", IGNORES)
    mine = check(cell)
    steps = steps_of(cell)

    def lacks(name: str) -> Callable[[dict[str, Any]], bool]:
        return lambda fields: name not in anomalies(World(**fields))

    def transitions(state: World) -> list[Step]:
        return list(steps(World(*state)))

    protocol = other.Protocol(
        name="guard",
        candidate=False,
        fields=World._fields,
        initial=World(),
        transitions=transitions,
        invariants={name: lacks(name) for name in NAMES if name != "never ends"},
    )
    theirs = other.check_safety(protocol)
    for name, verdict in theirs["properties"].items():
        assert verdict["holds"] == (name not in mine.counterexamples)
        if not verdict["holds"]:
            assert len(verdict["counterexample"]) == len(mine.counterexamples[name]) + 1
    assert theirs["reachable_states"] == mine.states


def test_unnamed_durable_call_is_logged_twice_if_its_first_request_is_delivered_twice() -> None:
    found = counterexamples("durable record (L, K)", "resends", HONOURS)
    assert "logged twice" in found
    assert "charged twice" not in found


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


def test_guard_with_a_key_runs_a_broken_round_again_where_the_destination_honours_keys() -> None:
    found = counterexamples("guard, named by key (J)", "resends", HONOURS)
    assert found == {}
