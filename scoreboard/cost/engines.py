"""The cost of a round of K and L on their engines, beside the same tool by hand on each.

Each subject has processes and a database of its own, since DBOS allows one engine in a process. The
subjects take turns, in another order every time; in its turn a subject serves a number of callers
at once.

Needs the extras `durable` and `fleet`. Knows options only as servers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import anyio
import anyio.to_thread
from mcp import Client

from mrtr_options.review.bench.deployments import quiet_servers
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world import temporal
from mrtr_options.review.bench.world.starting import START_SECONDS, end, start
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.settings import Settings
from scoreboard import postgres
from scoreboard.cost.calls import clients_of, on_disk, one_call
from scoreboard.cost.report import AT_ONCE, BY_HAND, Round
from scoreboard.cost.timing import Progress, in_turns, ratio, spread

TURNS = 5
"""The turns, for each number of callers."""

CALLS = 3
"""The calls of each caller in a turn."""

ROUNDS = 2
"""The rounds of a call with one question."""

WORKERS = 3
"""The workers of the larger fleet."""


@dataclass(frozen=True)
class Engine:
    """An engine that stores calls.

    Attributes:
        name: Its name in the tables.
        workers: The number of processes that serve calls.
        database: Makes a new database, and returns its URL.
    """

    name: str
    workers: int
    database: Callable[[], str]


@contextmanager
def engines(url: str | None) -> Generator[list[Engine]]:
    """Return the engines that this machine has, for the block.

    Args:
        url: The URL of a PostgreSQL server; None without one.
    """
    with on_disk() as folder, ExitStack() as stack:
        files: Iterator[Path] = (folder / f"{number}.sqlite" for number in range(1000))
        found = [Engine("SQLite", 1, lambda: f"sqlite:///{next(files)}")]
        if url is not None:
            found.append(Engine("PostgreSQL", 1, lambda: postgres.database(url)))
        if temporal.installed():
            server = stack.enter_context(temporal.running(folder))
            found.append(Engine("Temporal", 1, server.apart))
            found.append(Engine(f"Temporal, {WORKERS} workers", WORKERS, server.apart))
        yield found


async def time_rounds(
    subjects: Sequence[Subject], engine: Engine, progress: Progress
) -> list[Round]:
    """Time rounds of each subject and of the tool by hand on an engine.

    Args:
        subjects: The subjects that store their calls on the engine.
        engine: The engine.
        progress: Called `TURNS` times for each number of callers.
    """
    found: list[Round] = []
    with ExitStack() as stack:
        fleets: dict[str, list[Connection]] = {}
        for subject in (None, *subjects):
            settings = Settings(
                weather.MemoryLedger(), database=engine.database(), keys=[new_key()]
            )
            workers = [
                stack.enter_context(_worker(subject, settings)) for _ in range(engine.workers)
            ]
            fleets[subject.name if subject else BY_HAND] = workers
        for callers in AT_ONCE:
            work = {name: partial(_calls_of, each, callers) for name, each in fleets.items()}
            readings = await in_turns(work, TURNS, progress)
            wall = {name: [passed for passed, _ in own] for name, own in readings.items()}
            found += [
                Round(
                    subject=name,
                    engine=engine.name,
                    callers=callers,
                    ms=spread(wall[name]),
                    cpu_ms=spread([used for _, used in own]),
                    ratio=ratio(wall[name], wall[BY_HAND]),
                )
                for name, own in readings.items()
            ]
    return found


async def _calls_of(workers: Sequence[Connection], callers: int) -> tuple[float, float]:
    """Make the callers' calls; return how long a round takes, and its processor time, in ms."""
    begins = time.perf_counter()
    for number, worker in enumerate(workers):
        worker.send(len(range(number, callers, len(workers))))
    used = sum(worker.recv() for worker in workers)
    passed = time.perf_counter() - begins
    rounds = CALLS * ROUNDS / 1000
    return passed / rounds, used / callers / rounds


@contextmanager
def _worker(subject: Subject | None, settings: Settings) -> Generator[Connection]:
    """Run a process that makes calls.

    It receives a number of callers, makes their calls, and sends back its processor time in
    seconds.
    """
    here, there = Pipe()
    with there:
        process = start(_work, there, subject, settings)
    try:
        yield here
    finally:
        here.close()  # the worker then shuts down
        process.join(START_SECONDS)
        end(process)


def _work(bench: Connection, subject: Subject | None, settings: Settings) -> None:
    with quiet_servers():
        anyio.run(_serve, bench, subject, settings)


async def _serve(bench: Connection, subject: Subject | None, settings: Settings) -> None:
    if subject is None:
        from scoreboard.cost.engine_by_hand import server_by_hand

        server = server_by_hand(settings.database or "")
    else:
        server = load(subject.option.path, settings)
    async with clients_of({"": server}) as clients:
        while True:
            try:
                callers = await anyio.to_thread.run_sync(bench.recv)
            except EOFError:
                return
            used = time.process_time()
            async with anyio.create_task_group() as group:
                for _ in range(callers):
                    group.start_soon(_call, clients[""])
            bench.send(time.process_time() - used)


async def _call(client: Client) -> None:
    for _ in range(CALLS):
        await one_call(client)
