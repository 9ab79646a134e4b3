"""From the code to the model: every history that the explorer makes is a path of the model.

`python -m tests.model.histories` follows those with two faults, too, and prints how many histories
each cell has, and the differences.
"""

import pytest

from model.check import Cell
from mrtr_options.review.bench.faults import Faults
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.setup import POLICIES
from tests.model.histories import SUBJECTS, Sample, follow_cell

SAMPLE = Sample(size=3, seed=50)
"""The faults with which the sampled sets begin, one at a time."""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mechanism", SUBJECTS)
def test_sampled_histories_are_paths_of_the_model(mechanism: str, policy: str) -> None:
    found = follow_cell(Cell(mechanism, policy, "ignores keys"), 1, first=SAMPLE)
    assert found.refused == []
    assert found.accepted > SAMPLE.size - 1


@pytest.mark.evidence("histories of the explorer in the model")
@pytest.mark.parametrize("mechanism", SUBJECTS)
def test_every_history_with_one_fault_is_a_path_of_the_model(mechanism: str) -> None:
    made: dict[Faults, History] = {}
    for policy in POLICIES:
        found = follow_cell(Cell(mechanism, policy, "ignores keys"), 1, made=made)
        assert found.refused == []
        assert found.accepted > 0
