"""What the smallest inputs share: a registry, a server of one tool, and a client driven by hand.

Uses public names alone, since these files are also played on older packages.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.extension import ClientExtension
from pydantic import BaseModel, Field

from mrtr_options import sdk
from mrtr_options.sdk.protection import new_key

MODERN = "2026-07-28"
OLD = "legacy"
KEY = new_key()
Response = Any


@dataclass(frozen=True)
class Seen:
    """What happened to an input; `is_kept` is None where the package has no such API."""

    happened: str
    is_kept: bool | None


NOT_THERE = Seen("not there", None)


@dataclass(frozen=True)
class Input:
    """One smallest input.

    Attributes:
        point: The point that it belongs to.
        tried: What is tried, in a few words.
        play: Plays it in an empty folder.
        needs_postgres: Whether it starts a PostgreSQL of its own.
        is_slow: Whether it takes seconds.
    """

    point: int
    tried: str
    play: Callable[[Path], Awaitable[Seen]]
    needs_postgres: bool = False
    is_slow: bool = False

    @property
    def name(self) -> str:
        """The claim."""
        return self.play.__name__


INPUTS: list[Input] = []


def smallest_input(point: int, tried: str, **more: bool) -> Callable[[Any], Any]:
    """Register a function as the smallest input of a point."""

    def register(play: Callable[[Path], Awaitable[Seen]]) -> Callable[[Path], Awaitable[Seen]]:
        INPUTS.append(Input(point, tried, play, **more))
        return play

    return register


# --- a tool and its server ----------------------------------------------------------------------


class Anything(BaseModel):
    """Arguments of the tools here."""

    x: Any = None


class Name(BaseModel):
    """Answer to the questions here."""

    name: str


def who(key: str = "who") -> sdk.Question[Name]:
    """Make a question about a name."""
    return sdk.Question(key, f"Who is {key}?", Name)


class Names(BaseModel):
    """A state with the answers so far."""

    names: list[str] = Field(default_factory=list[str])


ANN = types.ElicitResult(action="accept", content={"name": "Ann"})


def named(key: str = "who") -> types.InputResponses:
    """Answer one question."""
    return {key: ANN}


async def asks_once(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
    """Ask a name, and say it."""
    answer = sdk.answer_to(who(), ctx, params)
    if answer is None:
        return sdk.ask(who(), sdk.Markers())
    return sdk.text(f"it is {answer.name}")


def server_of(
    handler: Any,
    *wrappers: Any,
    store: Any = None,
    world: Any = None,
    extensions: Sequence[Any] = (),
    name: str = "server",
    tool: dict[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Build a server of one tool.

    Args:
        handler: The tool's handler.
        *wrappers: The tool's wrappers.
        store: The store of L or K, which is open while the server serves.
        world: What handlers find as `ctx.lifespan_context`.
        extensions: Extensions of the protocol.
        name: The server's name.
        tool: More options of the tool.
        **settings: More options of the settings.
    """
    made = sdk.Tool("tool", "Does it.", Anything, handler, wrappers, **(tool or {}))
    return sdk.build_server(
        name,
        made,
        lifespan_context=world,
        settings=sdk.Settings(keys=[KEY], **settings),
        resources=[store.serving] if store else [],
        extensions=extensions,
    )


def durable(handler: Any, folder: Path, world: Any = None, **bounds: Any) -> Any:
    """Build a server of option L whose calls are in a SQLite file, unless a database is given."""
    database = bounds.pop("database", f"sqlite:///{folder / 'calls.sqlite'}")
    wrappers = bounds.pop("wrappers", [])
    usual: dict[str, Any] = {"version": "1", "wait_seconds": 10.0}
    store = sdk.DurableStore(**usual | bounds)
    return server_of(store.linear(handler), *wrappers, store=store, world=world, database=database)


# --- a client -----------------------------------------------------------------------------------


async def agreeing(context: Any, params: Any) -> types.ElicitResult:
    """Answer each question with a name."""
    return ANN


async def never_asked(context: Any, params: Any) -> types.ElicitResult:
    """Stand for a user whose client is driven by hand."""
    raise AssertionError(f"was asked: {params}")


@asynccontextmanager
async def client_of(
    server: Any,
    mode: str = MODERN,
    user: Any = agreeing,
    extensions: Sequence[ClientExtension] = (),
) -> AsyncGenerator[Client]:
    """Connect a client to a server, in memory."""
    made = Client(server, mode=mode, elicitation_callback=user, extensions=[*extensions])
    async with made as client:
        yield client


async def send(
    client: Client, asked: Response = None, answers: Any = None, *, key: Any = None, x: Any = 1
) -> Response:
    """Send one round: the first one of a call, or the one after the response that asked."""
    return await client.session.call_tool(
        "tool",
        {"x": x},
        input_responses=answers,
        request_state=getattr(asked, "request_state", None),
        meta=None if key is None else {sdk.CALL_KEY: key},
        allow_input_required=True,
    )


async def said(sending: Awaitable[Response]) -> str:
    """Say what a response is, in a few words."""
    try:
        return in_words(await sending)
    except MCPError as error:
        data: dict[str, Any] = error.error.data or {}
        reason = data.get("reason")
        return f"error {error.code} {reason or error.error.message}"


def in_words(response: Response) -> str:
    """Say what a response is: its text, its questions, or that it has only a state."""
    if isinstance(response, types.InputRequiredResult):
        keys = ", ".join(response.input_requests or {})
        return f"asks {keys}" if keys else "a state without a question"
    (block,) = response.content
    return block.text


async def called(server: Any, mode: str = MODERN, user: Any = agreeing) -> str:
    """Say what a whole call comes to, whose client drives the rounds."""
    async with client_of(server, mode, user) as client:
        return await said(client.call_tool("tool", {"x": 1}))


async def gone_on_with(client: Client, response: Response, rounds: int = 5) -> Response:
    """Send a round again and again that is put off; the last response."""
    for _ in range(rounds):
        if in_words(response) != "a state without a question":
            break
        response = await send(client, response)
    return response


async def until(holds: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Wait until something holds, for a bounded time; whether it does."""
    with anyio.move_on_after(seconds):
        while not holds():  # noqa: ASYNC110 - also what another process does
            await anyio.sleep(0.01)
    return holds()


def in_time(use: Callable[[], object], seconds: float = 3.0) -> str:
    """Say what a function comes to that may hang: in a thread, for a bounded time."""
    outcome: list[str] = []

    def run() -> None:
        try:
            use()
            outcome.append("done")
        except Exception as error:
            outcome.append(type(error).__name__)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else "hangs"
