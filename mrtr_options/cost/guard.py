"""What the guard of single use adds to a round: option E with it, beside E without.

Knows options only as servers, and the guard as the wrapper that it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mcp import Client

from mrtr_options.bench.client import MODES
from mrtr_options.cost.calls import agree
from mrtr_options.cost.timing import Progress, Spread, in_turns, ratio, spread
from mrtr_options.sdk.single_use import SqliteStore, Store, single_use
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings

CALLS, TURNS = 5, 40
GUARDED_ROUNDS = 1
"""Rounds of a call with one question that the guard has to look at: the first one carries no answers."""
PLAIN = "none"


@dataclass(frozen=True)
class GuardCost:
    """What a guard adds to a round with answers, in memory.

    Attributes:
        store: "sqlite" or "postgresql".
        added_milliseconds: To each such round, over E without a guard in the same turn.
        ratio: Of a whole call to one without a guard.
    """

    store: str
    added_milliseconds: Spread
    ratio: Spread


async def time_guards(postgres: str | None, progress: Progress) -> list[GuardCost]:
    """Time a call of E behind each guard.

    Args:
        postgres: The URL of a database for the store that a fleet shares; None without one.
        progress: Called `TURNS` times.
    """
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-") as folder, ExitStack() as stack:
        sqlite = SqliteStore(Path(folder) / "rounds.sqlite")
        stack.callback(sqlite.close)
        stores: dict[str, Store] = {"sqlite": sqlite}
        if postgres is not None:
            from mrtr_options.sdk.single_use.postgres import PostgresStore

            stores["postgresql"] = shared = PostgresStore(postgres)
            stack.callback(shared.close)
        return await _time(stores, progress)


async def _time(stores: Mapping[str, Store], progress: Progress) -> list[GuardCost]:
    wrappers = {PLAIN: (), **{name: (single_use(store),) for name, store in stores.items()}}
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for name, around in wrappers.items():
            settings = Settings(weather.MemoryLedger(), wrappers=around)
            server = load(option_named("E").path, settings)
            clients[name] = await stack.enter_async_context(
                Client(server, mode=MODES["modern"], elicitation_callback=agree)
            )
        work = {name: partial(_call, client) for name, client in clients.items()}
        readings = await in_turns(work, TURNS, progress)
    plain = readings[PLAIN].wall
    return [
        GuardCost(
            name,
            spread(
                [
                    (own - base) / CALLS / GUARDED_ROUNDS * 1000
                    for own, base in zip(readings[name].wall, plain, strict=True)
                ]
            ),
            ratio(readings[name].wall, plain),
        )
        for name in stores
    ]


async def _call(client: Client) -> None:
    for _ in range(CALLS):
        await client.call_tool(TOOL, {"location": "Tokyo"})
