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
import anyio.to_thread
import httpx2
import mcp_types as types
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client

from mrtr_options.bench.client import client_of, exchange, principal_of
from mrtr_options.bench.deployments import HANG_SECONDS, next_ring
from mrtr_options.bench.history import HUNG, LOST, Crashed, Effect, Recording, Reply, Request
from mrtr_options.bench.ledger import FaultyLedger
from mrtr_options.bench.schedules import Change, Fault, Redeploy, Schedule, Wait
from mrtr_options.bench.subjects import Column, make_wrappers
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.serving import PATH, listen, serve_http
from mrtr_options.tool.settings import Settings

# One process does the imports, which take seconds, and forks a server in a moment ever after. Those of
# the durable engine are passed over where it is not installed.
_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload([__name__, "mrtr_options.sdk.tasks.store"])

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
        FaultyLedger(
            weather.SqliteLedger(folder / LEDGER, honours_keys=honours_keys), _Around(bench), turns=0
        ),
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


class _Around:
    """What happens at the effects of this process: the bench sends what is armed, or None."""

    def __init__(self, bench: Connection) -> None:
        self._bench = bench
        self._fault: Fault | None = None

    def due(self, effect: weather.Effect) -> Fault | None:
        while self._bench.poll():
            self._fault = self._bench.recv()
        fault = self._fault
        if fault is None or fault.at != effect.kind:
            return None
        self._fault = None
        return fault

    def happened(self, effect: weather.Effect, fault: Fault | None) -> None:
        return  # the bench reads the ledger's file

    async def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def leave(self) -> None:
        self._bench.send("the client may go")
        with anyio.move_on_after(HANG_SECONDS):
            await anyio.wait_readable(self._bench)  # the bench goes on once the client has gone


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
        hang_seconds: How long one request may take before it is called hung.
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
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        self.hang_seconds = hang_seconds
        self.recording = Recording()
        self._column = column
        self._folder = folder
        self._database = database or f"sqlite:///{folder / CALLS}"
        self._honours_keys = honours_keys
        self._keys = [new_key()]
        self._ledger = weather.SqliteLedger(folder / LEDGER)
        self._workers: list[_Worker] = []
        self._http: httpx2.AsyncClient | None = None
        self._effects_seen = 0

    @staticmethod
    def can_play(schedule: Schedule) -> bool:
        """Whether no time passes in a schedule (the clocks of other processes cannot be moved) and
        no code changes."""
        return not any(
            isinstance(step, Wait | Redeploy) for step in (*schedule.script, *schedule.legacy)
        )

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

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        worker = self._workers[instance]
        await self._until_up(worker)
        gone = gone or anyio.Event()
        reply = Reply(nothing=HUNG)

        async def leave_at_a_word() -> None:
            await anyio.wait_readable(worker.ledger)
            gone.set()

        # A client for this request alone: a connection that breaks takes its whole client along.
        transport = streamable_http_client(worker.origin + PATH, http_client=self._http)
        async with anyio.create_task_group() as group:
            group.start_soon(leave_at_a_word)
            try:
                with anyio.move_on_after(self.hang_seconds):
                    async with client_of(transport, request, user) as client:
                        reply = await exchange(client, request, gone)
            except* httpx2.TransportError:
                reply = Reply(code=types.CONNECTION_CLOSED)
            if reply.code == types.CONNECTION_CLOSED:
                reply = Reply(nothing=LOST)
                with anyio.move_on_after(self.hang_seconds):
                    await gone.wait()  # the process is dying, and its pipe need not close first
            group.cancel_scope.cancel()
        # A task may be worked at elsewhere than where it is asked about.
        for place in range(self.instances) if request.takes_tasks else (instance,):
            if self._workers[place].ledger.poll():
                await anyio.to_thread.run_sync(self._settle, place)
        await self.collect()
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
            self.recording.append(Crashed(place, self.recording.round_at(place)))
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

    async def collect(self) -> None:
        effects = await self._ledger.effects()
        for effect in effects[self._effects_seen :]:
            self.recording.append(Effect(None, None, effect))
        self._effects_seen = len(effects)

    async def effects(self) -> dict[weather.EffectKind, int]:
        return weather.count(await self._ledger.effects())
