"""Where a schedule is run for real: server processes behind streamable HTTP on this machine.

They share what instances of a fleet share and nothing else: the state keys, the ledger file, the
guard's store file and the database of an option that has one. They die by SIGKILL, as under a kernel
that runs out of memory. Knows `deployments`, whose protocol this is, and how a server is served.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client

from mrtr_options.bench.deployments import (
    HANG_SECONDS,
    Request,
    next_ring,
    principal_of,
    until_gone,
    unused,
)
from mrtr_options.bench.observations import HUNG, LOST, Reply
from mrtr_options.bench.observe import MODES, Era
from mrtr_options.bench.schedules import Change, Fault, Redeploy, Schedule, Wait
from mrtr_options.bench.subjects import Column, make_wrappers
from mrtr_options.sdk.tasks_wire import IDENTIFIER
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.serving import PATH, listen, serve_http
from mrtr_options.tool.settings import Settings

# One process does the imports, which take seconds, and forks a server in a moment ever after. Those of
# the durable engine are passed over where it is not installed.
_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload([__name__, "mrtr_options.sdk.tasks"])

START_SECONDS = 60.0
"""How long a process may take to come up."""

LEDGER, ROUNDS, CALLS = "ledger.sqlite", "rounds.sqlite", "calls.sqlite"
"""The files that the processes share."""


# --- in the server process ----------------------------------------------------------------------


def _serve(
    column: Column,
    keys: list[bytes],
    folder: Path,
    database: str,
    honours_keys: bool,
    listener: socket.socket,
    bench: Connection,
) -> None:
    """Serve one instance until killed, or until the bench is gone however it ended."""
    belong_to_the_bench()
    logging.disable()  # the SDK logs every failure; here failures are what is looked for
    settings = Settings(
        _FaultyLedger(weather.SqliteLedger(folder / LEDGER, honours_keys=honours_keys), bench),
        keys=keys,
        wrappers=make_wrappers(column.wrappers, folder / ROUNDS, []),
        principal=principal_of,
        database=database,
    )
    serve_http(load(column.option.path, settings), listener)


def belong_to_the_bench() -> None:
    """Have this process leave Ctrl-C to the bench that started it, and end when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_bench, daemon=True).start()


def _end_with_the_bench() -> None:
    bench = multiprocessing.parent_process()
    assert bench is not None
    bench.join()
    os.kill(os.getpid(), signal.SIGKILL)


class _FaultyLedger:
    """A ledger at which things go wrong as the bench says: it sends what is armed, or None."""

    def __init__(self, ledger: weather.Ledger, bench: Connection) -> None:
        self._ledger = ledger
        self._bench = bench
        self._fault: Fault | None = None

    async def record(self, effect: weather.Effect) -> None:
        while self._bench.poll():
            self._fault = self._bench.recv()
        fault = self._fault
        if fault is None or fault.at != effect.kind:
            await self._ledger.record(effect)
            return
        self._fault = None
        if fault.what == "fail":
            raise OSError("the destination is down")
        await self._ledger.record(effect)
        if fault.what == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        self._bench.send("the client may go")
        with anyio.move_on_after(HANG_SECONDS):
            await anyio.wait_readable(self._bench)  # the bench goes on once the client has gone
        await anyio.lowlevel.checkpoint()

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


# --- in the bench -------------------------------------------------------------------------------


@dataclass
class _Worker:
    """One server process, where it listens, the pipe to its ledger, and whether it is known to serve.

    The pipe is readable when the process has something to say, and when it is dead.
    """

    process: ForkServerProcess
    origin: str
    ledger: Connection
    up: bool = False


class ProcessDeployment:
    """Two server processes with clients over HTTP. Enter it as an async context manager.

    Args:
        column: What both serve.
        folder: Where the files are that they share; empty.
        database: Where an option keeps calls that must outlive a process; None for a file in there.
        honours_keys: Whether the ledger absorbs an effect whose key it has seen.
    """

    name = "processes"
    instances = 2

    def __init__(
        self,
        column: Column,
        folder: Path,
        *,
        database: str | None = None,
        honours_keys: bool = False,
    ) -> None:
        self._column = column
        self._folder = folder
        self._database = database or f"sqlite:///{folder / CALLS}"
        self._honours_keys = honours_keys
        self._keys = [new_key()]
        self._ledger = weather.SqliteLedger(folder / LEDGER)
        self._workers: list[_Worker] = []
        self._http: httpx2.AsyncClient | None = None

    @staticmethod
    def can_play(schedule: Schedule) -> bool:
        """Whether no time passes in a schedule (the clocks of other processes cannot be moved) and
        no code changes."""
        return not any(
            isinstance(step, Wait | Redeploy) for step in (*schedule.script, *schedule.legacy)
        )

    @property
    def entries(self) -> dict[str, int]:
        """Nothing: the author's functions cannot be watched from here."""
        return {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[ProcessDeployment]:
        """Start the processes; kill them with the block."""
        # One connection pool for all clients, since making one takes longer than a request.
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as self._http:
            try:
                await anyio.to_thread.run_sync(self._start_all)
                yield self
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._end_all)

    def _start_all(self) -> None:
        for place in range(self.instances):
            self._start(place)

    def _start(self, place: int) -> None:
        ours, theirs = _forkserver.Pipe()
        # Bound here: the port is known at once, and a request waits until the process comes up.
        with listen(0) as listener, theirs:
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            arguments = (
                self._column,
                self._keys,
                self._folder,
                self._database,
                self._honours_keys,
                listener,
                theirs,
            )
            process = _forkserver.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            self._workers.insert(place, _Worker(process, origin, ours))

    def signal(self, instance: int, number: signal.Signals) -> None:
        """Send a process a signal."""
        pid = self._workers[instance].process.pid
        assert pid is not None
        os.kill(pid, number)

    async def kill(self, instance: int) -> None:
        """Kill a process and put nothing in its place: requests to it break."""
        worker = self._workers[instance]
        worker.process.kill()
        await anyio.to_thread.run_sync(worker.process.join)

    def _end_all(self) -> None:
        while self._workers:
            self._end(0)

    def _end(self, place: int) -> None:
        worker = self._workers.pop(place)
        worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.ledger.close()

    async def send(self, instance: int, request: Request) -> Reply:
        user = unused if request.asks else None
        reply = await self._call(instance, "modern", user, request, anyio.Event())
        if request.takes_tasks:  # which may be worked at elsewhere
            for place, worker in enumerate(self._workers):
                if worker.ledger.poll():
                    await anyio.to_thread.run_sync(self._settle, place)
        return reply

    async def call_legacy(self, location: str, user: ElicitationFnT | None, gone: anyio.Event) -> Reply:
        return await self._call(0, "legacy", user, Request(location), gone)

    async def _call(
        self, place: int, era: Era, user: ElicitationFnT | None, request: Request, gone: anyio.Event
    ) -> Reply:
        worker = self._workers[place]
        await self._until_up(worker)
        reply = Reply(nothing=HUNG)

        async def leave_at_a_word() -> None:
            await anyio.wait_readable(worker.ledger)
            gone.set()

        # A client for this request alone: a connection that breaks takes its whole client along.
        transport = streamable_http_client(worker.origin + PATH, http_client=self._http)
        async with anyio.create_task_group() as group:
            group.start_soon(leave_at_a_word)
            try:
                with anyio.move_on_after(HANG_SECONDS):
                    extensions = [advertise(IDENTIFIER)] if request.takes_tasks else []
                    async with Client(
                        transport, mode=MODES[era], elicitation_callback=user, extensions=extensions
                    ) as client:
                        reply = await until_gone(client, request, gone)
            except* httpx2.TransportError:
                reply = Reply(code=types.CONNECTION_CLOSED)
            if reply.code == types.CONNECTION_CLOSED:
                reply = Reply(nothing=LOST)
                with anyio.move_on_after(HANG_SECONDS):
                    await gone.wait()  # the process is dying, and its pipe need not close first
            group.cancel_scope.cancel()
        if worker.ledger.poll():
            await anyio.to_thread.run_sync(self._settle, place)
        return reply

    async def _until_up(self, worker: _Worker) -> None:
        """Wait for a process to serve, or to be gone: its start is no part of a request."""
        if not worker.up:
            assert self._http is not None
            with suppress(httpx2.TransportError), anyio.move_on_after(START_SECONDS):
                await self._http.get(worker.origin)
            worker.up = True

    def _settle(self, place: int) -> None:
        """Take note of what a process said; replace it if it is dead."""
        try:
            self._workers[place].ledger.recv()
        except (EOFError, OSError):
            self._end(place)
            self._start(place)

    async def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        await anyio.to_thread.run_sync(self._end_all)
        self._keys = next_ring(self._keys, keys)
        await anyio.to_thread.run_sync(self._start_all)

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        raise NotImplementedError("processes are not redeployed; see can_play")

    async def arm(self, fault: Fault | None, only: int | None = None) -> None:
        for worker in self._workers if only is None else (self._workers[only],):
            with suppress(ConnectionError):  # it died between two requests; the next one will notice
                worker.ledger.send(fault)

    def wait(self, seconds: float) -> None:
        raise NotImplementedError("no time passes in other processes; see can_play")

    async def effects(self) -> dict[weather.EffectKind, int]:
        return weather.count(await self._ledger.effects())
