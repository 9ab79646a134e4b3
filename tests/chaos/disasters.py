"""Disasters of a running fleet: in its database, its clocks, its processes and its requests.

A disaster lasts as long as its block; a momentary one happens before the block begins. Everything
works without privileges. A file is locked and full; a server is down, cut off, read-only and slow.

Knows the fleet and the databases; of options only that they serve the weather tool.
"""

from __future__ import annotations

import inspect
import resource
import signal
import socket
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager as AsyncBlock
from contextlib import AbstractContextManager as Block
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio
import anyio.to_thread

from mrtr_options.review.bench.deployments.processes import Worker
from mrtr_options.sdk.serving import listen
from tests.chaos.fleet import Fleet

Kind = Literal["sqlite", "postgres", "temporal"]
"""The database or engine in which a fleet keeps its calls or rounds."""

Manner = Literal["plain", "fatal", "oversized"]
"""How a call is made: correctly; about a place whose bill kills the process (see `processes`); or
with answers and states that are too long, followed by ones that fit.
"""

STEP_SECONDS = 0.5
"""The interval between two steps of a clock that steps."""

_BALLAST_BYTES = 8 * 1024 * 1024


class Proxy:
    """A proxy between a port and a socket, which can hold up the bytes.

    It works in threads, so that it adds no work to the event loop of the bench. A task of anyio 4
    that is cancelled while bytes of a Unix socket arrive may raise InvalidStateError in that loop.

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
        """Listen on a port until the block ends."""
        with listen(0) as listener:
            self.port = listener.getsockname()[1]
            threading.Thread(target=self._accept, args=[listener], daemon=True).start()
            yield self
            listener.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold up the bytes in both directions until the block ends."""
        self._may_pass.clear()
        try:
            yield
        finally:
            self._may_pass.set()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # raised when the listener is closed
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


@dataclass
class World:
    """The fleet and its database, to which disasters happen.

    Attributes:
        fleet: The server processes.
        random: Draws the process, the clock and whatever else a disaster leaves open.
        kind: The database that the processes share.
        direct: The SQLite file, or the URL of the PostgreSQL database past the proxy.
        stopped: A block in which the database server is down.
        held: A block in which the traffic to the database server is held up.
        manners: The manners of the next calls. A client takes one for each call, and makes a plain
            call when the list is empty.
    """

    fleet: Fleet
    random: Random
    kind: Kind
    direct: str = ""
    stopped: Callable[[], Block[None]] = nullcontext
    held: Callable[[], Block[None]] = nullcontext
    manners: list[Manner] = field(default_factory=list[Manner])

    def place(self) -> int:
        """Draw the place of a process."""
        return self.random.randrange(self.fleet.size)

    def workers(self) -> list[Worker]:
        """Return the processes that run now."""
        return [worker for worker in self.fleet.workers if worker is not None]


@dataclass(frozen=True)
class Disaster:
    """One thing that goes wrong.

    Attributes:
        name: Its name.
        over: The block for which it lasts.
        on: The databases that it can happen to.
    """

    name: str
    over: Callable[[World], AsyncBlock[None]]
    on: tuple[Kind, ...]


DISASTERS: dict[str, Disaster] = {}
"""Every disaster, by name. A seed draws by their order, so a new one goes to the end."""


def _happens(*on: Kind, name: str = "", **how: Any) -> Callable[[Callable[..., Any]], Any]:
    """Register a generator function as a disaster, with its arguments besides the world.

    A synchronous generator may block, so it runs in a thread.
    """

    def register(happens: Callable[..., Any]) -> Any:
        block = partial(happens, **how)
        make = asynccontextmanager if inspect.isasyncgenfunction(happens) else _in_thread
        known = name or happens.__name__.replace("_", "-")
        DISASTERS[known] = Disaster(known, make(block), on or ("sqlite", "postgres", "temporal"))
        return happens

    return register


def _in_thread(happens: Callable[[World], Generator[None]]) -> Callable[[World], AsyncBlock[None]]:
    @asynccontextmanager
    async def over(world: World) -> AsyncGenerator[None]:
        block = contextmanager(happens)(world)
        await anyio.to_thread.run_sync(block.__enter__)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(block.__exit__, None, None, None)

    return over


# --- processes, calls, clocks -------------------------------------------------------------------


@_happens()
async def killed(world: World) -> AsyncGenerator[None]:
    """Kill a process (SIGKILL)."""
    world.fleet.signal(world.place(), signal.SIGKILL)
    yield


@_happens()
async def killed_at_bill(world: World) -> AsyncGenerator[None]:
    """Have a process die after its next bill, before it can record the bill."""
    worker = world.fleet.workers[world.place()]
    if worker is not None:
        with suppress(ConnectionError):
            worker.ledger.send("crash@bill")
    yield


@_happens()
async def shut_down(world: World) -> AsyncGenerator[None]:
    """End a process (SIGTERM) with work in flight."""
    await world.fleet.shut_down(world.place())
    yield


@_happens(name="vanished", then=signal.SIGKILL)
@_happens(name="paused", then=signal.SIGCONT)
async def stopped(world: World, *, then: signal.Signals) -> AsyncGenerator[None]:
    """Pause a process (SIGSTOP); let it go on later (`paused`) or kill it then (`vanished`).

    A machine that vanishes looks like this: nothing answers, and its connections to the database
    stay open for a while.
    """
    worker = world.fleet.workers[world.place()]
    if worker is not None:
        worker.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        if worker is not None:
            with suppress(ProcessLookupError, ValueError):
                worker.signal(then)


@_happens(name="oversized", manner="oversized")
@_happens(name="fatal-call", manner="fatal")
async def called(world: World, *, manner: Manner) -> AsyncGenerator[None]:
    """Have the next call made in this manner."""
    world.manners.append(manner)
    yield


@_happens(name="clock-steps", seconds=30.0, steps=True)
@_happens(name="clock-far-off", seconds=720.0)  # longer than a state lives
@_happens(name="clock-off", seconds=30.0)
async def shifted(world: World, *, seconds: float, steps: bool = False) -> AsyncGenerator[None]:
    """Set the clock of a machine ahead or behind; if it steps, it jumps ahead and back."""
    # Processes that share a SQLite file are on one machine, which has one clock.
    workers = world.workers() if world.kind == "sqlite" else world.random.sample(world.workers(), 1)

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


# --- databases ----------------------------------------------------------------------------------


def _sqlite(world: World) -> closing[sqlite3.Connection]:
    db = sqlite3.connect(world.direct, timeout=30, isolation_level=None, check_same_thread=False)
    return closing(db)


@_happens("sqlite")
def locked(world: World) -> Generator[None]:
    """Hold the database's write lock, as another program would."""
    with _sqlite(world) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


@_happens("sqlite")
def disk_full(world: World) -> Generator[None]:
    """Limit the size of files, so that no process can make the database's log longer.

    A large row makes the write-ahead log long, and a reader keeps SQLite from starting the log
    over, so every commit would exceed the limit. The ledger is shorter and can still be written.
    """
    workers = world.workers()
    with _sqlite(world) as reader, _sqlite(world) as db:
        reader.execute("PRAGMA journal_mode=WAL")  # in case no process has used the file yet
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


def _limit(workers: list[Worker], size: int) -> None:
    """Limit the size of the files that processes write."""
    for worker in workers:
        with suppress(ProcessLookupError, ValueError):  # raised if the process has ended
            pid = worker.process.pid
            assert pid is not None
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def _execute(world: World, *statements: str) -> None:
    import psycopg

    writable = "-c default_transaction_read_only=off"
    connected: Any = psycopg.connect(world.direct, autocommit=True, options=writable)
    with connected as db:
        for statement in statements:
            db.execute(statement)


@_happens("postgres")
def read_only(world: World) -> Generator[None]:
    """Make the database read-only, as in a failover."""
    setting = "default_transaction_read_only"
    reload = "SELECT pg_reload_conf()"
    _execute(world, f"ALTER SYSTEM SET {setting} = on", reload)
    try:
        yield
    finally:
        _execute(world, f"ALTER SYSTEM RESET {setting}", reload)


@_happens("postgres", "temporal")
def database_down(world: World) -> Generator[None]:
    """Kill the database or the engine, and start it again after the block."""
    with world.stopped():
        yield


@_happens("temporal")
async def both_killed(world: World) -> AsyncGenerator[None]:
    """Kill the engine and a process at the same time."""
    with world.stopped():
        world.fleet.signal(world.place(), signal.SIGKILL)
    yield


@_happens("postgres")
def connections_cut(world: World) -> Generator[None]:
    """End every connection to the database from its side."""
    _execute(
        world,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
    )
    yield


@_happens("postgres", "temporal")
async def stalled(world: World) -> AsyncGenerator[None]:
    """Hold up the traffic to and from the database."""
    with world.held():
        yield
