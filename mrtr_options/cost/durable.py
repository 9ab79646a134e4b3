"""What a round of an option on a database costs, how many calls it takes at once, and what it keeps.

Beside the engine (DBOS) used by hand for the same tool, which is the baseline, and beside H, which keeps
its calls in memory. One run, one engine for all. Needs the extra `durable`. Knows options only as
servers, and the database as one that has tables.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import mcp_types as types
from mcp import Client

from mrtr_options.cost.calls import clients_of, servers_of
from mrtr_options.cost.floor import FLOOR
from mrtr_options.cost.timing import Progress, Row, percentiles, ratio
from mrtr_options.sdk.durable import Engine
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import Option, load, option_named
from mrtr_options.tool.server import TOOL, Result
from mrtr_options.tool.settings import Settings

RAW = "raw"
RAW_FILE = Path(__file__).with_name("raw.py")
"""The tool by hand on the engine, to be loaded as an option is."""
CALLS = 40
"""Calls of each, taken in turns; each has two rounds."""
WARM_UP = 3
"""Calls of each before the first one counts."""
CALLERS = (1, 4, 16, 64)
"""How many call at once, for the ramp."""
RAMP_CALLS = 64
"""Calls of each step of the ramp."""
PARKED = 100
"""Calls that are left unanswered, to see what the database keeps of each."""


async def durable_cost(
    options: Sequence[Option], url: str | None, progress: Progress
) -> dict[str, list[Row]]:
    """Measure options that keep their calls in a database.

    Args:
        options: Which options.
        url: The database; None for a SQLite file of this run's own.
        progress: Called `steps` times.

    Returns:
        `rounds`: one round of each, its ratio to that of "raw". `ramp`: calls of two rounds from so many
        callers at once; where the queue grows, the rate stays and the time of a call goes up. `kept`:
        what the database keeps of one parked call, rows in all tables and bytes with indexes.
    """
    with tempfile.TemporaryDirectory(prefix="mrtr-cost-", ignore_cleanup_errors=True) as folder:
        url = url or f"sqlite:///{Path(folder) / 'calls.sqlite'}"
        database = url.partition(":")[0]
        servers = servers_of((option_named("H"), *options), url)
        del servers[FLOOR]
        servers[RAW] = load(RAW_FILE, Settings(weather.MemoryLedger(), database=url))
        async with Engine.opened(url), clients_of(servers) as clients:
            rounds = await _time_rounds(database, clients, progress)
            ramp: list[Row] = []
            kept: list[Row] = []
            for option in options:
                ramp += await _ramp(database, option.letter, clients[option.letter], progress)
            for option in options:
                before = contents_of(url)
                for _ in range(PARKED):
                    await one_round(clients[option.letter], None)
                after = contents_of(url)
                rows, size = ((now - then) / PARKED for now, then in zip(after, before, strict=True))
                kept.append(Row(option.letter, {"database": database, "rows": rows, "bytes": size}))
                progress()
    return {"rounds": rounds, "ramp": ramp, "kept": kept}


def steps(options: Sequence[Option]) -> int:
    """How often `durable_cost` tells of progress."""
    return CALLS + len(options) * (len(CALLERS) + 1)


async def _time_rounds(database: str, clients: Mapping[str, Client], progress: Progress) -> list[Row]:
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    for turn in range(-WARM_UP, CALLS):
        for name, client in clients.items():
            took = await one_call(client)
            if turn >= 0:
                seconds[name] += took
        if turn >= 0:
            progress()
    return [
        Row(name, {"database": database, **percentiles(own), "ratio": ratio(own, seconds[RAW])})
        for name, own in seconds.items()
    ]


async def _ramp(database: str, letter: str, client: Client, progress: Progress) -> list[Row]:
    ramp: list[Row] = []
    alone: float | None = None
    for callers in CALLERS:
        took: list[float] = []

        async def some(calls: int, took: list[float] = took) -> None:
            for _ in range(calls):
                took.append(sum(await one_call(client)))

        calls = max(RAMP_CALLS // 4, callers)  # one caller alone need not make as many
        begins = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for place in range(callers):
                tasks.start_soon(some, len(range(place, calls, callers)))
        rate = calls / (time.perf_counter() - begins)
        alone = alone or rate
        figures = {"calls_per_second": rate, **percentiles(took), "ratio": rate / alone}
        ramp.append(Row(letter, {"database": database, "callers": callers, **figures}))
        progress()
    return ramp


async def one_call(client: Client) -> list[float]:
    """One call with one question; how long each of its rounds took."""
    took: list[float] = []
    asked: types.InputRequiredResult | None = None
    while True:
        start = time.perf_counter()
        result = await one_round(client, asked)
        took.append(time.perf_counter() - start)
        if isinstance(result, types.CallToolResult):
            return took
        asked = result


async def one_round(client: Client, asked: types.InputRequiredResult | None) -> Result:
    """The first round, or the one that comes after `asked` (which may only have said "not yet")."""
    return await client.session.call_tool(
        TOOL,
        {"location": "Tokyo"},
        input_responses=_UNITS if asked and asked.input_requests else None,
        request_state=asked and asked.request_state,
        allow_input_required=True,
    )


_UNITS: types.InputResponses = {
    "units": types.ElicitResult(action="accept", content={"units": "metric"})
}


def contents_of(url: str) -> tuple[int, int]:
    """Rows and bytes in all tables of a database."""
    return (
        _sqlite_contents(url.partition("///")[2])
        if url.startswith("sqlite")
        else _postgres_contents(url)
    )


def _sqlite_contents(path: str) -> tuple[int, int]:
    with closing(sqlite3.connect(path, timeout=30)) as db:
        tables = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        ]
        rows = sum(db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)
        pages, page, free = (
            db.execute(f"PRAGMA {what}").fetchone()[0]
            for what in ("page_count", "page_size", "freelist_count")
        )
    return rows, (pages - free) * page


def _postgres_contents(url: str) -> tuple[int, int]:
    import psycopg

    with psycopg.connect(url) as db:
        tables = db.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        rows = size = 0
        for (table,) in tables:
            found = db.execute(
                f"SELECT count(*), pg_total_relation_size('{table}') FROM {table}".encode()
            ).fetchone()
            assert found is not None
            rows, size = rows + found[0], size + found[1]
    return rows, size
