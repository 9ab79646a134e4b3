"""Tests of SQLite's clock: it reads Python's time, and computes any other time as before."""

import sqlite3
from collections.abc import Generator
from datetime import UTC, datetime

import pytest
import time_machine

from mrtr_options.review.bench.world import clock

_OPEN: list[sqlite3.Connection] = []
NOW = datetime(2031, 5, 7, 12, 30, 15, 250_000, UTC).timestamp()


@pytest.fixture(autouse=True)
def closed() -> Generator[None]:
    """Close the connections that a test opened, or else Python 3.13 warns."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def connected() -> sqlite3.Connection:
    """Open a connection that reads the machine's time."""
    _OPEN.append(sqlite3.connect(":memory:"))
    return _OPEN[-1]


def moved() -> sqlite3.Connection:
    """Open a connection that reads the time that Python reads."""
    connection = connected()
    clock.move_sqlite(connection)
    return connection


def answer(connection: sqlite3.Connection, sql: str) -> object:
    """Return the one value that a statement gives."""
    return connection.execute(sql).fetchone()[0]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("CURRENT_TIMESTAMP", "2031-05-07 12:30:15"),
        ("current_date", "2031-05-07"),
        ("CURRENT_TIME", "12:30:15"),
        ("datetime()", "2031-05-07 12:30:15"),
        ("date('Now', 'start of month', '-1 day')", "2031-04-30"),
        ("unixepoch()", int(NOW)),
        ("strftime('%s')", str(int(NOW))),
        ("strftime('%Y-%S', 'now')", "2031-15"),
        ("round((julianday('now') - 2440587.5) * 86400, 2)", NOW),
    ],
)
def test_sqlite_reads_the_time_that_python_reads(sql: str, value: object) -> None:
    with time_machine.travel(NOW, tick=False):
        assert answer(moved(), f"SELECT {sql}") == value


@pytest.mark.parametrize(
    "sql",
    [
        "datetime(0, 'unixepoch')",
        "datetime('2026-11-23 20:00', '+90 minutes')",
        "strftime('%j is not now', '2026-11-23')",
        "date('now', 'no such modifier')",
        "date(NULL)",
        "typeof(unixepoch())",
    ],
)
def test_sqlite_says_the_same_as_before_of_any_other_time(sql: str) -> None:
    assert answer(moved(), f"SELECT {sql}") == answer(connected(), f"SELECT {sql}")
