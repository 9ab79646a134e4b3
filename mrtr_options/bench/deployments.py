"""Where a schedule is run in memory: one instance, or two that share keys, ledger and store.

An instance is a fresh load of the option's file with a client connected to it. Two instances share
nothing but what is named here, as two processes would not. Real processes are in `processes`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import anyio
import anyio.abc
import anyio.lowlevel
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.client.extension import advertise
from mcp.client.session import ClientRequestContext, ElicitationFnT
from pydantic import RootModel, TypeAdapter

from mrtr_options.bench.observations import HUNG, LOST, Reply
from mrtr_options.bench.observe import MODES
from mrtr_options.bench.redeploys import form_of, write
from mrtr_options.bench.schedules import Change, Fault
from mrtr_options.bench.subjects import Column, make_wrappers
from mrtr_options.sdk.single_use import SqliteStore
from mrtr_options.sdk.tasks_wire import IDENTIFIER
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.protection import KEYS_VARIABLE, new_key
from mrtr_options.tool.server import TOOL, Context
from mrtr_options.tool.settings import LEDGER_VARIABLE, Settings

HANG_SECONDS = 30.0
"""How long one request may take before it is called hung. Long, since a machine that is busy, or stands
still for a while, is no finding; nothing that answers waits for it."""

Method = Literal["tools/call", "tasks/get", "tasks/update", "tasks/cancel"]

PRINCIPAL = "mrtr-options/principal"
"""The `_meta` entry that says, under review, who is calling."""


@dataclass(frozen=True)
class Request:
    """One request of a client's.

    Attributes:
        location: The tool's argument.
        answers: By key.
        state: The token.
        principal: Who is calling.
        asks: Whether the client declares elicitation.
        method: `tools/call`, or one that is about a task.
        task: The id of the task that it is about.
        takes_tasks: Whether the client declares the Tasks extension.
    """

    location: str = ""
    answers: types.InputResponses | None = None
    state: str | None = None
    principal: str = "alice"
    asks: bool = True
    method: Method = "tools/call"
    task: str = ""
    takes_tasks: bool = False

    @property
    def capabilities(self) -> Capabilities:
        """What the client declares."""
        return self.asks, self.takes_tasks


Capabilities = tuple[bool, bool]
"""Whether a client declares elicitation, and whether it declares the Tasks extension."""


def client_of(server: Any, capabilities: Capabilities) -> Client:
    """A client of the modern era that declares so much."""
    asks, takes_tasks = capabilities
    return Client(
        server,
        mode=MODES["modern"],
        elicitation_callback=unused if asks else None,
        extensions=[advertise(IDENTIFIER)] if takes_tasks else [],
    )


class Deployment(Protocol):
    """One or more instances of a server, and the world around them."""

    @property
    def name(self) -> str: ...
    @property
    def instances(self) -> int:
        """How many there are."""
        ...

    async def send(self, instance: int, request: Request) -> Reply:
        """Send one request to an instance of the modern era."""
        ...

    async def call_legacy(self, location: str, user: ElicitationFnT | None, gone: anyio.Event) -> Reply:
        """Make one call as a legacy client, which leaves when `gone` is set."""
        ...

    async def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        """Replace every instance."""
        ...

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        """Replace every instance, or only one, by one with another version of the file."""
        ...

    async def arm(self, fault: Fault | None, only: int | None = None) -> None:
        """Let something go wrong in the next request, or only on one instance; None for nothing."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def effects(self) -> dict[weather.EffectKind, int]:
        """What has happened to the outside world."""
        ...

    @property
    def entries(self) -> dict[str, int]:
        """How often each function of the author's was entered, where that can be seen."""
        ...


def principal_of(ctx: Context) -> str | None:
    """Who is calling, under review: what the request's `_meta` says."""
    meta: dict[str, Any] = (ctx.params or {}).get("_meta") or {}
    return meta.get(PRINCIPAL)


def next_ring(keys: list[bytes], change: Literal["same", "rotated", "new"]) -> list[bytes]:
    """The ring of keys after a restart."""
    if change == "same":
        return keys
    return [new_key(), *keys] if change == "rotated" else [new_key()]


async def exchange(client: Client, request: Request) -> Reply:
    """Send one request and read what comes back."""
    if request.takes_tasks or request.task:
        return await _exchange_as_task(client, request)
    meta = cast("types.RequestParamsMeta", {PRINCIPAL: request.principal})
    try:
        result = await client.session.call_tool(
            TOOL,
            {"location": request.location},
            input_responses=request.answers,
            request_state=request.state,
            meta=meta,
            allow_input_required=True,
        )
    except MCPError as error:
        return Reply(code=error.code, message=error.message)
    if isinstance(result, types.CallToolResult):
        texts = (block.text for block in result.content if isinstance(block, types.TextContent))
        return Reply(text="\n".join(texts), is_error=result.is_error)
    requests, state = result.input_requests or {}, result.request_state
    return replace(_asking(requests), state=state, later=bool(state) and not requests)


class _Call(types.Request[dict[str, Any], str]):
    name_param = "name"


class _OfTask(types.Request[dict[str, Any], str]):
    name_param = "taskId"


async def _exchange_as_task(client: Client, request: Request) -> Reply:
    """The same for a client that takes tasks, and for every request that is about one."""
    params: dict[str, Any] = {"_meta": {PRINCIPAL: request.principal}}
    if request.method == "tools/call":
        params |= {"name": TOOL, "arguments": {"location": request.location}}
    else:
        params["taskId"] = request.task
    if request.method == "tasks/update":
        answers = request.answers or {}
        params["inputResponses"] = {
            key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, answer in answers.items()
        }
    sent = (_Call if request.method == "tools/call" else _OfTask)(method=request.method, params=params)
    try:
        found = (await client.session.send_request(sent, RootModel[dict[str, Any]])).root
    except MCPError as error:
        return Reply(code=error.code, message=error.message)
    status, task = found.get("status"), found.get("taskId")
    if "error" in found:  # a failed task's; not if it has failed before its handle is out
        return Reply(code=found["error"]["code"], message=found["error"]["message"], status=status)
    result: dict[str, Any] = found.get("result") or found
    if "content" in result:
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        return Reply(text=text, is_error=result.get("isError", False), task=task, status=status)
    requests = _REQUESTS.validate_python(found.get("inputRequests") or {})
    return replace(_asking(requests), task=task, status=status)


_REQUESTS: TypeAdapter[types.InputRequests] = TypeAdapter(types.InputRequests)


def _asking(requests: types.InputRequests) -> Reply:
    forms = {
        key: form_of(asked)
        for key, asked in requests.items()
        if isinstance(asked, types.ElicitRequest)
        and isinstance(asked.params, types.ElicitRequestFormParams)
    }
    return Reply(
        questions={key: message for key, (message, _) in forms.items()},
        forms={key: choices for key, (_, choices) in forms.items()},
    )


@contextmanager
def environment(ledger: Path, keys: list[bytes]) -> Generator[None]:
    """While a stranger's file is loaded: the ledger and the keys, where docs/CONTRACT.md says."""
    before = dict(os.environ)
    ring = ",".join(key.decode() for key in keys)
    os.environ.update({LEDGER_VARIABLE: str(ledger), KEYS_VARIABLE: ring})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class FaultyLedger:
    """A ledger at which things go wrong as they were armed to.

    Every effect takes a turn of the event loop, so that two deliveries at once really interleave.

    Attributes:
        fault: What goes wrong at the next effect of its kind.
        death: What was raised when the instance died of it; a Ctrl-C may come at the same time.
        disconnect: Makes the client leave.
        turns: How many turns of the event loop an effect takes.
        used: Whether any effect came this way. A stranger's file may have a ledger of its own.
    """

    def __init__(self, ledger: weather.Ledger) -> None:
        self._ledger = ledger
        self.fault: Fault | None = None
        self.death: BaseException | None = None
        self.disconnect: Callable[[], object] = lambda: None
        self.turns = 1
        self.used = False

    async def record(self, effect: weather.Effect) -> None:
        self.used = True
        for _ in range(self.turns):
            await anyio.lowlevel.checkpoint()
        fault = self.fault
        if fault is None or fault.at != effect.kind:
            await self._ledger.record(effect)
            return
        self.fault = None
        if fault.what == "fail":
            raise OSError("the destination is down")
        await self._ledger.record(effect)
        if fault.what == "crash":
            # As good as dying: no `except Exception` sees it, and nothing more is written.
            self.death = anyio.get_cancelled_exc_class()()
            raise self.death
        self.disconnect()
        await anyio.lowlevel.checkpoint()

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


@dataclass
class _Instance:
    server: Any
    wanted: MemoryObjectSendStream[tuple[Capabilities, anyio.Event]]
    clients: dict[Capabilities, Client] = field(default_factory=dict[Capabilities, Client])
    stopped: anyio.Event = field(default_factory=anyio.Event)


class MemoryDeployment:
    """Instances in this process, with in-memory clients.

    Args:
        column: What is deployed.
        instances: How many.
        folder: For the files that instances share.
        foreign: Whether the file may build its server without `build_server`: the ledger is a file
            then, and the environment names it and the keys while the file is loaded.
        honours_keys: Whether the ledger absorbs an effect whose idempotency key it has seen.
    """

    def __init__(
        self,
        column: Column,
        instances: int,
        folder: Path,
        *,
        foreign: bool = False,
        honours_keys: bool = False,
    ) -> None:
        self._column = column
        self._count = instances
        self._foreign = foreign
        self._ledger_file = folder / "ledger.sqlite"
        self._store = folder / "rounds.sqlite"
        self._database = f"sqlite:///{folder / 'calls.sqlite'}"
        self._folder = folder
        self._versions: list[Change | None] = [None] * instances
        self._keys = [new_key()]
        self._group: anyio.abc.TaskGroup | None = None
        self._running: list[_Instance] = []
        self._offset = 0.0
        self._entries: Counter[str] = Counter()
        self.ledger = FaultyLedger(
            weather.SqliteLedger(self._ledger_file, honours_keys=honours_keys)
            if foreign
            else weather.MemoryLedger(honours_keys=honours_keys)
        )

    @property
    def name(self) -> str:
        return "one" if self._count == 1 else "two"

    @property
    def instances(self) -> int:
        return self._count

    @property
    def entries(self) -> dict[str, int]:
        return dict(self._entries)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[MemoryDeployment]:
        """Start the instances; end them with the block."""
        with self._clock():
            async with anyio.create_task_group() as group:
                self._group = group
                for place in range(self._count):
                    self._running.append(await self._start(place))
                try:
                    yield self
                finally:
                    with anyio.move_on_after(HANG_SECONDS, shield=True):
                        await self._stop_all()
                    group.cancel_scope.cancel()

    @contextmanager
    def _clock(self) -> Generator[None]:
        real = time.time
        time.time = lambda: real() + self._offset
        try:
            yield
        finally:
            time.time = real

    async def _start(self, place: int) -> _Instance:
        option, version = self._column.option, self._versions[place]
        path = option.path if version is None else write(option, version, self._folder)
        opened: list[SqliteStore] = []
        settings = Settings(
            self.ledger,
            keys=self._keys,
            wrappers=make_wrappers(self._column.wrappers, self._store, opened),
            principal=principal_of,
            database=self._database,
        )
        with environment(self._ledger_file, self._keys) if self._foreign else nullcontext():
            server = load(path, settings, on_entry=self._enter)
        assert self._group is not None
        return await self._group.start(self._hold, server, opened)

    def _enter(self, function: str) -> None:
        self._entries[function] += 1

    async def _hold(
        self,
        server: Any,
        opened: list[SqliteStore],
        *,
        task_status: anyio.abc.TaskStatus[_Instance],
    ) -> None:
        # A task of its own for each instance: instances end in any order, their clients' scopes not.
        send, receive = anyio.create_memory_object_stream[tuple[Capabilities, anyio.Event]](1)
        instance = _Instance(server, send)
        try:
            async with AsyncExitStack() as clients, receive:
                clients_of = instance.clients
                usual = Request().capabilities
                clients_of[usual] = await clients.enter_async_context(client_of(server, usual))
                task_status.started(instance)
                async for wanted, connected in receive:  # few schedules have a client of another kind
                    clients_of[wanted] = await clients.enter_async_context(client_of(server, wanted))
                    connected.set()
        finally:  # a second Ctrl-C ends it anywhere, and what stops it waits for it
            for store in opened:
                store.close()
            instance.stopped.set()

    async def _client(self, instance: int, capabilities: Capabilities) -> Client:
        here = self._running[instance]
        if capabilities not in here.clients:
            connected = anyio.Event()
            await here.wanted.send((capabilities, connected))
            await connected.wait()
        return here.clients[capabilities]

    async def _end(self, instance: _Instance) -> None:
        instance.wanted.close()
        await instance.stopped.wait()

    async def _stop_all(self) -> None:
        for instance in self._running:
            await self._end(instance)
        self._running.clear()

    async def send(self, instance: int, request: Request) -> Reply:
        client = await self._client(instance, request.capabilities)
        reply = Reply(nothing=HUNG)
        with anyio.move_on_after(HANG_SECONDS) as scope:
            left = False

            def leave() -> None:
                nonlocal left
                left = True
                scope.cancel()

            self.ledger.disconnect = leave
            try:
                reply = await exchange(client, request)
            except anyio.get_cancelled_exc_class() as error:
                if error is not self.ledger.death:
                    if left:
                        reply = Reply(nothing=LOST)
                    raise
        if self.ledger.death is not None:
            self.ledger.death = None
            await self._replace(instance)
            return Reply(nothing=LOST)
        return reply

    async def call_legacy(self, location: str, user: ElicitationFnT | None, gone: anyio.Event) -> Reply:
        reply = Reply(nothing=HUNG)
        server = self._running[0].server
        with anyio.move_on_after(HANG_SECONDS):
            async with Client(server, mode=MODES["legacy"], elicitation_callback=user) as client:
                reply = await until_gone(client, Request(location), gone)
        return reply

    async def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        await self._stop_all()
        self._keys = next_ring(self._keys, keys)
        for place in range(self._count):
            self._running.append(await self._start(place))

    async def redeploy(self, change: Change | None, only: int | None) -> None:
        for place in range(self._count) if only is None else (only,):
            self._versions[place] = change
            await self._replace(place)

    async def _replace(self, place: int) -> None:
        await self._end(self._running[place])
        self._running[place] = await self._start(place)

    async def arm(self, fault: Fault | None, only: int | None = None) -> None:
        self.ledger.fault = fault

    def wait(self, seconds: float) -> None:
        self._offset += seconds

    async def effects(self) -> dict[weather.EffectKind, int]:
        return weather.count(await self.ledger.effects())


async def until_gone(client: Client, request: Request, gone: anyio.Event) -> Reply:
    """Make a call and wait for its result, unless the client leaves before."""
    reply = Reply(nothing=LOST)
    async with anyio.create_task_group() as group:

        async def call() -> None:
            nonlocal reply
            reply = await exchange(client, request)
            group.cancel_scope.cancel()

        group.start_soon(call)
        await gone.wait()
        group.cancel_scope.cancel()
    return reply


async def unused(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Declares elicitation; the modern era never calls it, since rounds are driven by hand."""
    return types.ErrorData(code=types.INVALID_REQUEST, message="not asked this way")
