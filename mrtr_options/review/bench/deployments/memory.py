"""Instances in this process: fresh loads of one file, each with in-memory clients.

Two instances share keys, ledger and the wrappers' store, and nothing else: like two processes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    chdir,
    contextmanager,
    nullcontext,
    redirect_stdout,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client
from mcp.client.session import ElicitationFnT

from mrtr_options.review.bench.client import client_of, fetch, principal_of
from mrtr_options.review.bench.deployments import (
    CALLS,
    HANG_SECONDS,
    LEDGER,
    Instances,
    Offered,
    environment,
    next_ring,
    quiet_servers,
    scratch,
)
from mrtr_options.review.bench.faults import KINDS
from mrtr_options.review.bench.faults.kinds import Kind
from mrtr_options.review.bench.history import Crashed, Effect, Entered, Failed
from mrtr_options.review.bench.messages import HUNG, LOST, Declares, Reply, Request
from mrtr_options.review.bench.redeploys import write
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Change, Keys
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger import FaultyLedger
from mrtr_options.review.bench.world.watch import (
    Report,
    Watch,
    load_watched,
    watching_the_engine,
)
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from mrtr_options.tool.settings import Settings

if TYPE_CHECKING:
    from mrtr_options.review.bench.world.wrappers import Wrapper


class _Death(asyncio.CancelledError):
    """The end of a process, raised in one of its effects: no `except Exception` catches it."""


Capabilities = tuple[bool, Declares | None, bool]
"""A client's capabilities: whether it can ask, its way to declare that, whether it takes tasks."""


@dataclass
class _Instance:
    """A running instance.

    Attributes:
        server: Its server.
        wanted: The channel for requests whose client has to be connected first.
        clients: The connected clients, by their capabilities.
        stopped: Set when it has ended.
        has_died: Whether it ended in the middle of an effect: none of its responses arrives.
    """

    server: Any
    wanted: MemoryObjectSendStream[tuple[Request, anyio.Event]]
    clients: dict[Capabilities, Client] = field(default_factory=dict[Capabilities, Client])
    stopped: anyio.Event = field(default_factory=anyio.Event)
    has_died: bool = False


class _Ledger(FaultyLedger):
    """The ledger as one instance has it."""

    def __init__(
        self, instances: MemoryInstances, instance: int, ledger: weather.Ledger, turns: int
    ) -> None:
        super().__init__(ledger, turns)
        self._instances = instances
        self._instance = instance
        self._is_dead = False

    def take_fault(self, effect: weather.Effect) -> Kind | None:
        instances = self._instances
        if self._is_dead:  # another request of the process that has died
            raise instances.new_death()
        instances.used = True
        if instances.fault is None or instances.fault.at != effect.kind:
            return None
        fault = instances.fault
        if not fault.lasts:
            instances.fault = None
        return fault

    def note_effect(self, effect: weather.Effect) -> None:
        self._instances.note_effect(self._instance, effect)

    def note_failure(self, effect: weather.Effect) -> None:
        self._instances.note_failure(self._instance, effect)

    async def end_instance(self) -> None:
        self._is_dead = True
        await self._instances.die(self._instance)

    async def let_client_leave(self) -> None:
        self._instances.left |= self._instances.at_work
        for request in self._instances.at_work:
            request.cancel()
        await anyio.lowlevel.checkpoint()


@dataclass(frozen=True)
class Memory:
    """Instances in this process as a deployment.

    Attributes:
        turns: The number of turns of the event loop that an effect takes.
        hang_seconds: The longest time for one request before it is called hung.
        database: Names a database for one run, if an option needs one; see `run.in_memory`.
        versions: A folder for the next versions of the file, which many runs may share. None for
            a folder that goes with the run.
        watch: Notified of the author's lines, and of what is stored in a database.
    """

    turns: int = 1
    hang_seconds: float = HANG_SECONDS
    database: Callable[[Subject], str | None] = lambda subject: None
    versions: Path | None = None
    watch: Watch | None = None

    def cannot(self, scenario: Scenario) -> str | None:
        return None

    @asynccontextmanager
    async def started(
        self, subject: Subject, scenario: Scenario
    ) -> AsyncGenerator[MemoryInstances]:
        """Start fresh instances, with a ledger and stores of their own.

        One instance is enough where rounds go to the instance that asked, and nothing sends one
        elsewhere. What a stranger's code prints goes to standard error: a command's own output is
        read by programs, too.

        Raises:
            CannotLoad: The file is not an option that can be run.
        """
        stays = scenario.setup.fleet == "sticky" and not scenario.script
        alone = stays and not scenario.needs_two
        option = subject.option
        may_share = option.extra is None and not option.is_foreign
        keeps = self.versions if may_share else None
        printed = redirect_stdout(sys.stderr) if option.is_foreign else nullcontext()
        with nullcontext(keeps) if keeps else scratch() as folder, quiet_servers(), printed:
            instances = MemoryInstances(
                self,
                subject,
                1 if alone else scenario.instances,
                folder,
                destination=scenario.setup.destination,
            )
            async with instances.running():
                yield instances


OFFERED = (
    Offered("one", "one instance in memory", Memory(), instances=1),
    Offered("two", "two instances in memory", Memory()),
)


class MemoryInstances(Instances):
    """Instances in this process, with in-memory clients. Enter `running` to use it.

    The ledger of a stranger's file is a file, for it may build its server without `build_server`:
    the environment names ledger and keys while it is loaded. The folder is for what instances
    share.

    Attributes:
        fault: The fault of the next effect of its kind.
        deaths: The exceptions raised when instances died; a Ctrl-C may come at the same time.
        at_work, left: The requests that are at work, and those whose client has left.
        used: Whether any effect came through the ledger. A stranger's file may have its own ledger.
    """

    def __init__(
        self,
        where: Memory,
        subject: Subject,
        instances: int,
        folder: Path,
        *,
        destination: weather.Destination = "ignores keys",
    ) -> None:
        super().__init__(instances, where.hang_seconds)
        self._where = where
        self._subject = subject
        option = subject.option
        # Absolute, since `_apart` changes the current folder.
        self._option = replace(option, path=option.path.absolute())
        self._foreign = subject.option.is_foreign
        self._destination: weather.Destination = destination
        self._files = where.versions or folder
        self._ledger_file = folder / LEDGER
        self._wrap: Callable[[Report | None], list[Wrapper]] = lambda _: []
        self._database = where.database(subject) or f"sqlite:///{folder / CALLS}"
        self._versions: list[Change | None] = [None] * instances
        self._keys = [new_key()]
        self._group: anyio.abc.TaskGroup | None = None
        self._running: list[_Instance] = []
        self._offset = 0.0
        self._let_pass: Callable[[float], None] | None = None
        self._ledger: weather.Ledger = (
            weather.SqliteLedger(self._ledger_file, destination)
            if self._foreign
            else weather.MemoryLedger(destination)
        )
        self._recorded: set[tuple[str, str]] = set()
        self.recording.secrets.update(key.decode() for key in self._keys)
        self.fault: Kind | None = None
        self._has_failed = False
        self.deaths: list[BaseException] = []
        self.at_work = set[anyio.CancelScope]()
        self.left = set[anyio.CancelScope]()
        self.used = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[MemoryInstances]:
        """Start the instances; end them with the block.

        Raises:
            CannotLoad: The file is not an option that can be run.
        """
        apart = self._apart() if self._foreign else nullcontext()
        with apart, self._open_store(), self._watching():
            loaded = [self._load(instance) for instance in range(self.instances)]
            async with anyio.create_task_group() as group:
                self._group = group
                for server in loaded:
                    self._running.append(await group.start(self._hold, server))
                try:
                    yield self
                finally:
                    with anyio.move_on_after(self.hang_seconds, shield=True):
                        await self._stop_all()
                    group.cancel_scope.cancel()

    @contextmanager
    def _open_store(self) -> Generator[None]:
        """Open the store that the wrappers of all instances share."""
        if not self._subject.wrappers:
            yield
            return
        from mrtr_options.review.bench.world.wrappers import opened  # few subjects have a guard

        with opened(self._subject, self._destination, self._clock) as self._wrap:
            yield

    def _clock(self) -> float:
        return time.time() + self._offset

    @contextmanager
    def _apart(self) -> Generator[None]:
        """Put the process on the time of the run, and into its folder, for a stranger's file.

        Its code may read the clock and use relative paths, and the folder must not be the one
        where the author's server keeps its files.
        """
        from mrtr_options.review.bench.world import clock  # needs the extra `review`

        with clock.moved() as self._let_pass, chdir(self._ledger_file.parent):
            yield

    def _wrappers(self, instance: int) -> list[Wrapper]:
        watch = self._where.watch
        if watch is None:
            return self._wrap(None)
        recording = self.recording

        def report(what: str) -> None:
            watch.note_stored(recording.count, instance, recording.sending_at(instance), what)

        return self._wrap(report)

    def _watching(self) -> AbstractContextManager[None]:
        """Watch the durable engine, which all instances share.

        What it keeps is attributed to the sending that is open.
        """
        watch = self._where.watch
        recording = self.recording
        if watch is None or self._subject.option.extra is None:
            return nullcontext()

        def report(what: str) -> None:
            sendings = {each: recording.sending_at(each) for each in range(self.instances)}
            at_work = [each for each, sending in sendings.items() if sending is not None]
            instance = at_work[-1] if at_work else None
            sending = None if instance is None else sendings[instance]
            watch.note_stored(recording.count, instance, sending, what)

        return watching_the_engine(report)

    async def _start(self, instance: int) -> _Instance:
        assert self._group is not None
        return await self._group.start(self._hold, self._load(instance))

    def _load(self, instance: int) -> Any:
        """Load a fresh instance, not yet running."""
        option = self._option
        version = self._versions[instance]
        watch = self._where.watch
        path = option.path if version is None else write(option, version, self._files)
        settings = Settings(
            _Ledger(self, instance, self._ledger, self._where.turns),
            keys=self._keys,
            wrappers=self._wrappers(instance),
            principal=principal_of,
            database=self._database,
            clock=None if self._foreign else self._clock,
        )

        def enter(function: str) -> None:
            self.recording.append(Entered(instance, self.recording.sending_at(instance), function))

        def reach(line: int) -> None:
            if watch is not None:
                recording = self.recording
                watch.note_line(
                    recording.count, path, instance, recording.sending_at(instance), line
                )

        with environment(self._ledger_file, self._keys) if self._foreign else nullcontext():
            return load_watched(path, settings, on_entry=enter, on_line=reach if watch else None)

    async def _hold(self, server: Any, *, task_status: anyio.abc.TaskStatus[_Instance]) -> None:
        # Each instance has a task of its own, since instances end in any order, and the scopes of
        # their clients must not.
        send, receive = anyio.create_memory_object_stream[tuple[Request, anyio.Event]](1)
        running = _Instance(server, send)
        try:
            async with AsyncExitStack() as clients, receive:

                async def connect(like: Request) -> None:
                    client = await clients.enter_async_context(client_of(server, like))
                    running.clients[like.asks, like.declares, like.takes_tasks] = client

                await connect(Request())
                task_status.started(running)
                # Few schedules have a client of another kind.
                async for wanted, connected in receive:
                    await connect(wanted)
                    connected.set()
        finally:  # a second Ctrl-C ends it anywhere, and what stops it waits for it
            running.stopped.set()

    @asynccontextmanager
    async def _client(
        self, instance: int, like: Request, user: ElicitationFnT | None
    ) -> AsyncGenerator[Client]:
        """Yield a client for a request; it stays connected, unless the call is a legacy one."""
        running = self._running[instance]
        if like.era == "legacy":
            async with client_of(running.server, like, user) as client:
                yield client
            return
        kind = (like.asks, like.declares, like.takes_tasks)
        if kind not in running.clients:
            connected = anyio.Event()
            await running.wanted.send((like, connected))
            await connected.wait()
        yield running.clients[kind]

    async def crash(self, instance: int) -> None:
        """End an instance between two requests; another takes its place."""
        self.recording.append(Crashed(instance, None))
        await self._replace(instance)

    async def die(self, instance: int) -> None:
        """End an instance in the middle of an effect; never returns.

        Another takes its place. Then the server of this one stops, and with it what runs in no
        request: an engine's call, a frame. The request ends last.
        """
        self.recording.append(Crashed(instance, self.recording.sending_at(instance)))
        death = self.new_death()
        dying = self._running[instance]
        dying.has_died = True
        self._running[instance] = await self._start(instance)
        await self._end(dying)
        raise death

    def new_death(self) -> BaseException:
        """Return the exception to raise in an effect of a process that has died."""
        death = _Death()
        self.deaths.append(death)
        return death

    async def _end(self, running: _Instance) -> None:
        running.wanted.close()
        await running.stopped.wait()

    async def _stop_all(self) -> None:
        for running in self._running:
            await self._end(running)
        self._running.clear()

    async def send(
        self,
        instance: int,
        request: Request,
        user: ElicitationFnT | None = None,
        gone: anyio.Event | None = None,
    ) -> Reply:
        reply = Reply(nothing=HUNG)
        sent_to = self._running[instance]
        with anyio.move_on_after(self.hang_seconds) as scope:
            self.at_work.add(scope)
            try:
                async with self._client(instance, request, user) as client:
                    reply = await fetch(client, request, gone)
            except anyio.get_cancelled_exc_class() as error:
                if not any(error is death for death in self.deaths):
                    raise
            finally:
                self.at_work.discard(scope)
        if self._has_failed:  # a fault that lasts is over with its round
            self._has_failed = False
            self.fault = None
        if scope in self.left or sent_to.has_died:  # the response may have been faster
            reply = Reply(nothing=LOST)
        if not (self.used and self.at_work):  # an effect may be on its way through the ledger
            await self.collect()
        return reply

    async def restart(self, keys: Keys) -> None:
        await self._stop_all()
        self._keys = next_ring(self._keys, keys)
        self.recording.secrets.update(key.decode() for key in self._keys)
        for instance in range(self.instances):
            self._running.append(await self._start(instance))

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        chosen = range(self.instances) if only is None else (only,)
        for instance in chosen:
            self._versions[instance] = change
            await self._replace(instance)

    async def _replace(self, instance: int) -> None:
        await self._end(self._running[instance])
        self._running[instance] = await self._start(instance)

    async def arm(self, name: str | None, only: int | None = None) -> None:
        self.fault = None if name is None else KINDS[name]

    async def wait(self, seconds: float) -> None:
        if self._let_pass is None:
            self._offset += seconds
        else:
            self._let_pass(seconds)

    def note_effect(self, instance: int, effect: weather.Effect) -> None:
        """Record an effect of an instance."""
        identity = weather.identity_of(effect, self._destination)
        absorbed = identity in self._recorded
        if identity is not None:
            self._recorded.add(identity)
        sending = self.recording.sending_at(instance)
        self.recording.append(Effect(instance, sending, effect, absorbed))

    def note_failure(self, instance: int, effect: weather.Effect) -> None:
        """Record the failure of an effect of an instance."""
        self._has_failed = True
        self.recording.append(Failed(instance, self.recording.sending_at(instance), effect.kind))

    async def collect(self) -> None:
        if self._foreign and await self._record_new(self._ledger):
            self.can_strike = False  # its code writes to the file by itself
