"""From the model to the code: counterexamples show the same anomaly on the real servers."""

import pytest

from model.check import Cell, cells
from mrtr_options.review.judge.anomalies import anomalies_in
from tests.evidence import every
from tests.model.playing import DURABLE, SUBJECTS, cannot_be_made, play, search

REFUSES = "refuses a second effect about the same thing"
"""A destination that is not played yet."""

PLAYED = [cell for cell in cells() if cell.mechanism in SUBJECTS and cell.destination != REFUSES]

LARGE = {" / ".join(cell): cell for cell in PLAYED if cell.mechanism == DURABLE}
"""The cells that `make evidence` searches and plays."""

QUICK = [pytest.param(cell, id=" / ".join(cell)) for cell in PLAYED if cell.mechanism != DURABLE]


@pytest.mark.anyio
@pytest.mark.parametrize("cell", [*QUICK, *every("counterexamples of the model", LARGE)])
async def test_counterexample_shows_the_same_anomaly_on_the_real_server(cell: Cell) -> None:
    found = search(cell, cannot_be_made)
    for name, actions in found.counterexamples.items():
        history = await play(cell, actions)
        assert name in anomalies_in(history), (name, *actions)
