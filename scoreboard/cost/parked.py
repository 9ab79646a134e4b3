"""The bytes of an open call that waits for its user: H in memory, K and L on SQLite.

Every other option stores nothing on the server. Knows options only as servers, and SQLite's count
of pages.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio.lowlevel

from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.settings import Settings
from scoreboard.cost.calls import (
    clients_of,
    first_round,
    keeps_calls,
    on_disk,
    one_call,
    servers_of,
)
from scoreboard.cost.report import Parked
from scoreboard.cost.timing import Progress

IN_MEMORY = 2_000
"""The number of calls that wait in memory."""

ON_DISK = 100
"""The number of calls that wait on disk."""


async def measure_parked(measured: Sequence[Subject], progress: Progress) -> list[Parked]:
    """Measure the bytes of an open call in H, and in subjects that store calls in a database.

    Args:
        measured: The subjects; those that store no calls are left out.
        progress: Called once, at the end.
    """
    with servers_of([subject_named("H")]) as servers:
        async with clients_of(servers) as clients:
            client = clients["H"]
            await first_round(client)
            frame = Parked(subject="H", bytes=await _in_memory(partial(first_round, client)))
    found = [frame, Parked(subject="task", bytes=await _bytes_of_a_task())]
    found += [await _on_disk(each) for each in measured if keeps_calls(each)]
    progress()
    return found


async def _bytes_of_a_task() -> float:
    tasks: list[asyncio.Future[None]] = []

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async def park() -> None:
        tasks.append(asyncio.ensure_future(wait()))

    taken = await _in_memory(park)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return taken


async def _in_memory(park: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(IN_MEMORY):
            await park()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()  # let every call reach its wait
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / IN_MEMORY


async def _on_disk(subject: Subject) -> Parked:
    with on_disk() as folder:
        file = folder / "calls.sqlite"
        settings = Settings(weather.MemoryLedger(), database=f"sqlite:///{file}")
        server = load(subject.option.path, settings)
        async with clients_of({subject.name: server}) as clients:
            client = clients[subject.name]
            await one_call(client)
            empty = _bytes_in(file)
            for _ in range(ON_DISK):
                await first_round(client)
            opened = _bytes_in(file)
            for _ in range(ON_DISK):
                await one_call(client)
            ended = _bytes_in(file)
    return Parked(
        subject=subject.name,
        bytes=(opened - empty) / ON_DISK,
        ended_bytes=(ended - opened) / ON_DISK,
    )


def _bytes_in(file: Path) -> int:
    with closing(sqlite3.connect(file, timeout=30)) as db:
        pages, page, free = (
            db.execute(f"PRAGMA {what}").fetchone()[0]
            for what in ("page_count", "page_size", "freelist_count")
        )
    return (pages - free) * page
