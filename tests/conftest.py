"""The setup of a test session: the event loop, `--proposal FILE`, `--evidence`.

Imports little, since the first process of a session runs no test. Shared fixtures are in
`fixtures`.
"""

import gc
import os
from pathlib import Path

import pytest

from tests import evidence

# Off until all tests are collected: scanning the imported modules finds no garbage, and takes an
# eighth of the time.
gc.disable()


@pytest.fixture
def anyio_backend() -> str:
    """Choose asyncio, unless a folder or a module says otherwise."""
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
    """Choose the lane; load the fixtures in a process that runs tests."""
    evidence.register(config)
    for name in ("COLUMNS", "MRTR_STATE_KEYS", "MRTR_LEDGER"):  # set by whoever runs the tests
        os.environ.pop(name, None)
    if not config.getoption("tx", None) or config.getoption("--proposal"):
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_runtest_setup() -> None:
    """Begin each test outside of any request; a test of code without a server may leave one."""
    from mrtr_options.sdk.current_request import current_request

    current_request.set(None)


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but leave the imported modules out."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as slow that search the model, or need matrix runs or a server of others."""
    slow = {"played", "postgres", "temporal"}
    for item in items:
        needs = slow & {*item.fixturenames} if isinstance(item, pytest.Function) else ()
        if needs or item.path.parent.name == "model":
            item.add_marker(pytest.mark.slow)
