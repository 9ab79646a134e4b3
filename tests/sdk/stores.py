"""Databases that guards share, and changes to them that bypass the stores."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mrtr_options.sdk.single_use import SqliteStore
from mrtr_options.sdk.single_use.reservations import Claim, Store
from mrtr_options.sdk.single_use.sql import SqlStore
from scoreboard.postgres import fresh


@dataclass
class Database:
    """A database that instances share; an instance opens a store of its own on it.

    Attributes:
        make: Makes a store on it, with these bounds.
        connect: Opens a connection of the driver.
    """

    make: Callable[..., Any]
    connect: Callable[[], Any]

    def open(self, **bounds: Any) -> AbstractContextManager[SqlStore]:
        """Open a store on it; see `SqliteStore`."""
        return closing(self.make(**bounds))

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements in one transaction, and return the rows of the last one."""
        with closing(self.connect()) as db:
            cursors: list[Any] = [db.execute(statement) for statement in statements]
            rows: list[tuple[Any, ...]] = cursors[-1].fetchall() if cursors[-1].description else []
            db.commit()
        return rows

    def rounds(self) -> list[tuple[str, bool]]:
        """List the rounds, oldest first: the number, and whether an outcome is recorded."""
        rows = self.execute("SELECT number, outcome IS NOT NULL FROM guard_rounds ORDER BY seq")
        return [(number, bool(recorded)) for number, recorded in rows]

    def grow_older(self, seconds: float) -> None:
        """Set all recorded times back."""
        self.execute(
            f"UPDATE guard_rounds SET made = made - {seconds}, keeps = keeps - {seconds},"
            f" ends = ends - {seconds}",
            f"UPDATE guard_horizon SET until = until - {seconds}, started = started - {seconds}",
        )


def sqlite(path: Path) -> Database:
    """Use a SQLite file."""
    return Database(partial(SqliteStore, path), partial(sqlite3.connect, path))


def postgres(server: str) -> Database:
    """Make a database of its own on a PostgreSQL server."""
    import psycopg

    from mrtr_options.sdk.single_use.postgres import PostgresStore

    url = fresh(server)
    return Database(partial(PostgresStore, url), partial(psycopg.connect, url))


async def claim(store: Store, number: str, **more: Any) -> Claim:
    """Make a delivery's claim to a round whose number is handed out now."""
    stamp = await store.stamp()
    made = Claim(number, "", begins=stamp.at, lease_seconds=60, mark=stamp.mark)
    return replace(made, **more)


def statements_of(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which a store's statements will be added, but for those that lock."""
    statements: list[str] = []
    execute = store._execute

    def listed(statement: str, values: Any) -> Any:
        statements.extend([] if "pg_advisory" in statement else [statement])
        return execute(statement, values)

    monkeypatch.setattr(store, "_execute", listed)
    return statements
