"""How a test session runs: its processes, the order of its files, the event loop, `--proposal FILE`.

Imports little, since the first process of a session runs no test: what tests share is in `fixtures`.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests import evidence
from tests.warm import FOLDER_VARIABLE, executable, python

# Until all tests are collected: passes over what is imported find nothing, and are an eighth of it.
gc.disable()


@pytest.fixture
def anyio_backend() -> str:
    """asyncio, unless a folder or a module says otherwise."""
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--proposal FILE` and `--evidence`."""
    parser.addoption(
        "--evidence", action="store_true", help="play what `make evidence` plays, in place of the claims"
    )
    parser.addoption(
        "--proposal",
        type=Path,
        metavar="FILE",
        help="an option file of your own, to be held against the invariant like the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have a place for `tests.warm`; where tests run, have the fixtures and what they import."""
    evidence.register(config)
    if FOLDER_VARIABLE not in os.environ:  # else another process of this test session has made it
        folder = os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix=f"{os.getpid()}-")
        config.add_cleanup(lambda: shutil.rmtree(folder))
    if "PYTEST_XDIST_WORKER" in os.environ:  # its servers of forks are forks, too
        multiprocessing.set_executable(executable())
    if not config.getoption("tx", None) or config.getoption("--proposal"):
        config.pluginmanager.import_plugin("tests.fixtures")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Fork the processes that run tests, like the commands that they start."""
    for spec in specs:
        spec.python = shlex.join(python())


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but look no more at what was imported."""
    gc.freeze()
    gc.enable()


LONGEST = {
    *("test_chaos.py", "test_check.py", "test_commands.py", "test_durable.py"),
    *("test_durable_engine.py", "test_notebooks.py", "test_tasks.py"),
}
"""The files that take longest; one that begins late is waited for alone."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark what needs every run of the matrix, or a PostgreSQL server, as slow; begin with long files.

    The processes of a test session take one file after the other, in this order.
    """
    for item in items:
        if isinstance(item, pytest.Function) and {"played", "postgres"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.slow)
    yield  # some are left out, by `-m` for one
    work = Counter[Path]()
    for item in items:
        work[item.path] += 50 if item.get_closest_marker("slow") else 1
        if item.path.name in LONGEST:
            work[item.path] += 10**6
    items.sort(key=lambda item: -work[item.path])
