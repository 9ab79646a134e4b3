"""A hundred first requests under one key, from three processes: one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrtr_options.bench import postgres as real_postgres
from mrtr_options.cost.keys import REQUESTS, crowd, fill

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_first_requests_under_one_key_from_several_processes_are_one_call(
    request: pytest.FixtureRequest, shared_folder: Path, database: str
) -> None:
    where: Path | str = shared_folder / "rounds.sqlite"
    if database == "postgres":
        where = real_postgres.database(request.getfixturevalue("postgres"))
    came = crowd(where, shared_folder)
    assert (came.requests, came.calls, came.replies) == (REQUESTS, 1, 1)


def test_a_key_takes_a_bounded_number_of_bytes(shared_folder: Path) -> None:
    filled = fill(shared_folder / "rounds.sqlite", 2000)
    assert filled.response < filled.bytes < filled.response + 600
