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


@pytest.hookimpl(tryfirst=True)  # before the marks are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests that share that run done by one process, where several share the work."""
    for item in items:
        if isinstance(item, pytest.Function) and "observations" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("matrix"))
