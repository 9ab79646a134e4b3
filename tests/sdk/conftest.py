"""The stand-ins are machinery in memory: their tests run on both event loops."""

from collections.abc import Generator
from pathlib import Path

import pytest

from mrtr_options.sdk import handlers
from mrtr_options.sdk.single_use.store import Store
from tests.sdk.stores import Database, postgres, sqlite


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Asyncio and trio, one after the other."""
    return request.param


@pytest.fixture(autouse=True)
def _protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come from no server are taken for protected ones."""
    monkeypatch.setattr(handlers, "_of_no_server", handlers.Request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A SQLite file that instances share."""
    return tmp_path / "rounds.sqlite"


@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.evidence("on PostgreSQL"))]
)
def database(request: pytest.FixtureRequest, path: Path) -> Database:
    """What instances share, with nothing in it."""
    return (
        sqlite(path) if request.param == "sqlite" else postgres(request.getfixturevalue("postgres"))
    )


@pytest.fixture
def store(database: Database) -> Generator[Store]:
    """A store with nothing in it."""
    with database.open() as store:
        yield store
