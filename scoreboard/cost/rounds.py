"""What a round of an option costs that keeps its calls in a database, beside DBOS by hand.

Each subject has a process and a database of its own, since DBOS allows one engine in a process. They
take turns: one call each, in another order every time.

Needs the extra `durable`. Knows options only as servers.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from random import Random

import anyio
import anyio.to_thread

from mrtr_options.bench.deployments import quiet_servers
from mrtr_options.bench.starting import START_SECONDS, end, start
from mrtr_options.bench.subjects import Subject
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.settings import Settings
from scoreboard import postgres
from scoreboard.cost.calls import clients_of, on_disk, one_call
from scoreboard.cost.report import BY_HAND, Round
from scoreboard.cost.timing import Progress, ratio, spread

TURNS, WARM_UP = 30, 3
"""Calls of each subject, and those before the first one that counts."""
ROUNDS = 2
"""Of a call with one question."""


def time_rounds(subjects: Sequence[Subject], url: str | None, progress: Progress) -> list[Round]:
    """Time a round of each subject and of DBOS by hand, on one database after the other.

    Args:
        subjects: Those that keep their calls in a database.
        url: Of a PostgreSQL server; None without one.
        progress: Called `TURNS` times for each database.
    """
    databases = ["SQLite"] if url is None else ["SQLite", "PostgreSQL"]
    return [row for name in databases for row in _time(subjects, name, url, progress)]


def _time(
    subjects: Sequence[Subject], database: str, url: str | None, progress: Progress
) -> list[Round]:
    wall: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}
    with on_disk() as folder, ExitStack() as stack:
        workers: dict[str, Connection] = {}
        for subject in (None, *subjects):
            name = subject.name if subject else BY_HAND
            own = f"sqlite:///{folder / name}.sqlite"
            if url is not None and database == "PostgreSQL":
                own = postgres.database(url)
            workers[name] = stack.enter_context(_worker(subject, own))
            wall[name], cpu[name] = [], []
        order = Random(0)
        for turn in range(-WARM_UP, TURNS):
            for name in order.sample(list(workers), len(workers)):
                workers[name].send("call")
                passed, used = workers[name].recv()
                if turn >= 0:
                    wall[name].append(passed / ROUNDS * 1000)
                    cpu[name].append(used / ROUNDS * 1000)
            if turn >= 0:
                progress()
    return [
        Round(
            subject=name,
            database=database,
            ms=spread(wall[name]),
            cpu_ms=spread(cpu[name]),
            ratio=ratio(wall[name], wall[BY_HAND]),
        )
        for name in wall
    ]


@contextmanager
def _worker(subject: Subject | None, url: str) -> Generator[Connection]:
    """A process that makes a call for each message that it gets, and answers how long it took."""
    here, there = Pipe()
    with there:
        process = start(_work, there, subject, url)
    try:
        yield here
    finally:
        here.close()  # it ends in order
        process.join(START_SECONDS)
        end(process)


def _work(bench: Connection, subject: Subject | None, url: str) -> None:
    with quiet_servers():
        anyio.run(_calls, bench, subject, url)


async def _calls(bench: Connection, subject: Subject | None, url: str) -> None:
    if subject is None:
        from scoreboard.cost.engine_by_hand import server_by_hand

        server = server_by_hand(url)
    else:
        server = load(subject.option.path, Settings(weather.MemoryLedger(), database=url))
    async with clients_of({"": server}) as clients:
        while True:
            try:
                await anyio.to_thread.run_sync(bench.recv)
            except EOFError:
                return
            passed, used = time.perf_counter(), time.process_time()
            await one_call(clients[""])
            bench.send((time.perf_counter() - passed, time.process_time() - used))
