"""How a test session runs: the event loop, `--proposal FILE`, `--evidence`.

Imports little, since the first process of a session runs no test: what tests share is in
`fixtures`.
"""

import gc
import os
from pathlib import Path

import pytest

from tests import evidence

# Until all tests are collected: passes over what is imported find nothing, and are an eighth of it.
gc.disable()


@pytest.fixture
def anyio_backend() -> str:
    """asyncio, unless a folder or a module says otherwise."""
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--proposal FILE` and `--evidence`."""
    parser.addoption(
        "--evidence",
        action="store_true",
        help="play what `make evidence` plays, in place of the claims",
    )
    parser.addoption(
        "--proposal",
        type=Path,
        metavar="FILE",
        help="an option file of your own, to be held against the invariant like the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the lane; where tests run, have the fixtures and what they import."""
    evidence.register(config)
    for name in ("COLUMNS", "MRTR_STATE_KEYS", "MRTR_LEDGER"):  # of whoever runs the tests
        os.environ.pop(name, None)
    if not config.getoption("tx", None) or config.getoption("--proposal"):
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but look no more at what was imported."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the runs of the matrix, or a server of a database or an engine, as slow."""
    slow = {"played", "postgres", "temporal"}
    for item in items:
        if isinstance(item, pytest.Function) and slow & {*item.fixturenames}:
            item.add_marker(pytest.mark.slow)
