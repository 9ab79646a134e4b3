"""One run of the whole matrix in memory, for every test that holds something against it."""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.review import matrix
from mrtr_options.review.columns import all_columns
from mrtr_options.review.observations import Observation


@pytest.fixture(scope="session")
def observations() -> list[Observation]:
    """Every option, alone and wrapped, under every schedule, on one instance and on two."""
    return anyio.run(matrix.run, matrix.cells(all_columns()))
