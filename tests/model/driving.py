"""The model's transitions, driven step by step on the real servers.

Two servers of an option stand for the model's two instances. A round stops at a gate before each
effect and before the guard records its outcome, and goes on when the model takes that step. So
the servers do exactly what a path of the model says, and after each step the two are compared: the
gate that the round has reached, the response, and the effects in the ledger.

A crash ends all that an instance has in memory: its rounds never pass another gate. The lease of a
round that a crash has left behind ends at the next request about it.

Time passes for each state by itself, as in the model: a request whose state is not too old arrives
at the time at which that state was handed out, and any other one arrives now.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from secrets import token_hex
from types import CodeType
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp import Client, MCPError

from model.check import MECHANISMS, Cell
from model.destination import KINDS, MOST
from model.guard import Guard
from model.world import (
    CONSENT,
    ENDED,
    FAILED,
    ROUNDS,
    SECOND_ERROR,
    SPENT,
    START_OVER,
    STRANGER,
    TOO_OLD,
)
from model.world import Request as ModelRequest
from mrtr_options.demo.call import agreeable
from mrtr_options.review.bench.client import MODES, PRINCIPAL, principal_of
from mrtr_options.review.bench.deployments import quiet_servers
from mrtr_options.review.bench.redeploys import source
from mrtr_options.review.bench.steps import AGREE
from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.single_use.reservations import Claim
from mrtr_options.sdk.single_use.sql import EPOCHS
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import Destination, MemoryLedger
from mrtr_options.tool.weather import count as count_effects
from tests.bounds import KEY, SECONDS
from tests.model.gates import Gate, GatedLedger, GatedStore
from tests.sdk.fakes import never
from tests.sending import accepted, forms

LETTERS = {
    "nothing kept (E)": "E",
    "nothing kept (F)": "F",
    "nothing kept (J)": "J",
    "frame in memory (H)": "H",
    "guard (F)": "F",
    "guard, named by key (J)": "J",
    "guard, named by argument (J)": "J",
}
"""The option in each mechanism that is driven."""

DESTINATIONS: dict[str, Destination] = dict(
    zip(KINDS, ("ignores keys", "honours keys", "business key"), strict=True)
)
TTL_SECONDS = 10.0
"""How long a state is good for: much shorter than a durable call waits for an answer."""
LEASE_SECONDS = 60.0
KEEP_SECONDS = 1000 * LEASE_SECONDS
REASONS = {
    SECOND_ERROR: {"indeterminate"},
    START_OVER: {"unknown_continuation", "other_version"},
    SPENT: {"answered_differently"},
    TOO_OLD: {"request_state_expired", "call_key_expired"},
    FAILED: {"None", "indeterminate"},
    ENDED: {"None", "indeterminate"},
}
"""The reasons on the wire of the model's errors."""
USERS = {STRANGER: "bob"}
"""The user of each attempt; alice, if nobody else."""


NUMBERS = {"Which": 1, "Which units for": 2, "The report for": CONSENT}
"""The number of a question by its first words."""


async def otherwise(form: types.ElicitRequestFormParams) -> types.ElicitResult:
    """Answer a form with other choices than the agreeable user's."""
    content: JsonObject = {}
    for name, schema in form.requested_schema["properties"].items():
        content[name] = next(each for each in schema["enum"] if each != AGREE[name])
    return types.ElicitResult(action="accept", content=content)


@cache
def code_of(letter: str, version: int) -> CodeType:
    """Return the code of an option: as it is, or with one more question."""
    option = option_named(letter)
    text = option.source if version == 1 else source(option, "inserted")
    assert text is not None
    return compile(text, option.path, "exec")


class Differs(AssertionError):
    """A difference between the model and the code."""


@dataclass
class Sent:
    """A request of the client as it is on the wire. `asked` is the response that it answers."""

    asked: types.InputRequiredResult | None = None
    answers: types.InputResponses | None = None
    key: str | None = None
    user: str = "alice"

    @property
    def state(self) -> str | None:
        """The state that it carries."""
        return None if self.asked is None else self.asked.request_state


class Servers:
    """The real servers of a cell, and the client's memory.

    Attributes:
        gates: The gate of each instance's present process.
        requests: The client's requests, by the model's.
        late: How much later than now the latest lease of a dead process was looked at.
        versions: The version of each instance.
        time: The time by which states age; `at` is the time at which the latest request arrived.
        born: The time at which each state was handed out.
        replies: The latest question in response to each of them, by the question's number, too.
    """

    def __init__(self, cell: Cell, group: TaskGroup) -> None:
        self.cell = cell
        self.ledger = MemoryLedger(DESTINATIONS[cell.destination])
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
        self.now = time.time()
        self.late = 0.0
        self.store = SqliteStore(":memory:", keep_seconds=KEEP_SECONDS, clock=lambda: self.now)
        self.group = group
        self.time = self.at = self.now
        self.born: dict[str, float] = {}
        self.versions = [1, 1]
        self.gates = [Gate(), Gate()]
        self.clients: list[Client | None] = [None, None]
        self.requests = {ModelRequest(1, 1): Sent(key=self.new_key())}
        self.replies: dict[tuple[ModelRequest, int], Any] = {}
        self.stopped = anyio.Event()

    def new_key(self) -> str | None:
        """Return a call key for another intention, if this client sends keys."""
        return new_call_key() if self.mechanism.client_sends_key else None

    async def client(self, index: int) -> Client:
        """Return a client of an instance, which starts with its first request."""
        found = self.clients[index]
        if found is None:
            letter = LETTERS[self.cell.mechanism]
            code = code_of(letter, self.versions[index])
            server = load(option_named(letter).path, self.settings(self.gates[index]), code=code)
            found = self.clients[index] = await self.group.start(self.serve, server)
        return found

    def settings(self, gate: Gate) -> Settings:
        """Return the settings of an instance."""
        wrappers = []
        if isinstance(self.mechanism, Guard):
            wrappers = [self.guard(gate, self.mechanism)]
        return Settings(
            GatedLedger(self.ledger, gate),
            wrappers,
            keys=[KEY.encode()],
            ttl_seconds=TTL_SECONDS,
            principal=principal_of,
            clock=lambda: self.at,
        )

    def guard(self, gate: Gate, mechanism: Guard) -> Callable[[Any], Any]:
        """Return the guard as one instance has it. No delivery waits for another one."""
        return single_use(
            cast("Any", GatedStore(self.store, gate)),
            call="location" if mechanism.name == "argument" else None,
            call_seconds=KEEP_SECONDS,
            wait_seconds=0,
            round_seconds=LEASE_SECONDS,
            attempts=2 if mechanism.repeats else 1,
        )

    async def serve(self, server: Any, *, task_status: Any) -> None:
        """Run a server in memory until the run is over."""
        async with Client(server, mode=MODES["modern"], elicitation_callback=never) as client:
            task_status.started(client)
            await self.stopped.wait()

    def stop(self) -> None:
        """End every round and every server."""
        for gate in self.gates:
            gate.die()
        self.stopped.set()

    async def take(self, index: int, request: ModelRequest, *, late: bool, old: bool) -> Gate:
        """Deliver a request, and wait until its round stops at a gate or ends.

        Args:
            index: The instance.
            request: The model's request.
            late: Whether the lease of a round that a crash has left behind has ended.
            old: Whether its state is too old, or its call key if it has no state.
        """
        client = await self.client(index)
        gate = self.gates[index]
        gate.reply = None
        sent = self.requests[request]
        self.at = self.arrival(sent, old=old)
        ahead = 0.0
        if late:  # later than a lease that was taken at such a moment before
            self.late += 2 * LEASE_SECONDS
            ahead = self.late
        if sent.state is None and old:
            ahead = 2 * KEEP_SECONDS
        self.now += ahead
        self.group.start_soon(self.send, client, gate, sent)
        await gate.until_moved()
        self.now -= ahead
        return gate

    def arrival(self, sent: Sent, *, old: bool) -> float:
        """Return the time by which a request's state is looked at."""
        if sent.state is None:
            return self.time
        born = self.born[sent.state]
        return max(self.time, born + 2 * TTL_SECONDS) if old else born

    async def send(self, client: Client, gate: Gate, sent: Sent) -> None:
        """Send a request and note its response."""
        meta: Any = {PRINCIPAL: sent.user}
        if sent.key is not None:
            meta[CALL_KEY] = sent.key
        try:
            reply = await client.session.call_tool(
                TOOL,
                {"location": "Springfield"},
                input_responses=sent.answers,
                request_state=sent.state,
                allow_input_required=True,
                meta=meta,
            )
        except MCPError as error:
            reply = error
        except asyncio.CancelledError:
            if not gate.is_dead:
                raise
            return  # a process that has died answers nothing
        if gate.is_dead:
            return
        if isinstance(reply, types.InputRequiredResult) and reply.request_state is not None:
            self.born.setdefault(reply.request_state, self.at)
        gate.end(reply)

    async def crash(self, index: int) -> None:
        """End a process. The next request to this instance finds a new one."""
        self.gates[index].die()
        self.gates[index] = Gate()
        self.clients[index] = None

    async def replace(self, index: int) -> None:
        """Replace an instance by one of version 2."""
        await self.crash(index)
        self.versions[index] = 2

    def pass_time(self) -> None:
        """Let all states that were handed out be too old."""
        self.time += 2 * TTL_SECONDS

    async def forget(self) -> None:
        """Let the guard's store forget its calls, as it does when other rounds are taken later."""
        for _ in range(EPOCHS + 1):
            self.now += KEEP_SECONDS
            stamp = await self.store.stamp()
            claim = Claim(token_hex(), "", self.now, LEASE_SECONDS, mark=stamp.mark)
            await self.store.reserve(claim)
            await self.store.record(claim, "{}")

    # --- the client ---

    async def answer(self, before: ModelRequest, after: ModelRequest, question: int = 0) -> None:
        """Answer a question that the client got, or that of a request once more."""
        sent = self.requests[before]
        asked = self.replies[before, question] if question else sent.asked
        assert asked is not None
        ((key, form),) = forms(asked).items()
        answers = {key: await (otherwise(form) if after.changed else agreeable(form))}
        self.requests[after] = replace(sent, asked=asked, answers=answers)

    def answer_early(self, before: ModelRequest, after: ModelRequest) -> None:
        """Answer every question in the first request."""
        answers = {name: accepted(**{name: AGREE[name]}) for name in ("place", "units")}
        self.requests[after] = replace(self.requests[before], answers=answers)

    def call(self, request: ModelRequest) -> None:
        """Make another call."""
        user = USERS.get(request.attempt, "alice")
        self.requests[request] = Sent(key=self.new_key(), user=user)

    async def effects(self) -> tuple[int, int]:
        """Return how many audits and bills took place, as far as the model counts."""
        done = count_effects(await self.ledger.effects())
        return min(MOST, done["audit"]), min(MOST, done["bill"])


@asynccontextmanager
async def servers_of(cell: Cell) -> AsyncGenerator[Servers]:
    """Start servers of a cell for one run."""
    async with AsyncExitStack() as stack:
        stack.enter_context(quiet_servers())
        group = await stack.enter_async_context(anyio.create_task_group())
        servers = Servers(cell, group)
        stack.callback(servers.store.close)
        stack.callback(servers.stop)
        with anyio.fail_after(SECONDS):
            yield servers


def kind_of(reply: Any) -> tuple[int, str]:
    """Return a response as the model has it: the number of its question, and its error's reason."""
    if isinstance(reply, MCPError):
        data: JsonObject = reply.error.data or {}
        return 0, str(data.get("reason"))
    if isinstance(reply, types.InputRequiredResult):
        (question,) = forms(reply).values()
        return NUMBERS[question.message.partition(" Springfield")[0]], ""
    if reply is None:
        return 0, "none yet"
    return (0, "an error as a result") if reply.is_error else (ROUNDS, "")
