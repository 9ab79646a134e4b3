"""Which databases a test is run on, where that is not both in every session, and one that is away.

Knows the fixture `url` of `fixtures`.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

either_database = pytest.mark.parametrize(
    "url",
    ["sqlite", pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.whole])],
    indirect=True,
)
"""What is under test stands above the database: SQLite does; `pytest -m whole` has PostgreSQL too."""


def away(*arguments: Any) -> Any:
    """Use a database that is away: what stands in for a function that uses one."""
    raise OperationalError("", {}, OSError("the database is away"))
