"""The durable record (options L and K), driven step by step on its real engine: DBOS on SQLite.

The model's two instances are two servers on one engine. As in the model, a call runs on the
instance that took its latest request, and one that a crash has left behind waits for the next
request about it: here the engine asks the driver where a call runs.

A round stops before each effect and between an effect and its record. A round without an effect has
no place at which it stops: it is on record when it has begun.
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
from anyio.abc import TaskGroup
from mcp import Client
from mcp.server.request_state import AESGCMRequestStateCodec

from model.actions import Crashes, IsReplaced
from model.check import Cell
from model.world import Request as ModelRequest
from model.world import Response, World
from mrtr_options.review.bench.client import MODES, principal_of
from mrtr_options.review.bench.redeploys import write
from mrtr_options.sdk.durable import embedded
from mrtr_options.sdk.durable.context import ATTEMPTS
from mrtr_options.sdk.durable.live import Left
from mrtr_options.sdk.telemetry import without_name
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import Effect
from tests.bounds import KEY, SECONDS
from tests.model.driving import TTL_SECONDS, Sent, Servers, asked_back, kind_of
from tests.model.gates import EFFECTS, Gate, GatedLedger
from tests.model.walking import Drive, Graph, Move, Waits

SETTLES_SECONDS = 5.0
"""How long a round may take to its next gate or to its end."""


class StepLedger(GatedLedger):
    """The ledger as one instance has it: its round waits before each effect and behind it."""

    async def record(self, effect: Effect) -> None:
        """Record an effect when the model does, and return when the model records the step."""
        await super().record(effect)
        await self.gate.stop("record")


@dataclass
class Life:
    """The life of one process of an instance."""

    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)


class EngineServers(Servers):
    """Two servers on one engine.

    Attributes:
        engines: The engine of each instance's store.
        places: The instance on which each call runs; none for one that waits.
        handles: The engine's names of calls, by call key.
        own: The call that each instance worked on last.
        begun: The calls whose first request has no name and got no response, by attempt.
    """

    def __init__(
        self, cell: Cell, group: TaskGroup, process: embedded.Process, letter: str, folder: Path
    ) -> None:
        super().__init__(cell, group)
        self.process = process
        self.letter = letter
        self.folder = folder
        self.database = process.apart()
        self.engines: list[embedded.Engine | None] = [None, None]
        self.lives: list[Life | None] = [None, None]
        self.places: dict[str, int] = {}
        self.handles: dict[str, str] = {}
        self.own = ["", ""]
        self.begun: defaultdict[int, list[str]] = defaultdict(list)

    def settings(self, index: int) -> Settings:
        """Return the settings of an instance."""
        return Settings(
            StepLedger(self.ledger, self.gates[index]),
            keys=[KEY.encode()],
            ttl_seconds=TTL_SECONDS,
            principal=principal_of,
            clock=lambda: self.at,
            database=self.database,
        )

    def load(self, index: int, settings: Settings) -> Any:
        """Load the server of an instance, not yet serving. Calls are bound to the file's text."""
        option = option_named(self.letter)
        is_next = self.versions[index] > 1
        return load(write(option, "inserted", self.folder) if is_next else option.path, settings)

    async def client(self, index: int) -> Client:
        """Return a client of an instance, which starts with its first request."""
        found = self.clients[index]
        if found is None:
            life = self.lives[index] = Life()
            server = self.load(index, self.settings(index))
            found = self.clients[index] = await self.group.start(self.live, server, life)
            self.engines[index] = self.process.stores[-1]
        return found

    async def live(self, server: Any, life: Life, *, task_status: Any) -> None:
        """Run a server in memory until its process ends."""
        try:
            mode = MODES["modern"]
            async with Client(server, mode=mode, elicitation_callback=asked_back) as client:
                task_status.started(client)
                await life.stop.wait()
        finally:
            life.ended.set()

    def stop(self) -> None:
        """End every round and every server."""
        super().stop()
        for life in self.lives:
            if life is not None:
                life.stop.set()

    async def crash(self, index: int) -> None:
        """End a process. The calls that ran in it wait; a process that dies stops none of them."""
        engine = self.engines[index]
        if engine is not None:
            engine.stop = left_as_it_is
        self.gates[index].is_dead = True
        self.gates[index] = Gate()
        self.clients[index] = self.engines[index] = None
        life = self.lives[index]
        self.lives[index] = None
        self.places = {call: place for call, place in self.places.items() if place != index}
        if life is not None:
            life.stop.set()
            await life.ended.wait()

    def store_of(self, name: str, handle: str) -> embedded.Engine | None:
        """Return the store on which a call runs; None while it waits."""
        place = self.places.get(handle)
        engine = self.process.beginning.get(handle)
        if engine not in self.process.stores and place is not None:
            engine = self.engines[place]
        is_here = engine in self.process.stores
        return engine if engine is not None and is_here and name in engine.names else None

    async def take(self, index: int, request: ModelRequest, *, late: bool, old: bool) -> Gate:
        """Deliver a request to an instance, on which its call runs from now on."""
        await self.client(index)
        sent = self.requests[request]
        handle = self.handle_of(sent)
        if handle is not None and not self.is_at_work(handle):
            await self.move(handle, index)
            self.own[index] = handle
        before = set(self.process.live)
        gate = await super().take(index, request, late=False, old=old)
        for new in set(self.process.live) - before:
            self.places[new] = index
            self.own[index] = new
            if sent.key is not None:
                self.handles[sent.key] = new
            else:
                self.begun[request.attempt].append(new)
        return gate

    def handle_of(self, sent: Sent) -> str | None:
        """Return the engine's name of a request's call; None for a new one."""
        if sent.state is None:
            return self.handles.get(sent.key or "")
        codec = AESGCMRequestStateCodec([KEY.encode()])
        claims = json.loads(without_name(codec.unseal(sent.state)))
        return str(claims["s"]).partition(".")[0]

    async def until_recorded(self, index: int) -> None:
        """Wait until the call that an instance goes on with by itself asks again or has ended."""
        live = self.process.live.get(self.own[index])
        if live is not None:
            with suppress(Left):
                await live.until(lambda: live.record.output is not None)

    async def go_on(self, index: int, request: ModelRequest) -> Gate:
        """Let an instance go on with a call that a crash has left behind."""
        await self.client(index)
        handle = self.handle_of(self.requests[request])
        if handle is None:
            waiting = [
                each for each in self.begun[request.attempt] if each not in self.process.live
            ]
            handle = waiting[-1]
        gate = self.gates[index]
        gate.reply = gate.request = None
        self.own[index] = handle
        await self.move(handle, index)
        return gate

    def is_at_work(self, handle: str) -> bool:
        """Return whether a round of a call waits at a gate."""
        place = self.places.get(handle)
        if place is None:
            return False
        return bool(self.gates[place].at) and self.own[place] == handle

    async def move(self, handle: str, index: int) -> None:
        """Let a call run on an instance."""
        self.places[handle] = index
        live = self.process.live.get(handle)
        if live is not None and live.store is not self.engines[index]:
            await live.leave()
        self.process.bell.ring()


@dataclass
class EngineDrive(Drive):
    """A path of the model, as far as it has been driven on an engine."""

    broken: int = 0

    @property
    def engine(self) -> EngineServers:
        """The servers."""
        assert isinstance(self.servers, EngineServers)
        return self.servers

    @property
    def is_over(self) -> bool:
        """Return whether the next end of a process may let the engine give up a call's step."""
        return self.broken == ATTEMPTS - 1

    async def go(self, move: Move) -> None:
        """Do an action on both sides, and compare them; count the rounds that a crash breaks."""
        match move.does:
            case Crashes(instance) | IsReplaced(instance) if self.world.instances[instance].work:
                self.broken += 1
            case _:
                pass
        await super().go(move)

    async def go_on(self, index: int, request: ModelRequest, after: World) -> None:
        """Let an instance go on with a round by itself."""
        gate = await self.engine.go_on(index, request)
        work = after.instances[index].work
        assert work is not None
        await self.compare_place(gate, index, work.request, work.steps)

    async def open(self, gate: Gate, index: int) -> None:
        """Let the round of an instance take its step, and wait until it has."""
        is_end = gate.request is None and gate.at == "record"
        gate.let()
        if is_end:
            await self.engine.until_recorded(index)

    async def fail(self, gate: Gate, index: int) -> None:
        """Let the effect fail at which the round of an instance waits."""
        gate.fails = True
        gate.let()
        await self.engine.until_recorded(index)
        gate.fails = False

    async def compare_reply(self, gate: Gate, expected: Response) -> None:
        """Compare a response, if there is one.

        A request of an earlier round lets a broken round go on, and gets its own response.
        """
        if gate.request is None:
            return
        if gate.request.round < expected.request.round:
            await self.settle(gate, "")
            expected = Response(gate.request, kind_of(gate.reply)[0])
        await super().compare_reply(gate, expected)

    async def settle(self, gate: Gate, expected: str) -> None:
        """Wait until a round is where the model has it, for a bounded time."""
        with anyio.move_on_after(SETTLES_SECONDS):
            while gate.at != expected or (not expected and gate.reply is None):
                await gate.until_moved()

    def place_of(self, index: int, request: ModelRequest, steps: tuple[str, ...]) -> str:
        """Return the step at which a round has to wait; "" at its end."""
        has_effect = bool(self.graph.mechanism.effects(self.world, index, request))
        is_gate = steps[0] in EFFECTS or (steps[0] == "record" and has_effect)
        return steps[0] if is_gate else ""


class EngineGraph(Graph):
    """The model's graph of the durable record. A request that has to wait is not delivered."""

    def waits(self, world: World) -> Iterator[Waits]:
        """Yield nothing."""
        return iter(())


async def left_as_it_is(handle: str) -> None:
    """Leave a call as it is."""


@dataclass
class Engine:
    """An engine that runs are begun on, one after another."""

    process: embedded.Process
    letter: str
    folder: Path

    @asynccontextmanager
    async def begin(self, graph: Graph) -> AsyncGenerator[Drive]:
        """Begin a run."""
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(anyio.create_task_group())
            servers = EngineServers(graph.cell, group, self.process, self.letter, self.folder)
            stack.callback(servers.store.close)
            stack.callback(servers.stop)
            stack.enter_context(patch.object(self.process, "store_of", servers.store_of))
            with anyio.fail_after(SECONDS):
                yield EngineDrive(graph, servers)


@asynccontextmanager
async def running(letter: str, folder: Path) -> AsyncGenerator[Engine]:
    """Run an engine for option L or K."""
    with patch.object(embedded, "AGAIN_SECONDS", 0):
        async with embedded.process(f"sqlite:///{folder / 'calls.sqlite'}") as process:
            yield Engine(process, letter, folder)
