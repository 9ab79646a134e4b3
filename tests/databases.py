"""Which databases a test is run on, where that is not both in every session.

Knows the fixture `url` of `conftest`.
"""

from __future__ import annotations

import pytest

either_database = pytest.mark.parametrize(
    "url",
    ["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.whole])],
    indirect=True,
)
"""What is under test stands above the database: SQLite does; `pytest -m whole` has PostgreSQL too."""
