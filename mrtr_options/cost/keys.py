"""What a call key costs, and whether it holds: on SQLite, and on PostgreSQL where it is installed.

    python -m mrtr_options.cost.keys --keys 100000

Three processes send a hundred first requests under one key at once: one call may come of it. Then a
guard's store holds so many keys, and the time and the bytes of one more are counted. Last, calls over
HTTP without a key and with one, and the round trip that fetching a nonce from the server would add.

Knows the guard, the client and PostgreSQL's own count of bytes.
"""

from __future__ import annotations

import json
import multiprocessing
import sqlite3
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2

from mrtr_options.bench import postgres
from mrtr_options.bench.client import client_of, exchange, exchange_at
from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.player import on_the_wire
from mrtr_options.bench.processes import CALLS as DATABASE
from mrtr_options.bench.processes import LEDGER, ROUNDS, Served, Worker
from mrtr_options.bench.schedules import AGREE, Accept
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import column_named, open_store
from mrtr_options.sdk.call_key import CALL_KEY, new_call_key
from mrtr_options.sdk.single_use import single_use
from mrtr_options.show.terminal import Parser, console, run
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.serving import PATH
from mrtr_options.tool.settings import Settings

PROCESSES, REQUESTS, KEYS, CALLS = 3, 100, 100_000, 50
TIMED = 1000
"""How many keys are claimed one by one; those before them are put there at once."""


@dataclass(frozen=True)
class Crowd:
    """What came of first requests under one key.

    Attributes:
        requests: How many there were.
        calls: How many calls they began.
        replies: How many different responses they got.
        seconds: How long they took, with the start of the processes.
    """

    requests: int
    calls: int
    replies: int
    seconds: float


def crowd(where: Path | str, folder: Path) -> Crowd:
    """Send `REQUESTS` first requests under one key at once, from `PROCESSES` processes.

    Args:
        where: The guard's store, as `open_store` takes it.
        folder: For the ledger.
    """
    open_store(where).close()  # a key must not be older than the store
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    ledger, key = folder / "ledger.sqlite", new_call_key()
    begun = time.perf_counter()
    numbers = [len(range(n, REQUESTS, PROCESSES)) for n in range(PROCESSES)]
    with processes.Pool(PROCESSES) as pool:
        found = pool.starmap(_begin, [(where, ledger, key, number) for number in numbers])
    seconds = time.perf_counter() - begun
    replies = {text for texts in found for text in texts}
    effects = anyio.run(weather.SqliteLedger(ledger).effects)
    return Crowd(REQUESTS, len(effects), len(replies), round(seconds, 2))


def _begin(where: Path | str, ledger: Path, key: str, number: int) -> list[str]:
    """In a process of its own: send so many first requests at once; what they got."""
    store = open_store(where)
    guard = single_use(store, wait_seconds=60.0)
    server = load(
        column_named("F").option.path, Settings(weather.SqliteLedger(ledger), wrappers=[guard])
    )
    replies: list[Reply] = []

    async def send() -> None:
        async with client_of(server, Request()) as client:

            async def one() -> None:
                replies.append(await exchange(client, Request("Springfield", key=key)))

            async with anyio.create_task_group() as group:
                for _ in range(number):
                    group.start_soon(one)

    anyio.run(send)
    store.close()
    return [str((reply.questions, reply.text, reply.code)) for reply in replies]


@dataclass(frozen=True)
class Filled:
    """What keys cost a store.

    Attributes:
        keys: How many it holds.
        claim_ms: How long it took to claim one and to record its first response, in milliseconds.
        known_ms: How long it took to look one up at the end, in milliseconds.
        bytes: How many bytes each takes on disk, with a first response of `response` bytes.
        response: See `bytes`.
    """

    keys: int
    claim_ms: float
    known_ms: float
    bytes: int
    response: int


def fill(where: Path | str, keys: int) -> Filled:
    """Claim so many keys.

    Args:
        where: The guard's store, as `open_store` takes it.
        keys: How many.
    """
    store = open_store(where)
    response, empty = anyio.run(_first_response), _bytes_in(where)

    names, timed = [f"{number:032x}" for number in range(keys)], min(keys, TIMED)
    _put(where, [(name, _DIGEST, time.time(), response) for name in names[:-timed]])

    async def claim() -> tuple[float, float]:
        begins, begun = await store.now(), time.perf_counter()
        for name in names[-timed:]:
            await store.reserve(name, _DIGEST, begins=begins, lease_seconds=60.0)
            await store.record(name, response)
        middle = time.perf_counter()
        looks = names[:: max(1, keys // timed)]
        for name in looks:
            await store.reserve(name, _DIGEST, begins=begins, lease_seconds=60.0)
        return (middle - begun) / timed, (time.perf_counter() - middle) / len(looks)

    claimed, known = anyio.run(claim)
    store.close()
    each = (_bytes_in(where) - empty) // keys
    return Filled(keys, round(claimed * 1000, 3), round(known * 1000, 3), each, len(response))


async def _first_response() -> str:
    """What F's first round records."""
    with scratch() as folder:
        store = open_store(folder / "rounds.sqlite")
        server = load(
            column_named("F").option.path,
            Settings(weather.MemoryLedger(), wrappers=[single_use(store)]),
        )
        async with client_of(server, Request()) as client:
            await exchange(client, Request("Springfield", key=new_call_key()))
        store.close()
        with closing(sqlite3.connect(folder / "rounds.sqlite")) as db:
            return db.execute("SELECT outcome FROM guard_rounds").fetchone()[0]


@dataclass(frozen=True)
class OverHttp:
    """Calls of F in the guard, for Springfield, over HTTP.

    Attributes:
        without_ms, with_ms: The median of a call of three rounds, without a key and with one.
        nonce_ms: The median of the smallest request: what fetching a nonce would add to each call.
        key_bytes: How many bytes a key adds to each request.
    """

    without_ms: float
    with_ms: float
    nonce_ms: float
    key_bytes: int


@asynccontextmanager
async def _serving() -> AsyncGenerator[str]:
    """A process that serves F in the guard; where it listens."""
    with scratch() as folder:
        weather.SqliteLedger(folder / LEDGER)
        column, database = column_named("F+single-use"), f"sqlite:///{folder / DATABASE}"
        served = Served(column, [new_key()], folder, database, folder / ROUNDS)
        worker = await anyio.to_thread.run_sync(Worker.started, served)
        try:
            yield worker.origin
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(worker.end)


async def over_http(calls: int) -> OverHttp:
    """Make so many calls without a key and with one, in turn."""
    times: dict[str, list[float]] = {"without": [], "with": [], "nonce": []}
    async with (
        _serving() as origin,
        httpx2.AsyncClient(timeout=60.0, trust_env=False) as http,
    ):
        url = origin + PATH
        await exchange_at(url, http, Request(method="tools/list"))
        for _ in range(calls):
            for name, key in (("without", None), ("with", new_call_key())):
                begun, request = time.perf_counter(), Request("Springfield", key=key)
                while (reply := await exchange_at(url, http, request)).questions:
                    asked = {each: reply.name_of(each) for each in reply.questions}
                    answers = {each: on_the_wire(Accept({it: AGREE[it]})) for each, it in asked.items()}
                    request = Request("Springfield", answers, reply.state, key=key)
                assert reply.is_result
                times[name].append(time.perf_counter() - begun)
            begun = time.perf_counter()
            await exchange_at(url, http, Request(method="tools/list"))
            times["nonce"].append(time.perf_counter() - begun)
    without, with_key, nonce = (round(statistics.median(each) * 1000, 2) for each in times.values())
    return OverHttp(without, with_key, nonce, len(json.dumps({CALL_KEY: new_call_key()})) - 2)


def _store(file: Path, server: str | None) -> Path | str:
    """A store of its own: a file, or a database of a PostgreSQL server."""
    return file if server is None else postgres.database(server)


_DIGEST = "d" * 64
_PUT = """
INSERT INTO guard_rounds (number, answers, begins, ends, outcome{owner})
VALUES ({a}, {a}, {a}, 0, {a}{own})
"""


def _put(where: Path | str, rows: list[tuple[str, str, float, str]]) -> None:
    """Put rounds into a store all at once."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(where)) as db, db:
            db.executemany(_PUT.format(owner="", own="", a="?"), rows)
        return
    import psycopg

    with psycopg.connect(where) as db, db.cursor() as cursor:
        cursor.executemany(_PUT.format(owner=", owner", own=", 'other'", a="%s").encode(), rows)


def _bytes_in(where: Path | str) -> int:
    """How many bytes the rounds of a store take, with their indexes."""
    if isinstance(where, Path):
        return where.stat().st_size
    import psycopg

    with psycopg.connect(where) as db:
        found = db.execute("SELECT pg_total_relation_size('guard_rounds')").fetchone()
    return 0 if found is None else int(found[0])


def main() -> int:
    """The command line; returns 1 if more than one call came of one key."""
    parser = Parser(prog="python -m mrtr_options.cost.keys", description=__doc__)
    parser.add_argument("--keys", type=int, default=KEYS, help=f"how many fill the store ({KEYS:,})")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"how many are made ({CALLS})")
    args = parser.parse_args()
    held, progress = True, console(stderr=True)
    with postgres.running() if postgres.installed() else nullcontext() as server:
        for url in (None, server) if server else (None,):
            name = "postgres" if url else "sqlite"
            progress.print(f"{name}: {REQUESTS} first requests at once, then {args.keys:,} keys")
            with scratch() as folder:
                came = crowd(_store(folder / "crowd.sqlite", url), folder)
                filled = fill(_store(folder / "full.sqlite", url), args.keys)
            held &= (came.calls, came.replies) == (1, 1)
            print(json.dumps({name: {**asdict(came), **asdict(filled)}}), flush=True)
    print(json.dumps({"over_http": asdict(anyio.run(over_http, args.calls))}))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(run(main))
