"""The cost of one call with one question in memory: every option, and the guard, beside the floor.

Knows options only as servers.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server import MCPServer, Server

from mrtr_options.demo.call import agree
from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.bench.world.wrappers import make_wrappers, open_store
from mrtr_options.sdk.call_key import CALL_KEY as CALL_KEY_ENTRY
from mrtr_options.sdk.call_key import REPEAT, new_call_key
from mrtr_options.sdk.handler import Context
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import all_options, load, option_named
from mrtr_options.tool.notation import CALL_KEY
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from scoreboard.cost.floor import floor_server, shared_server
from scoreboard.cost.report import DEFAULT, FLOOR, SHARED, Cost
from scoreboard.cost.timing import Progress, in_turns, ratio, spread, timed

AnyServer = Server[Any] | MCPServer[Any]

_USER = "mrtr-options/user"
"""The entry of `_meta` in which a client of these measurements names its user."""

GUARDED = ("F+guard", "F+guard+call-key", "J+guard+call-key")
"""The subjects that are measured inside the single-use guard, on SQLite."""

CALLS = 4
"""Calls of one option in one turn: few, so that most turns end before another process runs."""

TURNS = 180

SLOW_CALLS = 2
"""Calls in one turn of an option that writes to a database, which takes far longer."""

SLOW_TURNS = 60


def subjects() -> list[Subject]:
    """Return every option, and the guarded subjects."""
    return [*map(Subject, all_options().values()), *map(subject_named, GUARDED)]


def keeps_calls(subject: Subject) -> bool:
    """Return whether a subject runs on an engine, and stores its calls in a database."""
    return subject.option.extra is not None


async def time_calls(measured: Sequence[Subject], progress: Progress) -> list[Cost]:
    """Time one call of each subject beside the floor.

    Subjects that write to a database (SQLite) have turns of their own, with a floor in them. Their
    wait for the disk is not counted here; `engines` and `guard` measure it.

    Args:
        measured: The subjects.
        progress: Called `TURNS` times and `SLOW_TURNS` times.
    """
    quick = [each for each in measured if not (keeps_calls(each) or each.wrappers)]
    slow = [each for each in measured if each not in quick]
    with servers_of(quick) as servers:
        servers = {SHARED: shared_server(), **servers}
        found = await time_servers(servers, CALLS, TURNS, progress)
    with servers_of(slow, with_default=True) as servers:
        timed = await time_servers(servers, SLOW_CALLS, SLOW_TURNS, progress)
    found += [cost for cost in timed if cost.subject != FLOOR]
    order = [FLOOR, SHARED, *(each.name for each in measured), DEFAULT]
    return sorted(found, key=lambda cost: order.index(cost.subject))


async def time_servers(
    servers: Mapping[str, AnyServer],
    calls: int,
    turns: int,
    progress: Progress,
) -> list[Cost]:
    """Time so many calls of each server in each turn. One server is the floor."""

    async def call(name: str, client: Client) -> None:
        for _ in range(calls):
            await one_call(client, meta_for(name))

    async with clients_of(servers) as clients:
        work = {
            name: timed(partial(call, name, client), time.process_time)
            for name, client in clients.items()
        }
        readings = await in_turns(work, turns, progress)
    return [
        Cost(
            subject=name,
            ms=spread([seconds / calls * 1000 for seconds in own]),
            ratio=ratio(own, readings[FLOOR]),
        )
        for name, own in readings.items()
    ]


@contextmanager
def servers_of(
    measured: Iterable[Subject], *, with_default: bool = False
) -> Generator[dict[str, AnyServer]]:
    """Build the floor and a server of each subject, by name, with databases for the block.

    Args:
        measured: The subjects.
        with_default: Whether to build the default, too.
    """
    with on_disk() as folder, ExitStack() as stack:
        servers: dict[str, AnyServer] = {FLOOR: floor_server()}
        for number, each in enumerate(measured):
            store = stack.enter_context(closing(open_store(folder / f"rounds-{number}.sqlite")))
            settings = Settings(
                weather.MemoryLedger(),
                wrappers=make_wrappers(each.wrappers, store),
                database=f"sqlite:///{folder / 'calls.sqlite'}",
            )
            servers[each.name] = load(each.option.path, settings)
        if with_default:
            store = stack.enter_context(closing(SqliteStore(folder / "named.sqlite")))
            servers[DEFAULT] = default_server(store)
        yield servers


def default_server(store: SqliteStore) -> AnyServer:
    """Build the default: the weather tool as J, in the guard, its calls named by their argument.

    Each user's calls have names of their own. The user stands in the request's `_meta`.
    """
    guard = single_use(store, call="location")
    settings = Settings(weather.MemoryLedger(), principal=_user_of, wrappers=[guard])
    return load(option_named("J").path, settings)


def _user_of(ctx: Context) -> str | None:
    return (ctx.meta or {}).get(_USER)


def new_user() -> types.RequestParamsMeta:
    """Make the `_meta` of a user who has not called before, so that the default knows no call."""
    return {_USER: secrets.token_hex(16)}


def meta_for(name: str) -> types.RequestParamsMeta | None:
    """Return the `_meta` of a new call of this server: a call key, a new user, or nothing."""
    if name == DEFAULT:
        return new_user()
    return {CALL_KEY_ENTRY: new_call_key()} if CALL_KEY in name else None


@contextmanager
def on_disk() -> Generator[Path]:
    """Yield a folder for databases on a disk, so that a commit waits for the disk as usual."""
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-") as folder:
        yield Path(folder)


@asynccontextmanager
async def clients_of(servers: Mapping[str, AnyServer]) -> AsyncGenerator[dict[str, Client]]:
    """Connect a client to each server; its user agrees to everything."""
    connect = partial(Client, mode=MODES["modern"], elicitation_callback=agree)
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(connect(server, input_required_max_rounds=30))
            for name, server in servers.items()
        }


async def one_call(client: Client, meta: types.RequestParamsMeta | None = None) -> None:
    """Make one call with one question, from its first round to its result."""
    result = await client.call_tool(TOOL, {"location": "Tokyo"}, meta=meta)
    assert not result.is_error, result
    assert REPEAT not in (result.meta or {}), "the call is known, and was not made"


async def first_round(client: Client, meta: types.RequestParamsMeta | None = None) -> None:
    """Make the first round of a call, which then waits for its user."""
    result = await client.session.call_tool(
        TOOL, {"location": "Tokyo"}, meta=meta, allow_input_required=True
    )
    assert isinstance(result, types.InputRequiredResult)
