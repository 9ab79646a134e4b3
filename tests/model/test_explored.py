"""From the code to the model: both find the same anomalies, with as many faults.

The first test compares the names of the anomalies for the faults that the model has; the others
compare the sizes of the smallest fault sets, as `smallest` counts them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from model.check import Cell
from mrtr_options.review.bench.faults import EXPLORED as EXPLORED_KINDS
from mrtr_options.review.bench.faults import parse
from tests.evidence import every
from tests.model import playing
from tests.model.histories import SUBJECTS
from tests.model.smallest import smallest

EXPLORED = Path(__file__).parents[2] / "docs" / "data" / "explored.json"
FAULTS = {kind.name for kind in EXPLORED_KINDS.values() if kind.model == ""} - {"again"}
"""The faults that the model has without an extra, in a call that the user wants once."""
NOT_MODELLED = {"divergent replies"}
GIVES_UP = {"orphan bill", "lost call"}
"""Anomalies of a client that gives up. The model's client does so earlier than the bench's."""
NOT_TRIED = {
    ("J+guard+named", "stops"): {"lost call"},
}
"""Anomalies that the model shows with fewer faults, since the explorer's `other` never overtakes.

Another call with the same argument answers first, and so the first call is refused.
"""
MECHANISM_OF = {subject: mechanism for mechanism, subject in SUBJECTS.items()}


def compared() -> list[dict[str, Any]]:
    """Return the explorations whose subject the model has, with a modern client."""
    rows: list[dict[str, Any]] = json.loads(EXPLORED.read_text())
    mine = [row for row in rows if row["subject"] in MECHANISM_OF and row["era"] == "modern"]
    return [
        row
        for row in mine
        if (row["location"], row["destination"]) == ("Springfield", "ignores keys")
    ]


def shown(row: dict[str, Any]) -> set[str]:
    """Return the anomalies of an exploration that need only faults of the model."""
    return {
        name
        for name, sets in row["witnesses"].items()
        for faults in sets
        if name not in NOT_MODELLED
        if all(fault.name in FAULTS for fault in parse(faults))
    }


PLAYED = {
    f"{row['subject']} {row['policy']}": row
    for row in compared()
    if row["subject"] in playing.SUBJECTS.values()
}
LARGE = {name: row for name, row in PLAYED.items() if row["subject"] == "L"}
"""The rows whose cells `make evidence` searches."""

QUICK = [pytest.param(row, id=name) for name, row in PLAYED.items() if name not in LARGE]


@pytest.mark.parametrize("row", [*QUICK, *every("explored anomalies in the model", LARGE)])
def test_model_finds_each_anomaly_that_explored_faults_show_and_no_other(
    row: dict[str, Any],
) -> None:
    found = playing.search(Cell(MECHANISM_OF[row["subject"]], row["policy"], "ignores keys"))
    more = set(found.counterexamples) - shown(row)
    assert shown(row) <= set(found.counterexamples)
    assert more <= (GIVES_UP if row["policy"] == "calls again" else set())


def sizes(row: dict[str, Any], most: int) -> dict[str, int]:
    """Return the size of the smallest fault set of each anomaly, if it is small enough."""
    least = {
        name: min(len(faults.split()) for faults in sets) for name, sets in row["witnesses"].items()
    }
    return {name: size for name, size in least.items() if size <= most}


def compare_sizes(row: dict[str, Any], most: int) -> None:
    """Compare the sizes of the smallest fault sets up to a number of faults."""
    cell = Cell(MECHANISM_OF[row["subject"]], row["policy"], "ignores keys")
    left_out = NOT_MODELLED | NOT_TRIED.get((row["subject"], row["policy"]), set())
    mine = {name: price for name, (price, _) in smallest(cell, most).items()}
    theirs = sizes(row, most)
    for name in left_out:
        mine.pop(name, None)
        theirs.pop(name, None)
    assert mine == theirs


@pytest.mark.parametrize("row", compared(), ids=lambda row: f"{row['subject']} {row['policy']}")
def test_model_needs_as_many_faults_as_the_explorer(row: dict[str, Any]) -> None:
    compare_sizes(row, 1)
