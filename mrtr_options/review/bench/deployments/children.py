"""A stranger's file as real instances: a process for each, behind streamable HTTP on this machine.

The processes share what docs/CONTRACT.md names (`MRTR_LEDGER`, `MRTR_STATE_KEYS`) and nothing else.
The same processes serve many runs; one that hangs, dies, or is killed by a schedule is replaced.
What goes wrong at an effect is done by the database, so it reaches a server that opens the ledger
by itself. Time passes when the bench says so to each process; `clock` says for which clocks.

Knows `deployments`, whose protocol this is; `child`, which is what the processes run; and
`child_process`, the bench's end of one.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import mcp_types as types
from mcp.client.session import ElicitationFnT

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.client import LEFT, connections, fetch_at
from mrtr_options.review.bench.deployments import CALLS, LEDGER, Instances, next_ring
from mrtr_options.review.bench.deployments.child import run
from mrtr_options.review.bench.deployments.child_process import Child, end_in_order
from mrtr_options.review.bench.history import Crashed, Elapsed
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.redeploys import write
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Change, Keys
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger_file import ForeignLedger
from mrtr_options.review.bench.world.sessions import Session
from mrtr_options.review.bench.world.starting import end, start_server
from mrtr_options.sdk.protection import KEYS_VARIABLE, new_key
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option
from mrtr_options.tool.settings import DATABASE_VARIABLE, LEDGER_VARIABLE

HANG_SECONDS = 15.0
"""The longest time for one request to a proposal before it is called hung.

It is longer than the guard's default wait for a round whose process has died.
"""

START_SECONDS = 20.0
"""The longest time for a file to load."""

DEATH_SECONDS = 0.15
"""The longest time for a process to be gone after a request that failed, which it may die of."""

APART = {"PYTHONHASHSEED": "1", "PYTHONOPTIMIZE": "1", "TZ": "WEST+5:45"}
"""The environment of the second process: another hash seed, `-O`, and another time zone."""

WATCH_SECONDS = 0.001
"""The pause between two looks at the ledger while a fault waits for an effect."""


class CannotStart(UsageError):
    """A file that does not come up as a server. The details are its traceback or its position."""


# --- a set of instances -------------------------------------------------------------------------


class Children:
    """Two processes that serve one file, for many runs. Enter `running` to use it.

    An option that keeps its calls in an engine's file runs as one process, which is both instances.

    The folder, empty at first, is for the files that they share. `hang_seconds` is how long one
    request may take; `key` is the state key, or None for a new one.
    """

    def __init__(
        self,
        option: Option,
        folder: Path,
        *,
        hang_seconds: float = HANG_SECONDS,
        key: str | None = None,
    ) -> None:
        self.hang_seconds = hang_seconds
        self._raised: list[str] = []
        self._option = option
        self._base = self._folder = folder
        self._keys = [new_key() if key is None else key.encode()]
        self._versions: list[Change | None] = [None] * (2 if option.extra is None else 1)
        self._ahead = 0.0
        self._children: list[Child] = []
        self._group: anyio.abc.TaskGroup | None = None
        self._http: httpx2.AsyncClient | None = None
        self._died = False
        self._number = 0
        self.ledger_file = folder / LEDGER

    @property
    def secrets(self) -> set[str]:
        """Texts that no client may see: the keys, and the folders of the processes' files."""
        authors = f"{self._option.path.absolute().parent}/"
        folders = {str(self._folder), *([authors] if authors.count("/") > 2 else [])}
        return {*folders, *(key.decode() for key in self._keys)}

    @property
    def raised(self) -> list[str]:
        """The tracebacks of the author's exceptions."""
        return self._raised + [each for child in self._children for each in child.raised]

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.mixes_versions and len(self._versions) == 1:
            return (
                "in which one of two instances has another version: this file runs as one process"
            )
        return None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Children]:
        """Start the processes; kill them with the block.

        Raises:
            CannotStart: The file does not come up.
        """
        failed: Exception | None = None
        # One connection pool for all clients, since making one takes longer than a request.
        async with connections() as self._http, anyio.create_task_group() as self._group:
            try:
                self._take_folder()
                await self._start_all()
                yield self
            except Exception as error:
                failed = error  # raised below, where no group wraps it
            finally:
                with anyio.CancelScope(shield=True):
                    await self._end_all()
                self._group.cancel_scope.cancel()
        if failed is not None:
            raise failed

    async def _start_all(self) -> None:
        self._children = [self._fork(instance) for instance in range(len(self._versions))]
        for child in self._children:
            await self._until_up(child)

    def _fork(self, instance: int) -> Child:
        version = self._versions[instance]
        file = self._option.path if version is None else write(self._option, version, self._folder)
        environment = {
            LEDGER_VARIABLE: str(self.ledger_file),
            KEYS_VARIABLE: ",".join(key.decode() for key in self._keys),
            DATABASE_VARIABLE: f"sqlite:///{self._folder / CALLS}",
            # Whoever shows this shows the folder, which is secret.
            "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), str(self._folder))),
        }
        talk, its_talk = socket.socketpair()
        output, its_output = Pipe(duplex=False)
        with its_talk, its_output:
            process, origin = start_server(
                run,
                file.absolute(),
                environment,
                self._ahead,
                its_talk,
                its_output,
                apart=APART if instance else None,
            )
        child = Child(process, origin, talk, output)
        assert self._group is not None
        self._group.start_soon(child.listen)
        self._group.start_soon(child.drain)
        return child

    async def _until_up(self, child: Child) -> None:
        name = self._option.path.name
        await child.wait_for(child.up, START_SECONDS)
        if not child.up.is_set():
            where = await child.position_in(self._option.path.absolute())
            raise CannotStart(f"{name} is still loading after {START_SECONDS:g} seconds", where)
        if not child.dead.is_set():
            return
        how = await self.kill(child)
        if child.failed:
            reason, *more = child.failed.splitlines()
            raise (
                CannotStart(f"{name} does not load", child.failed) if more else CannotStart(reason)
            )
        raise CannotStart(f"the process {how} while {name} was loading")

    def _take_folder(self) -> None:
        """Give the processes that start from now on an empty folder, with a ledger in it."""
        self._number += 1
        self._folder = self._base / str(self._number)
        self._folder.mkdir()
        self.ledger_file = self._folder / LEDGER
        weather.SqliteLedger(self.ledger_file)

    def _keeps_files(self) -> bool:
        """Return whether the folder holds more than the ledger: work may be kept there."""
        return any(not each.name.startswith(LEDGER) for each in self._folder.iterdir())

    async def _begin_anew(self) -> None:
        """Replace every process, each in an empty folder.

        A successor begins the work of a process that died once more, at any time. The contract
        allows the effects of that work, and they are of no later run.
        """
        await self._end_all()
        self._take_folder()
        await self._start_all()

    async def _end_all(self) -> None:
        while self._children:
            await self.kill(self._children[0])
            self._children.pop(0)

    async def replace(self, instance: int, child: Child) -> str:
        """Replace a process that hangs or is gone, unless another task has replaced it.

        Returns:
            How the old one ended.
        """
        self._died = True
        how = await self.kill(child)
        instance %= len(self._versions)
        if self._children[instance] is child:
            self._children[instance] = self._fork(instance)
            await self._until_up(self._children[instance])
        return how

    async def restart(self, keys: Keys) -> None:
        """Tell every process to end, kill those that do not, and start others."""
        await end_in_order(self._children)
        await self._end_all()
        self._keys = next_ring(self._keys, keys)
        await self._start_all()

    async def redeploy(self, change: Change | None, chosen: Sequence[int]) -> None:
        """Replace the processes of these instances by ones with another version of the file."""
        chosen = sorted({at % len(self._versions) for at in chosen})
        await end_in_order([self._children[instance] for instance in chosen])
        for instance in chosen:
            self._versions[instance] = change
            await self.kill(self._children[instance])
            self._children[instance] = self._fork(instance)
        for instance in chosen:
            await self._until_up(self._children[instance])

    async def wait(self, seconds: float, besides: Child | None = None) -> None:
        """Let time pass for every process besides one, and for those that start later."""
        self._ahead += seconds
        for child in self._children:
            if child is not besides:
                await child.ask(f"wait {seconds}", START_SECONDS)

    async def stats(self, instance: int) -> dict[str, int]:
        """Return how many tasks, threads, open files and bytes of memory a process has."""
        return await self.child(instance).ask("stats", START_SECONDS) or {}

    @asynccontextmanager
    async def started(self, subject: Subject, scenario: Scenario) -> AsyncGenerator[ChildInstances]:
        """Yield the processes for one run; they go on after it."""
        if self._died and self._keeps_files():
            self._versions = [None] * len(self._versions)
            await self._begin_anew()
        else:
            await self.redeploy(None, [at for at, change in enumerate(self._versions) if change])
        self._died = False
        found = ChildInstances(self, scenario.instances, scenario.setup.destination)
        found.recording.secrets.update(self.secrets)
        await found.arm(None)
        try:
            yield found
        finally:
            found.close()

    def start_soon(
        self,
        work: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]],
        scope: anyio.CancelScope,
    ) -> None:
        """Start a task that ends with the processes at the latest."""
        assert self._group is not None
        self._group.start_soon(work, scope)

    async def kill(self, child: Child) -> str:
        """Kill a process unless it has ended. Return how it ended, in words."""
        if child.ended is None:
            child.ended = end(child.process)
            self._raised += child.raised
        await child.dead.wait()
        if child.ended >= 0:
            return f"ended with exit code {child.ended}"
        return f"was killed by {signal.Signals(-child.ended).name}"

    def child(self, instance: int) -> Child:
        """Return the process that is an instance now."""
        return self._children[instance % len(self._versions)]

    def session(self, child: Child, like: Request) -> Session:
        """Return a new session of an old client, which is open until it is closed."""
        assert self._http is not None
        session = Session(child.origin + PATH, self._http, like)
        self.start_soon(session.run, anyio.CancelScope())
        return session

    async def fetch(
        self,
        child: Child,
        request: Request,
        user: ElicitationFnT | None,
        gone: anyio.Event,
        session: Session | None = None,
    ) -> Reply:
        """Send one request to a process, in its session or alone; see `Instances.send`."""
        reply = Reply(nothing=HUNG)
        where = ""
        async with anyio.create_task_group() as group:

            async def until_dead() -> None:
                await child.dead.wait()
                group.cancel_scope.cancel()

            async def until_hung() -> None:
                nonlocal where
                await child.wait_for(anyio.Event(), self.hang_seconds)
                # Before the client leaves, which cancels the handler.
                where = await child.position_in(self._option.path.absolute())
                group.cancel_scope.cancel()

            group.start_soon(until_dead)
            group.start_soon(until_hung)
            assert self._http is not None
            if session is None:
                reply = await fetch_at(child.origin + PATH, self._http, request, user, gone)
            else:
                reply = await session.send(request, user, gone)
            group.cancel_scope.cancel()
        if reply.nothing != HUNG:
            return reply
        return Reply(nothing=LOST) if child.dead.is_set() else replace(reply, message=where)


# --- one run ------------------------------------------------------------------------------------


class ChildInstances(Instances):
    """The processes of a file during one run; made by `Children.started`."""

    def __init__(
        self, children: Children, instances: int, destination: weather.Destination
    ) -> None:
        super().__init__(instances, children.hang_seconds)
        self.death_seconds = DEATH_SECONDS
        self._children = children
        self._ledger = ForeignLedger(children.ledger_file, self.recording, destination)
        self._at = 0
        self._strikes = 0
        self._struck: set[ForkServerProcess] = set()
        self._leave = anyio.Event()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._watching = anyio.CancelScope()

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        await self._settle()
        if not self._only_there:
            self._at = instance
        if self._leave.is_set():
            self._leave = anyio.Event()
        leave = gone or self._leave
        child = self._children.child(instance)
        strikes = self._strikes
        session = self._session_of(child, request)
        reply = await self._children.fetch(child, request, user, leave, session)
        if reply.nothing == LOST or reply.code == types.INTERNAL_ERROR:
            await child.wait_for(child.dead, self.death_seconds)  # it may be dying
        if self._is_due():
            await self._strike()
        if self._strikes > strikes:  # the response may have been faster than the bench
            reply = Reply(nothing=LOST, message=LEFT if leave.is_set() else None)
        if reply.nothing == HUNG:
            await self._children.replace(instance, child)
        await self._settle()
        self._ledger.note_failure(instance, reply)
        return reply

    def _session_of(self, child: Child, request: Request) -> Session | None:
        """Return the session that a request names, opened with the first one that names it."""
        if not request.session:
            return None
        named = (request.session, child.origin)
        if named not in self._sessions:
            self._sessions[named] = self._children.session(child, request)
        return self._sessions[named]

    def close(self) -> None:
        """End the sessions of clients that stayed connected, and let go of the ledger."""
        self._watching.cancel()
        for session in self._sessions.values():
            session.close()
        self._ledger.close()

    async def _settle(self) -> None:
        """Record new events and the time that passed, and replace dead processes."""
        await self.collect()
        for instance in range(self.instances):
            child = self._children.child(instance)
            if child.passed:
                seconds, child.passed = child.passed, 0.0
                self.recording.append(Elapsed(seconds))
                await self._children.wait(seconds, child)
            if child.dead.is_set():
                how = await self._children.kill(child)
                armed = self._ledger.armed
                if armed is not None and armed.ends_process and child.ended == -signal.SIGKILL:
                    self._struck.add(child.process)  # by itself, at the effect
                    self._ledger.arm(None)
                await self._children.replace(instance, child)
                why = None if child.process in self._struck else f"the process {how}"
                self.recording.append(Crashed(instance, self.recording.sending_at(instance), why))

    async def restart(self, keys: Keys) -> None:
        await self._children.restart(keys)
        self.recording.secrets.update(self._children.secrets)
        await self.collect()  # what was done at the end

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        await self._children.redeploy(change, range(self.instances) if only is None else (only,))

    async def crash(self, instance: int) -> None:
        self.recording.append(Crashed(instance, None))
        child = self._children.child(instance)
        self._struck.add(child.process)
        await self._children.replace(instance, child)

    async def wait(self, seconds: float) -> None:
        await self._children.wait(seconds)

    async def arm(self, name: str | None, only: int | None = None) -> None:
        self._watching.cancel()
        self._only_there = only is not None
        self._at = only or 0
        self._ledger.arm(name)
        armed = self._ledger.armed
        if armed is not None and armed.afterwards is not None:
            self._watching = anyio.CancelScope()
            self._children.start_soon(self._watch, self._watching)

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """Let the armed fault strike as soon as its effect is in the ledger."""
        with scope:
            while True:
                if self._is_due():
                    return await self._strike()
                await anyio.sleep(WATCH_SECONDS)

    def _is_due(self) -> bool:
        armed = self._ledger.armed
        return armed is not None and armed.afterwards is not None and self._ledger.since_armed()

    async def _strike(self) -> None:
        armed = self._ledger.armed
        self._ledger.armed = None
        self._strikes += 1
        if armed is not None and armed.afterwards is not None:
            await armed.afterwards(self)

    async def end_instance(self) -> None:
        """Kill the process that the fault is armed at; see `faults.kinds.Struck`."""
        child = self._children.child(self._at)
        self._struck.add(child.process)
        await self._children.kill(child)
        self._ledger.arm(None)  # the next process may go on with the call by itself

    async def let_client_leave(self) -> None:
        """Make the client leave; see `faults.kinds.Struck`."""
        self._leave.set()

    async def collect(self) -> None:
        self._ledger.collect()
