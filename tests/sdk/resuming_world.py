"""A server with one tool, the network before it, and a user, for tests of the client's half."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.server import Server

from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.questions import answer_to, ask, load_state
from mrtr_options.sdk.resuming import QuestionContext, ResumingClient
from mrtr_options.sdk.resuming.open_calls import KeptCall
from mrtr_options.sdk.server import protect
from mrtr_options.sdk.settings import Settings
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.testing import Losing
from tests.bounds import SECONDS
from tests.sdk.fakes import Context, Params, result, who
from tests.sdk.guarded_tool import State
from tests.sending import Response, text_of

ADA = types.ElicitResult(action="accept", content={"name": "Ada"})
CALLED = KeptCall(server="", principal="", tool="tool", arguments={"x": 1})


@dataclass
class World:
    """A server with one tool, the network before it, and a user.

    Attributes:
        lost: The numbers of the requests whose responses are lost.
        refused: The numbers of the connections that cannot be made.
        raises: The errors of refused requests, by their number.
        taken_for_old: The connections on which the client takes the server for a legacy one.
        hints: The tool's annotations.
        lists: Lists the tools after a cursor, in place of the server.
        guard: A wrapper around the tool.
        questions: The keys of the tool's questions, in order.
        caller: The client's principal.
        now: The server's clock.
        answers: Answers a question, in place of the user.
        requests, effects: The requests that the server got, and the effects that it did.
        asked: The questions that the user saw.
        contexts: The contexts of these questions.
        connections: The number of connections so far.
    """

    lost: set[int] = field(default_factory=set[int])
    refused: set[int] = field(default_factory=set[int])
    hints: types.ToolAnnotations | None = None
    guard: Callable[[Any], Any] = lambda handler: handler
    questions: tuple[str, ...] = ("who",)
    raises: dict[int, MCPError] = field(default_factory=dict[int, MCPError])
    old: bool = False
    caller: str | None = None
    now: Callable[[], float] = time.time
    keys: list[bytes] = field(default_factory=lambda: [new_key()])
    taken_for_old: set[int] = field(default_factory=set[int])
    lists: Callable[[str | None], Awaitable[types.ListToolsResult]] | None = None
    answers: Callable[[], Awaitable[types.ElicitResult]] | None = None
    requests: list[Params] = field(default_factory=list[Params])
    effects: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    contexts: list[QuestionContext] = field(default_factory=list[QuestionContext])
    connections: int = 0

    def __post_init__(self) -> None:
        self._losing = Losing(self.lost)

    async def _tool(self, ctx: Context, params: Params) -> Response:
        asked = load_state(params, State).asked
        if asked and answer_to(who(self.questions[asked - 1]), ctx, params) is None:
            asked -= 1
        if asked < len(self.questions):
            self.effects += ["audit"] if params.request_state is None else []
            return ask(who(self.questions[asked]), State(asked=asked + 1))
        self.effects.append("bill")
        return result("done")

    def client(self, **options: Any) -> ResumingClient:
        """Make a client of the server, for the length of a block."""
        handler = self.guard(self._tool)

        async def call(ctx: Context, params: Params) -> Response:
            self.requests.append(params)
            number = len(self.requests)
            is_lost = self._losing.loses_next()
            if number in self.raises:
                raise self.raises[number]
            reply = await handler(ctx, params)
            if is_lost:
                raise MCPError(types.CONNECTION_CLOSED, "Connection closed")
            return reply

        async def tools(ctx: Context, params: Any) -> types.ListToolsResult:
            if self.lists is not None:
                return await self.lists(params.cursor)
            tool = types.Tool(name="tool", input_schema={"type": "object"}, annotations=self.hints)
            return types.ListToolsResult(tools=[tool])

        async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            self.asked.append(params.message)
            self.contexts.append(context)
            return ADA if self.answers is None else await self.answers()

        def connect() -> Client:
            self.connections += 1
            if self.connections in self.refused:
                raise OSError("the connection is refused")
            server = Server("tool", version="1", on_call_tool=call, on_list_tools=tools)
            settings = Settings(keys=self.keys, clock=self.now, principal=lambda ctx: self.caller)
            protect(server, settings, sealed=False)
            mode = "legacy" if self.old or self.connections in self.taken_for_old else "auto"
            return Client(server, elicitation_callback=fill_in, mode=mode)

        whose = {key: options.pop(key, "") for key in ("server", "principal")}
        options.setdefault("pause_seconds", 0.001)
        return ResumingClient(connect, **whose, **options)

    async def call(self, *, key: str | None = None, **options: Any) -> str:
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                found = await client.call_tool("tool", {"x": 1}, key=key)
        return text_of(found)

    async def resume(self, call: KeptCall, **options: Any) -> str:
        with anyio.fail_after(SECONDS):
            async with self.client(**options) as client:
                return text_of(await client.resume(call))


@asynccontextmanager
async def guarded(**more: Any) -> AsyncGenerator[World]:
    store = SqliteStore(":memory:", keep_seconds=3600)
    world = World(**more)
    if "guard" not in more:
        world.guard = single_use(store)
    try:
        yield world
    finally:
        store.close()
