"""The fixtures of the stand-ins' tests, which run on both event loops."""

from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from dbos import DBOSConfig

from mrtr_options.sdk import current_request
from mrtr_options.sdk.durable import embedded
from mrtr_options.sdk.single_use.reservations import Store
from tests.fixtures import EITHER_DATABASE
from tests.sdk.stores import Database, postgres, sqlite


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Choose asyncio and trio, one after the other."""
    return request.param


@pytest.fixture(autouse=True)
def _engine_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DBOS look every 20 ms whether it has to end; by default it sleeps for a second."""
    config = partial(DBOSConfig, notification_listener_polling_interval_sec=0.02)
    monkeypatch.setattr(embedded, "DBOSConfig", config)


@pytest.fixture(autouse=True)
def _protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat requests that come from no server as protected."""
    monkeypatch.setattr(current_request, "_unprotected_request", current_request.Request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a SQLite file that instances can share."""
    return tmp_path / "rounds.sqlite"


@pytest.fixture(params=EITHER_DATABASE)
def database(request: pytest.FixtureRequest, path: Path) -> Database:
    """Make an empty database that instances can share."""
    return (
        sqlite(path) if request.param == "sqlite" else postgres(request.getfixturevalue("postgres"))
    )


@pytest.fixture
def store(database: Database) -> Generator[Store]:
    """Open a store on the empty database."""
    with database.open() as store:
        yield store
