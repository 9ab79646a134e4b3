"""What one call costs in memory, in turns with its baseline: of every option with one question, of the
generated tool with several, and of E behind the single-use guard.

Knows options only as servers, the styles as `chains` makes them, and the guard as the wrapper it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server

from mrtr_options.bench.client import MODES, agreeable
from mrtr_options.cost import chains
from mrtr_options.cost.chains import STYLES
from mrtr_options.cost.floor import FLOOR, RESOLVER, SHARED, floor_server, shared_server
from mrtr_options.cost.timing import Progress, Readings, Row, in_turns, ratio, spread
from mrtr_options.sdk.single_use import SqliteStore, Store, single_use
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import DURABLE, Option, installed, load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings

AnyServer = Server[Any] | MCPServer[Any]

CALLS, TURNS = 4, 180
"""Calls of one option in one turn: so few that most turns are over before another process gets in."""
QUESTIONS = (1, 2, 3, 5, 10)
QUESTIONS_CALLS, QUESTIONS_TURNS = 3, 20
GUARD_CALLS, GUARD_TURNS = 5, 40
"""Of the rounds of a call with one question the guard looks at one: the first carries no answers."""
DURABLE_CALLS, DURABLE_TURNS = 3, 8
DURABLE_QUESTIONS_CALLS, DURABLE_QUESTIONS_TURNS = 1, 5
"""The same for what keeps its calls in a database, which takes far longer."""
PLAIN = "none"


def servers_of(options: Iterable[Option], database: str | None = None) -> dict[str, AnyServer]:
    """The floor and a server of each option, by letter."""
    servers: dict[str, AnyServer] = {FLOOR: floor_server()}
    for option in options:
        servers[option.letter] = load(option.path, Settings(weather.MemoryLedger(), database=database))
    return servers


async def time_calls(options: Sequence[Option], progress: Progress) -> list[Row]:
    """Time one call of each option beside the floor.

    Those that keep their calls in a database have turns of their own, with fewer calls, and a floor of
    their own in them.

    Args:
        options: Which options.
        progress: Called `TURNS` times, and `DURABLE_TURNS` times if one keeps a database.
    """
    kept = [option for option in options if option.extra]
    servers = servers_of(option for option in options if not option.extra)
    servers[SHARED] = shared_server()
    rows = _rows(await _time(servers, CALLS, TURNS, progress), CALLS)
    if kept:
        with tempfile.TemporaryDirectory(prefix="mrtr-cost-", ignore_cleanup_errors=True) as folder:
            servers = servers_of(kept, f"sqlite:///{Path(folder) / 'calls.sqlite'}")
            readings = await _time(servers, DURABLE_CALLS, DURABLE_TURNS, progress)
        rows += _rows(readings, DURABLE_CALLS)[1:]
    return sorted(rows, key=lambda row: (row.subject not in (FLOOR, SHARED), row.subject))


async def time_questions(counts: Sequence[int], progress: Progress) -> list[Row]:
    """Time one call of the generated tool in each style, for each number of questions.

    Args:
        counts: The numbers of questions.
        progress: Called `QUESTIONS_TURNS` times for each of them, and `DURABLE_QUESTIONS_TURNS` times if
            L is installed.
    """
    rows: list[Row] = []
    for questions in counts:

        async def timed(
            styles: Mapping[str, chains.Style], calls: int, turns: int, questions: int = questions
        ) -> list[Row]:
            made = {name: style(questions, no_effect).server for name, style in styles.items()}
            readings = await _time(made, calls, turns, progress)
            return _rows(readings, calls, questions=questions)

        rows += await timed(STYLES, QUESTIONS_CALLS, QUESTIONS_TURNS)
        if installed(DURABLE):
            styles = {FLOOR: STYLES[FLOOR], "L": chains.durable}
            rows += (await timed(styles, DURABLE_QUESTIONS_CALLS, DURABLE_QUESTIONS_TURNS))[1:]
    return rows


async def time_guards(postgres: str | None, progress: Progress) -> list[Row]:
    """Time a call of E behind each guard, beside E without one.

    Args:
        postgres: The URL of a database for the store that a fleet shares; None without one.
        progress: Called `GUARD_TURNS` times.
    """
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-") as folder, ExitStack() as stack:
        stores: dict[str, Store] = {"sqlite": (sqlite := SqliteStore(Path(folder) / "rounds.sqlite"))}
        stack.callback(sqlite.close)
        if postgres is not None:
            from mrtr_options.sdk.single_use.postgres import PostgresStore

            stores["postgresql"] = shared = PostgresStore(postgres)
            stack.callback(shared.close)
        wrappers = {PLAIN: (), **{name: (single_use(store),) for name, store in stores.items()}}
        servers = {
            name: load(option_named("E").path, Settings(weather.MemoryLedger(), wrappers=around))
            for name, around in wrappers.items()
        }
        readings = await _time(servers, GUARD_CALLS, GUARD_TURNS, progress)
    plain = readings.pop(PLAIN).wall
    return [
        Row(
            "E",
            {
                "store": name,
                "added_milliseconds": spread(
                    [
                        (mine - base) / GUARD_CALLS * 1000
                        for mine, base in zip(own.wall, plain, strict=True)
                    ]
                ),
                "ratio": ratio(own.wall, plain),
            },
        )
        for name, own in readings.items()
    ]


async def no_effect(name: str) -> None:
    """An effect that does nothing."""


@asynccontextmanager
async def clients_of(servers: Mapping[str, AnyServer]) -> AsyncGenerator[dict[str, Client]]:
    """A client in front of each of these, whose user agrees to everything."""
    connect: Callable[[AnyServer], Client] = partial(
        Client, mode=MODES["modern"], elicitation_callback=agree, input_required_max_rounds=30
    )
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(connect(server)) for name, server in servers.items()
        }


async def agree(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A user who answers every form, of the weather tool and of the generated one."""
    assert isinstance(params, types.ElicitRequestFormParams)
    if "answer" in params.requested_schema["properties"]:
        return types.ElicitResult(action="accept", content={"answer": "yes"})
    return await agreeable(params)


async def _time(
    servers: Mapping[str, AnyServer], calls: int, turns: int, progress: Progress
) -> dict[str, Readings]:
    async def call(client: Client) -> None:
        for _ in range(calls):
            await client.call_tool(TOOL, {"location": "Tokyo"})

    async with clients_of(servers) as clients:
        work = {name: partial(call, client) for name, client in clients.items()}
        return await in_turns(work, turns, progress)


def _rows(readings: Mapping[str, Readings], calls: int, **condition: int) -> list[Row]:
    """Milliseconds of one call, and ratios: to the floor, on the clock and of the processor's time
    (which a busy machine disturbs less), and to the SDK's resolver, where it had the same turns."""
    floor, resolver = readings[FLOOR], readings.get(RESOLVER)
    return [
        Row(
            name,
            {
                **condition,
                "milliseconds": spread([seconds / calls * 1000 for seconds in own.wall]),
                "ratio": ratio(own.wall, floor.wall),
                "cpu_ratio": ratio(own.cpu, floor.cpu),
                "resolver_ratio": resolver and ratio(own.wall, resolver.wall),
            },
        )
        for name, own in readings.items()
    ]
