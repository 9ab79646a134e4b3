"""The time that the single-use guard adds to a round, on each store.

Knows the guard as a wrapper.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial

from mrtr_options.review.bench.world.wrappers import OpenStore, make_wrappers, open_store
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.notation import SINGLE_USE
from mrtr_options.tool.settings import Settings
from scoreboard import postgres
from scoreboard.cost.calls import clients_of, on_disk, one_call
from scoreboard.cost.report import Guard
from scoreboard.cost.timing import Progress, in_turns, spread, timed

TURNS = 150
"""Turns of one call. The guard looks at one of its two rounds: the first brings no state."""


async def time_guards(url: str | None, progress: Progress) -> list[Guard]:
    """Time a call of F behind the guard on each store, beside F alone.

    Args:
        url: The URL of a PostgreSQL server; None without one.
        progress: Called `TURNS` times.
    """
    with on_disk() as folder, ExitStack() as stack:
        stores: dict[str, OpenStore] = {"SQLite": open_store(folder / "rounds.sqlite")}
        if url is not None:
            stores["PostgreSQL"] = open_store(postgres.database(url))
        for store in stores.values():
            stack.enter_context(closing(store))
        wrappers = {
            "": [],
            **{name: make_wrappers((SINGLE_USE,), each) for name, each in stores.items()},
        }
        servers = {
            name: load(option_named("F").path, Settings(weather.MemoryLedger(), wrappers=around))
            for name, around in wrappers.items()
        }
        async with clients_of(servers) as clients:
            work = {name: timed(partial(one_call, client)) for name, client in clients.items()}
            readings = await in_turns(work, TURNS, progress)
    plain = readings.pop("")
    return [
        Guard(
            store=name,
            added_ms=spread([(mine - base) * 1000 for mine, base in zip(own, plain, strict=True)]),
        )
        for name, own in readings.items()
    ]
