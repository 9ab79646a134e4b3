"""Server processes behind streamable HTTP on this machine, as a deployment.

They share what instances of a fleet share and nothing else: the state keys, the ledger file, the
guard's store file and the database of an option that has one. They die by SIGKILL, as under a
kernel that runs out of memory. Knows `deployments`, whose protocol this is, and how a server is
served.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
from mcp.client.session import ElicitationFnT

from mrtr_options.review.bench.client import connections, fetch_at, principal_of
from mrtr_options.review.bench.deployments import (
    CALLS,
    HANG_SECONDS,
    LEDGER,
    Instances,
    Offered,
    next_ring,
    quiet_servers,
    scratch,
)
from mrtr_options.review.bench.faults import KINDS
from mrtr_options.review.bench.faults.kinds import Kind
from mrtr_options.review.bench.history import Crashed
from mrtr_options.review.bench.messages import LOST, Reply, Request
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Keys
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger import FaultyLedger
from mrtr_options.review.bench.world.starting import START_SECONDS, context, end, start_server
from mrtr_options.review.bench.world.wrappers import (
    ROUND_SECONDS,
    WAIT_SECONDS,
    Wrapper,
    keep_seconds,
    make_wrappers,
    open_store,
)
from mrtr_options.sdk.handler import AnyServer, Principal
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.serving import PATH, web_server
from mrtr_options.sdk.single_use import single_use
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.settings import Settings

ROUNDS = "rounds.sqlite"
"""The file of a guard's rounds, which the processes share."""

FATAL = "Pompeii"
"""The beginning of a place's name whose bill kills the process that writes it, each time."""


@dataclass(frozen=True)
class Served:
    """The subject that a process serves, and what the process shares with the others.

    Attributes:
        subject: The subject.
        keys: The ring of state keys.
        folder: The folder of the shared files.
        database: The URL of the database of an option that has one.
        rounds: A guard's record of its rounds: a SQLite file, or a PostgreSQL database's URL.
        wait_seconds: The time for which a guarded round waits for another delivery of itself.
        round_seconds: The longest time for a guarded round.
        destination: The kind of ledger, which decides which effects it absorbs.
        places: Places beside those of the domain, so that each call can have one of its own.
        principal: Names the caller of a request.
    """

    subject: Subject
    keys: list[bytes]
    folder: Path
    database: str
    rounds: Path | str
    wait_seconds: float = WAIT_SECONDS
    round_seconds: float = ROUND_SECONDS
    destination: weather.Destination = "ignores keys"
    places: dict[str, weather.Report] = field(default_factory=dict[str, weather.Report])
    principal: Principal = principal_of


def build(
    served: Served, ledger: weather.Ledger, clock: Callable[[], float] = time.time
) -> AnyServer:
    """Build the server of one process, with its own ledger and clock."""
    wrappers: list[Wrapper] = []
    if served.subject.wrappers:
        wrappers = make_wrappers(
            served.subject.wrappers,
            open_store(served.rounds, clock, keep_seconds(served.subject)),
            partial(
                single_use,
                wait_seconds=served.wait_seconds,
                round_seconds=served.round_seconds,
                attempts=served.subject.attempts(served.destination),
            ),
        )
    settings = Settings(
        ledger,
        keys=served.keys,
        wrappers=wrappers,
        principal=served.principal,
        database=served.database,
        clock=clock,
    )
    return load(served.subject.option.path, settings)


# --- in the server process ----------------------------------------------------------------------


def _serve(served: Served, ahead: Any, bench: Connection, listener: socket.socket) -> None:
    """Serve one instance until killed, with a clock that runs `ahead` seconds ahead."""
    gc.freeze()  # a pass of the collector copies what this process shares with the fork server
    logging.disable()  # the SDK logs every failure; here failures are what is looked for
    weather.REPORTS.update(served.places)

    def clock() -> float:
        return time.time() + ahead.value

    ledger = weather.SqliteLedger(served.folder / LEDGER, served.destination)
    server = build(served, _Ledger(ledger, bench), clock)
    anyio.run(_serve_until_killed, server, listener)


async def _serve_until_killed(server: Any, listener: socket.socket) -> None:
    try:
        await web_server(server, listener).serve(sockets=[listener])
    except SystemExit:  # it could not start; whoever started it sees that it has ended
        os._exit(1)


class _Ledger(FaultyLedger):
    """The ledger of this process. The bench reads its file, and sends the armed fault, or None."""

    def __init__(self, ledger: weather.Ledger, bench: Connection) -> None:
        super().__init__(ledger, turns=0)
        self._bench = bench
        self._fault: Kind | None = None

    def take_fault(self, effect: weather.Effect) -> Kind | None:
        while self._bench.poll():
            armed = self._bench.recv()
            self._fault = None if armed is None else KINDS[armed]
        if effect.kind == "bill" and effect.subject.startswith(FATAL):
            return KINDS["crash@bill"]
        fault = self._fault
        if fault is None or fault.at != effect.kind:
            return None
        if not fault.lasts:
            self._fault = None
        return fault

    async def end_instance(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def let_client_leave(self) -> None:
        self._bench.send("the client may go")
        with anyio.move_on_after(HANG_SECONDS):
            await anyio.wait_readable(self._bench)  # the bench goes on once the client has gone
        await anyio.lowlevel.checkpoint()


# --- in the bench -------------------------------------------------------------------------------


@dataclass
class Worker:
    """One server process.

    Attributes:
        process: The process itself.
        origin: The URL of its listener, without a path.
        ledger: The pipe to its ledger. It is readable when the process has something to say, and
            when the process is dead.
        ahead: The seconds by which the clock that the package injects is ahead of the machine's.
        up: Whether the process is known to serve.
    """

    process: ForkServerProcess
    origin: str
    ledger: Connection
    ahead: Any
    up: bool = False

    @staticmethod
    def started(served: Served) -> Worker:
        """Start a process that comes up. Blocks."""
        # A durable engine's imports take as long.
        context(__name__, "mrtr_options.sdk.tasks.extension")
        ours, theirs = multiprocessing.Pipe()
        ahead = multiprocessing.RawValue("d", 0.0)
        with theirs:
            process, origin = start_server(_serve, served, ahead, theirs)
        return Worker(process, origin, ours, ahead)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """Kill the process, if it lives, and let go of what it held. Blocks."""
        end(self.process)
        self.process.close()
        self.ledger.close()


class Processes:
    """Two server processes as a deployment."""

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.needs & {"time", "versions"}:
            return "in which time passes or the code changes, which server processes do not see"
        return None

    @asynccontextmanager
    async def started(
        self, subject: Subject, scenario: Scenario
    ) -> AsyncGenerator[ProcessInstances]:
        """Start two fresh processes, with a ledger and stores of their own."""
        with scratch() as folder, quiet_servers():
            instances = ProcessInstances(subject, folder, scenario.setup.destination)
            async with instances.running():
                yield instances


OFFERED = (Offered("processes", "two processes; one for an option with an engine", Processes()),)


class ProcessInstances(Instances):
    """Two server processes with clients over HTTP. Enter `running` to use it.

    The files that they share are in a folder, empty at first.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        destination: weather.Destination = "ignores keys",
    ) -> None:
        super().__init__(2, HANG_SECONDS)
        self.name = "processes"
        # The calls of an option with an engine are in a file, which is one process's.
        self.processes = self.instances if subject.option.extra is None else 1
        self._served = Served(
            subject,
            [new_key()],
            folder,
            f"sqlite:///{folder / CALLS}",
            folder / ROUNDS,
            destination=destination,
        )
        self._ledger = weather.SqliteLedger(folder / LEDGER)
        self._workers: list[Worker] = []
        self._http: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[ProcessInstances]:
        """Start the processes; kill them with the block."""
        # One connection pool for all clients, since making one takes longer than a request.
        async with connections() as self._http:
            try:
                await anyio.to_thread.run_sync(self._start_all)
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._end_all)

    def _start_all(self) -> None:
        while len(self._workers) < self.processes:
            self._workers.append(Worker.started(self._served))

    def _end_all(self) -> None:
        while self._workers:
            self._workers.pop().end()

    def _replace(self, process: int) -> None:
        self._workers.pop(process).end()
        self._workers.insert(process, Worker.started(self._served))

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        worker = self._workers[instance % self.processes]
        await self._until_up(worker)
        gone = gone or anyio.Event()
        reply = Reply(nothing=LOST)
        assert self._http is not None

        async def leave_at_a_word() -> None:
            # A copy, since two requests at once may wait for the same process.
            pipe = os.dup(worker.ledger.fileno())
            try:
                await anyio.wait_readable(pipe)
            finally:
                os.close(pipe)
            gone.set()

        async with anyio.create_task_group() as group:
            group.start_soon(leave_at_a_word)
            url = worker.origin + PATH
            reply = await fetch_at(url, self._http, request, user, gone, self.hang_seconds)
            if reply.nothing == LOST:
                with anyio.move_on_after(self.hang_seconds):
                    await gone.wait()  # the process is dying, and its pipe need not close first
            group.cancel_scope.cancel()
        # A task may be worked at elsewhere than where it is asked about.
        for process, other in enumerate(self._workers):
            is_asked = other is worker
            if (is_asked or request.takes_tasks) and other.ledger.poll():
                await anyio.to_thread.run_sync(
                    self._settle, process, instance if is_asked else process
                )
        await self.collect()
        return reply

    async def _until_up(self, worker: Worker) -> None:
        """Wait for a process to serve, or to be gone: its start is no part of a request."""
        if not worker.up:
            assert self._http is not None
            with suppress(httpx2.TransportError), anyio.move_on_after(START_SECONDS):
                await self._http.get(worker.origin)
            worker.up = True

    def _settle(self, process: int, instance: int) -> None:
        """Record the messages of an instance's process; replace the process if it is dead."""
        try:
            self._workers[process].ledger.recv()
        except (EOFError, OSError):
            self.recording.append(Crashed(instance, self.recording.sending_at(instance)))
            self._replace(process)

    async def restart(self, keys: Keys) -> None:
        await anyio.to_thread.run_sync(self._end_all)
        self._served = replace(self._served, keys=next_ring(self._served.keys, keys))
        await anyio.to_thread.run_sync(self._start_all)

    async def crash(self, instance: int) -> None:
        self.recording.append(Crashed(instance, None))
        await anyio.to_thread.run_sync(self._replace, instance % self.processes)

    async def arm(self, name: str | None, only: int | None = None) -> None:
        workers = self._workers
        if only is not None:
            workers = [self._workers[only % self.processes]]
        for worker in workers:
            # A worker may have died between two requests. The next request will notice.
            with suppress(ConnectionError):
                worker.ledger.send(name)

    async def collect(self) -> None:
        await self._record_new(self._ledger)
