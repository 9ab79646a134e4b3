"""Tests of the kept verdicts: they are those of the model now, and the guard's picture is, too."""

import json
from typing import Any

import pytest

from model.actions import Action, Crashes
from model.check import Cell, cells
from model.digest import GraphDigest, of_code
from model.drawing import PLACES, PLAIN, REPEATING, edges_of, node_of
from model.kept import tasks, verdict_of
from model.reading import NAMES
from model.world import World
from mrtr_options.review.explore.never import KEPT
from tests.evidence import every

STALE = "stale: run python -m documents --model"
FEW = 1500
"""The most states of a search that `make test` makes again."""

SAVED: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
TASKS = {task.name: task for task in tasks()}


def name_of(search: dict[str, Any]) -> str:
    """Return the name of a kept search."""
    words = ("mechanism", "client", "destination", "extra")
    return " / ".join(search[word] for word in words if search[word])


SEARCHES = {name_of(search): search for search in SAVED["searches"]}
MOST = 20_000
"""The most states of a search that `make evidence` makes again; `make model` makes every one."""

AGAIN = {name: name for name, search in SEARCHES.items() if search["states"] <= MOST}
SMALL = [name for name, search in SEARCHES.items() if search["states"] <= FEW]


def test_kept_verdicts_are_of_this_code_and_of_every_cell() -> None:
    assert SAVED["code"] == of_code(), STALE
    assert SAVED["names"] == [*NAMES], STALE
    assert [*SEARCHES] == [*TASKS], STALE
    assert {" / ".join(cell) for cell in cells()} <= {*SEARCHES}, STALE


@pytest.mark.parametrize("name", every("searches of the model", AGAIN, SMALL))
def test_kept_verdict_is_what_a_search_finds_now(name: str) -> None:
    assert json.loads(json.dumps(verdict_of(TASKS[name]).as_json())) == SEARCHES[name], STALE


def test_digest_changes_with_a_state_and_with_an_action() -> None:
    def digest(world: World, does: Action) -> str:
        made = GraphDigest()
        assert made(world, does) is False
        return made.hex

    first = digest(World(), Crashes(0))
    assert digest(World(), Crashes(0)) == first
    assert digest(World(), Crashes(1)) != first
    assert digest(World(store=frozenset({(1, 1, "done")})), Crashes(0)) != first


def test_digest_is_the_same_in_whatever_order_states_are_found() -> None:
    steps = [(World(), Crashes(0)), (World(noticed=frozenset({"b", "a"})), Crashes(1))]
    digests: set[str] = set()
    for order in (steps, steps[::-1]):
        made = GraphDigest()
        for world, does in order:
            made(world, does)
        digests.add(made.hex)
    assert len(digests) == 1


def test_picture_of_the_guard_has_a_place_for_each_state_of_its_record() -> None:
    edges = edges_of(PLAIN)
    nodes = {edge.before for edge in edges} | {edge.after for edge in edges}
    assert nodes == set(PLACES)
    assert node_of(World()) in nodes


def test_only_the_guard_with_a_key_leaves_an_unknown_outcome() -> None:
    unknown = [node for node in PLACES if node.record == "begun" and not node.at_work]

    def leaving(cell: Cell) -> set[str]:
        edges = edges_of(cell)
        left = [edge for edge in edges if edge.before in unknown and edge.after not in unknown]
        return {edge.action for edge in left}

    assert "request" not in leaving(PLAIN)
    assert "request" in leaving(REPEATING)


@pytest.mark.parametrize("name", ["key", "argument"])
@pytest.mark.parametrize("client", ["stops", "calls again", "resends"])
def test_named_guard_never_charges_twice_while_versions_are_replaced(
    name: str, client: str
) -> None:
    mechanism = f"guard, named by {name} (J)"
    search = SEARCHES[f"{mechanism} / {client} / ignores keys / redeploys"]
    assert search["closed"]
    assert "charged twice" not in search["anomalies"]
