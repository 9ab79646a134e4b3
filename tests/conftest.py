"""The setup of a test session: the event loop, `--proposal FILE`, `--evidence`.

Imports little, since the first process of a session runs no test. Shared fixtures are in
`fixtures`.
"""

import fcntl
import gc
import os
from collections.abc import Generator
from importlib import import_module
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
    """Choose the lane; refuse a proposal that cannot be loaded, in one line."""
    evidence.register(config)
    for name in ("COLUMNS", "MRTR_STATE_KEYS", "MRTR_LEDGER"):  # set by whoever runs the tests
        os.environ.pop(name, None)
    proposal: Path | None = config.getoption("--proposal")
    if proposal is None:
        return
    from mrtr_options.tool.catalogue import CannotLoad, option_at, require_file

    try:
        require_file(proposal)
        option_at(proposal)
    except CannotLoad as error:
        raise pytest.UsageError(str(error)) from error


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Load the fixtures with the first module that may use one: the invariant uses none."""
    if isinstance(collector, pytest.Module) and collector.path.name != "test_invariant.py":
        collector.config.pluginmanager.import_plugin("tests.fixtures")


def pytest_runtest_setup() -> None:
    """Begin each test outside of any request; a test of code without a server may leave one."""
    from mrtr_options.sdk.current_request import current_request

    current_request.set(None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the first of several processes collect alone if the tests are not compiled yet.

    The others wait, and read what it compiled. Otherwise each would compile all of it.
    """
    here = Path(__file__)
    if any(here.parent.glob("__pycache__/test_*-pytest-*.pyc")):  # collected after all folders
        return (yield)
    with here.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but leave the imported modules out."""
    import_module("hypothesis")  # its plugin would later, and it takes what is frozen for garbage
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the proposal if there is none; mark what is slow.

    That are tests that search the model, or need a server of others.
    """
    items[:] = [item for item in items if not _lacks_a_proposal(item)]
    slow = {"postgres", "temporal"}
    for item in items:
        needs = slow & {*item.fixturenames} if isinstance(item, pytest.Function) else ()
        if needs or item.path.parent.name == "model":
            item.add_marker(pytest.mark.slow)


def _lacks_a_proposal(item: pytest.Item) -> bool:
    takes_one = isinstance(item, pytest.Function) and "proposal" in item.fixturenames
    return takes_one and item.config.getoption("--proposal") is None
