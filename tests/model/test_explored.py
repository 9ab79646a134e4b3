"""From the code to the model: both find the same anomalies, for the faults that the model has."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.check import Cell
from mrtr_options.review.bench.faults import EXPLORED as EXPLORED_KINDS
from mrtr_options.review.bench.faults import parse
from tests.evidence import every
from tests.model import subjects
from tests.model.histories import SUBJECTS

EXPLORED = Path(__file__).parents[2] / "docs" / "data" / "explored.json"
FAULTS = {kind.name for kind in EXPLORED_KINDS.values() if kind.model == ""} - {"again"}
"""The faults that the model has without an extra, in a call that the user wants once."""
NOT_MODELLED = {"two responses to one request"}
GIVES_UP = {"charged, told of an error", "call lost"}
"""Anomalies of a client that gives up. The model's client does so earlier than the bench's."""
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
    if row["subject"] in subjects.SUBJECTS.values()
}
LARGE = {name: row for name, row in PLAYED.items() if row["subject"] == "L"}
"""The rows whose cells `make evidence` searches."""

QUICK = [pytest.param(row, id=name) for name, row in PLAYED.items() if name not in LARGE]


@pytest.mark.parametrize("row", [*QUICK, *every("explored anomalies in the model", LARGE)])
def test_model_finds_each_anomaly_that_explored_faults_show_and_no_other(
    row: dict[str, Any],
) -> None:
    found = subjects.search(Cell(MECHANISM_OF[row["subject"]], row["policy"], "ignores keys"))
    more = set(found.counterexamples) - shown(row)
    assert shown(row) <= set(found.counterexamples)
    assert more <= (GIVES_UP if row["policy"] == "calls again" else set())
