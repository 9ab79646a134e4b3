"""What goes wrong under a running fleet: its database, its clocks, its processes, and what it is sent.

A disaster is a name, a sentence, and a block: it lasts as long as the block does. Everything works
without privileges. A file is locked and full; a server is down, cut off, read-only and slow.

Knows the fleet and the two databases; of options only that they serve the weather tool.
"""

from __future__ import annotations

import resource
import signal
import socket
import sqlite3
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio
import anyio.to_thread

from mrtr_options.bench import temporal
from mrtr_options.bench.deployments.processes import Worker
from mrtr_options.sdk.serving import listen
from scoreboard import postgres
from tests.chaos.fleet import Fleet

Manner = Literal["plain", "fatal", "oversized"]
"""How a call is made: as it should be; for a place whose bill kills (see `processes`); or with answers
and states that are too long before those that fit."""

STEP_SECONDS = 0.5
"""How often a clock that steps does."""


# --- databases ----------------------------------------------------------------------------------


class SqliteDatabase:
    """The SQLite file that a fleet shares.

    Args:
        file: The file.
    """

    kind = "sqlite"

    def __init__(self, file: Path) -> None:
        self._file = file

    def _connected(self) -> closing[sqlite3.Connection]:
        db = sqlite3.connect(self._file, timeout=30, isolation_level=None, check_same_thread=False)
        return closing(db)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Another program holds the file's write lock."""
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def full(self, workers: list[Worker]) -> Generator[None]:
        """No process can make a file of this size or larger longer.

        The log ahead of the file is made long, and a reader keeps it from being started over: what a
        process commits then goes beyond the limit. The ledger, a shorter file, can still be written.
        """
        with self._connected() as reader, self._connected() as db:
            reader.execute("PRAGMA journal_mode=WAL")  # where nothing has used the file yet
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchall()
            db.execute("CREATE TABLE IF NOT EXISTS ballast (bytes BLOB)")
            db.execute("INSERT INTO ballast VALUES (zeroblob(?))", (_BALLAST_BYTES,))
            try:
                _limit(workers, _BALLAST_BYTES)
                yield
            finally:
                _limit(workers, resource.RLIM_INFINITY)
                reader.execute("ROLLBACK")
                db.execute("DROP TABLE ballast")


_BALLAST_BYTES = 8 * 1024 * 1024


def _limit(workers: list[Worker], size: int) -> None:
    """Bound the size of the files that processes write."""
    for worker in workers:
        with suppress(ProcessLookupError, ValueError):  # it has ended
            pid = worker.process.pid
            assert pid is not None
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


class Proxy:
    """Passes bytes between a port and a socket, or holds them up.

    In threads, so that it adds nothing to what the event loop of the bench does.

    Args:
        target: The socket, or a port of this machine.
    """

    def __init__(self, target: Path | int) -> None:
        self._target = target
        self._may_pass = threading.Event()
        self._may_pass.set()
        self.port = 0

    @contextmanager
    def running(self) -> Generator[Proxy]:
        """Listen for the length of the block."""
        with listen(0) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=[listener], daemon=True).start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold up what is sent, in both directions; it arrives after the block."""
        self._may_pass.clear()
        try:
            yield
        finally:
            self._may_pass.set()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._pass_on, args=[client], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        is_port = isinstance(self._target, int)
        family = socket.AF_INET if is_port else socket.AF_UNIX
        with client, socket.socket(family) as server, suppress(OSError):
            server.connect(("127.0.0.1", self._target) if is_port else str(self._target))
            back = threading.Thread(target=self._copy, args=[server, client], daemon=True)
            back.start()
            self._copy(client, server)
            back.join()

    def _copy(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._may_pass.wait()
                to.sendall(data)
        self._may_pass.wait()
        for end in source, to:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class PostgresDatabase:
    """The PostgreSQL database that a fleet shares, which it reaches through a proxy.

    Args:
        url: Reaches it directly.
        proxy: Running.
    """

    kind = "postgres"

    def __init__(self, url: str, proxy: Proxy) -> None:
        self._direct = url
        self.proxy = proxy

    @property
    def url(self) -> str:
        """What the fleet is given."""
        name = self._direct.partition("?")[0].rpartition("/")[2]
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{name}"

    def _run(self, *statements: str) -> None:
        import psycopg

        writable = "-c default_transaction_read_only=off"
        connected: Any = psycopg.connect(self._direct, autocommit=True, options=writable)
        with connected as db:
            for statement in statements:
                db.execute(statement)

    def stopped(self) -> AbstractContextManager[None]:
        """The server is down."""
        return postgres.stopped(self._direct)

    def cut(self) -> None:
        """End every session of the fleet's."""
        self._run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

    @contextmanager
    def read_only(self) -> Generator[None]:
        """Nothing can be written, as in a failover."""
        setting = "default_transaction_read_only"
        self._run(f"ALTER SYSTEM SET {setting} = on", "SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self._run(f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()")


class TemporalEngine:
    """The Temporal that a fleet shares, which it reaches through a proxy.

    Args:
        server: Runs.
        proxy: Running.
    """

    kind = "temporal"

    def __init__(self, server: temporal.Server, proxy: Proxy) -> None:
        self._server = server
        self.proxy = proxy

    @property
    def url(self) -> str:
        """What the fleet is given."""
        return f"temporal://127.0.0.1:{self.proxy.port}"

    def stopped(self) -> AbstractContextManager[None]:
        """The server is down."""
        return self._server.stopped()


# --- disasters ----------------------------------------------------------------------------------


@dataclass
class World:
    """What disasters happen to.

    Attributes:
        fleet: The server processes.
        database: What they share.
        random: Draws what a disaster leaves open.
        manners: How the next calls are made; the clients take one each, and make plain ones when it is
            empty.
    """

    fleet: Fleet
    database: SqliteDatabase | PostgresDatabase | TemporalEngine
    random: Random
    manners: list[Manner] = field(default_factory=list[Manner])

    def place(self) -> int:
        """Any process."""
        return self.random.randrange(self.fleet.size)

    def workers(self) -> list[Worker]:
        """Those that run."""
        found = (self.fleet.worker(place) for place in range(self.fleet.size))
        return [worker for worker in found if worker is not None]


_Block = Callable[[World], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Disaster:
    """Something that goes wrong.

    Attributes:
        name: Its name.
        what: One sentence.
        over: It lasts as long as this block.
        on: The databases that it can happen to.
    """

    name: str
    what: str
    over: _Block
    on: tuple[str, ...] = ("sqlite", "postgres", "temporal")


def _at_once(do: Callable[[World], Awaitable[None]]) -> _Block:
    """A disaster that is over when it has happened."""

    @asynccontextmanager
    async def over(world: World) -> AsyncGenerator[None]:
        await do(world)
        yield

    return over


def _in_thread(blocks: Callable[[World], AbstractContextManager[None]]) -> _Block:
    """A disaster whose beginning and end block."""

    @asynccontextmanager
    async def over(world: World) -> AsyncGenerator[None]:
        block = blocks(world)
        await anyio.to_thread.run_sync(block.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(block.__exit__, None, None, None)

    return over


async def _kill(world: World) -> None:
    world.fleet.signal(world.place(), signal.SIGKILL)


async def _crash_at_the_bill(world: World) -> None:
    worker = world.fleet.worker(world.place())
    if worker is not None:
        with suppress(ConnectionError):
            worker.ledger.send("crash@bill")


async def _shut_down(world: World) -> None:
    await world.fleet.shut_down(world.place())


@asynccontextmanager
async def _stop(world: World, *, then: signal.Signals) -> AsyncGenerator[None]:
    worker = world.fleet.worker(world.place())
    if worker is not None:
        worker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        if worker is not None:
            with suppress(ProcessLookupError, ValueError):
                worker.signal(then)


@asynccontextmanager
async def _shift(world: World, *, seconds: float, steps: bool = False) -> AsyncGenerator[None]:
    # The processes on one SQLite file are on one machine, which has one clock.
    together = world.database.kind == "sqlite"
    workers = world.workers() if together else world.random.sample(world.workers(), 1)

    async def turn() -> None:
        while True:
            ahead = world.random.choice((-1, 1)) * seconds
            for worker in workers:
                worker.ahead.value = ahead
            if not steps:
                return
            await anyio.sleep(STEP_SECONDS)

    async with anyio.create_task_group() as group:
        group.start_soon(turn)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            for worker in workers:
                worker.ahead.value = 0.0


async def _call(world: World, *, manner: Manner) -> None:
    world.manners.append(manner)


def _sqlite(world: World) -> SqliteDatabase:
    assert isinstance(world.database, SqliteDatabase)
    return world.database


def _server(world: World) -> PostgresDatabase | TemporalEngine:
    assert not isinstance(world.database, SqliteDatabase)
    return world.database


async def _kill_both(world: World) -> None:
    with _server(world).stopped():
        world.fleet.signal(world.place(), signal.SIGKILL)


def _postgres(world: World) -> PostgresDatabase:
    assert isinstance(world.database, PostgresDatabase)
    return world.database


async def _cut(world: World) -> None:
    await anyio.to_thread.run_sync(_postgres(world).cut)


@asynccontextmanager
async def _stall(world: World) -> AsyncGenerator[None]:
    with _server(world).proxy.held():
        yield


DISASTERS = {
    disaster.name: disaster
    for disaster in (
        Disaster("killed", "A process dies (SIGKILL).", _at_once(_kill)),
        Disaster(
            "killed-at-bill",
            "A process dies after the next bill and before anything is recorded of it.",
            _at_once(_crash_at_the_bill),
        ),
        Disaster("shut-down", "A process is ended (SIGTERM) with work in flight.", _at_once(_shut_down)),
        Disaster(
            "paused",
            "A process is paused (SIGSTOP) and goes on later.",
            partial(_stop, then=signal.SIGCONT),
        ),
        Disaster(
            "vanished",
            "A machine is gone: nothing answers, its connections to the database stay open for a while.",
            partial(_stop, then=signal.SIGKILL),
        ),
        Disaster(
            "fatal-call",
            "A call kills the process that writes its bill, each time.",
            _at_once(partial(_call, manner="fatal")),
        ),
        Disaster(
            "oversized",
            "A call brings answers and states that are too long, then those that fit.",
            _at_once(partial(_call, manner="oversized")),
        ),
        Disaster(
            "clock-off",
            "The clock of a machine is half a minute ahead or behind.",
            partial(_shift, seconds=30.0),
        ),
        Disaster(
            "clock-far-off",
            "The clock of a machine is twelve minutes ahead or behind, longer than a state lives.",
            partial(_shift, seconds=720.0),
        ),
        Disaster(
            "clock-steps",
            "The clock of a machine jumps ahead and back, again and again.",
            partial(_shift, seconds=30.0, steps=True),
        ),
        Disaster(
            "locked",
            "Another program holds the database's write lock.",
            _in_thread(lambda world: _sqlite(world).locked()),
            on=("sqlite",),
        ),
        Disaster(
            "disk-full",
            "The database's disk takes no more.",
            _in_thread(lambda world: _sqlite(world).full(world.workers())),
            on=("sqlite",),
        ),
        Disaster(
            "read-only",
            "The database takes no writes, as in a failover.",
            _in_thread(lambda world: _postgres(world).read_only()),
            on=("postgres",),
        ),
        Disaster(
            "database-down",
            "The database, or the engine, dies and is started again.",
            _in_thread(lambda world: _server(world).stopped()),
            on=("postgres", "temporal"),
        ),
        Disaster(
            "both-killed",
            "The engine and a process die at the same time.",
            _at_once(_kill_both),
            on=("temporal",),
        ),
        Disaster(
            "connections-cut", "The database ends every connection.", _at_once(_cut), on=("postgres",)
        ),
        Disaster(
            "stalled",
            "What goes to and from the database is held up.",
            _stall,
            on=("postgres", "temporal"),
        ),
    )
}
"""Every disaster, by name."""
