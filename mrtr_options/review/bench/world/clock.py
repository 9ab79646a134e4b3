"""The time of day in an instance, so that a run can let it pass: Python's clock and SQLite's.

time-machine moves what `time`, `datetime` and `uuid` read, in C, so it also moves a function that
was imported by name or bound as a default. SQLite asks the system by itself, so the functions
through which SQL asks it are replaced. Python's monotonic clock moves along, so what waits by it in
an event loop is due; threads wait by the system's.

Knows only `errors`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from mrtr_options.errors import UsageError

try:
    import time_machine
except ModuleNotFoundError as error:
    raise UsageError("the review needs time-machine: pip install 'mrtr-options[review]'") from error


class _Plain(sqlite3.Connection):
    def __del__(self) -> None:  # or else Python 3.13 warns
        self.close()


_ARGUMENTS = {
    "date": 1,
    "time": 1,
    "datetime": 1,
    "julianday": 1,
    "unixepoch": 1,
    "strftime": 2,
    "timediff": 0,
}
"""SQLite's functions of the time. With fewer arguments than these, the last one is `now`."""

_CURRENT = {"current_date": "date", "current_time": "time", "current_timestamp": "datetime"}
"""SQL's words for the time, and the functions that return the same."""


@contextmanager
def moved() -> Generator[Callable[[float], None]]:
    """Yield a function that lets seconds pass by the time of day that Python reads in the block."""
    with time_machine.travel(timedelta()) as clock:
        time.time()  # the clock ticks from its first reading on
        yield clock.shift


def start(ahead: float) -> Callable[[float], None]:
    """Let the clock of this process run `ahead` seconds ahead.

    Returns:
        A function that lets more seconds pass.
    """
    clock = time_machine.travel(timedelta(seconds=ahead)).start()
    time.time()  # the clock ticks from its first reading on
    monotonic = time.monotonic
    monotonic_ns = time.monotonic_ns
    passed = ahead

    def wait(seconds: float) -> None:
        nonlocal passed
        clock.shift(seconds)
        passed += seconds

    time.monotonic = lambda: monotonic() + passed
    time.monotonic_ns = lambda: monotonic_ns() + int(passed * 1e9)
    return wait


def move_sqlite(connection: sqlite3.Connection) -> None:
    """Have a connection read the time that Python reads."""
    plain = _Plain(":memory:", check_same_thread=False)

    def reading(name: str) -> Callable[..., Any]:
        def read(*values: Any) -> Any:
            now = datetime.now(UTC).isoformat(" ", "milliseconds")
            missing = _ARGUMENTS[name] - len(values)
            given: list[Any] = [*values]
            given += ["now"] * missing
            given = [
                now if isinstance(each, str) and each.lower() == "now" else each for each in given
            ]
            marks = ", ".join("?" * len(given))
            return plain.execute(f"SELECT {name}({marks})", given).fetchone()[0]

        return read

    # The functions are deterministic, as SQLite's own are: one statement reads the clock once, and
    # an index may be on a date.
    for name in _ARGUMENTS:
        connection.create_function(name, -1, reading(name), deterministic=True)
    for word, name in _CURRENT.items():
        connection.create_function(word, 0, reading(name), deterministic=True)
