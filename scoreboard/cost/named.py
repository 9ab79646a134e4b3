"""The default's store: the statements of a repeat, and first requests beside many calls."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

from mcp import Client

from mrtr_options.sdk.single_use import SqliteStore
from mrtr_options.sdk.single_use.reservations import Claim
from mrtr_options.sdk.single_use.sql import Values
from scoreboard.cost.calls import clients_of, default_server, first_round, new_user, on_disk
from scoreboard.cost.timing import Progress, in_turns, timed

KEPT = 10_000
"""The number of named calls in the full store."""

CALLS = 4
"""First requests of one store in one turn."""

TURNS = 120

_SECONDS = 24 * 3600.0
_OUTCOME = "x" * 700  # the length of a recorded question of the weather tool


class CountingStore(SqliteStore):
    """A store that counts its statements.

    Attributes:
        reads, writes: The numbers of statements so far.
    """

    def __init__(self, path: Path) -> None:
        self.reads = 0
        self.writes = 0
        super().__init__(path)

    def _execute(self, statement: str, values: Values) -> Any:
        if statement.lstrip().startswith("SELECT"):
            self.reads += 1
        else:
            self.writes += 1
        return super()._execute(statement, values)


async def statements_of_a_repeat() -> tuple[int, int]:
    """Return the reads and writes of a repeated first request, whose call is open."""
    with on_disk() as folder, closing(CountingStore(folder / "rounds.sqlite")) as store:
        async with clients_of({"": default_server(store)}) as clients:
            user = new_user()
            await first_round(clients[""], user)
            store.reads = 0
            store.writes = 0
            await first_round(clients[""], user)
            return store.reads, store.writes


async def time_first_requests(progress: Progress) -> dict[str, list[float]]:
    """Time first requests of new calls beside `KEPT` named calls, and beside none.

    Args:
        progress: Called `TURNS` times.

    Returns:
        The processor time of each turn in seconds, for "empty" and "full".
    """

    async def work(client: Client) -> None:
        for _ in range(CALLS):
            await first_round(client, new_user())

    async with _clients_of_two_stores() as clients:
        # Short turns, and many: the empty store holds few calls at the end.
        named = {
            name: timed(partial(work, client), time.process_time)
            for name, client in clients.items()
        }
        return await in_turns(named, TURNS, progress)


@asynccontextmanager
async def _clients_of_two_stores() -> AsyncGenerator[dict[str, Client]]:
    with on_disk() as folder, ExitStack() as stack:
        stores = {
            name: stack.enter_context(closing(SqliteStore(folder / f"{name}.sqlite")))
            for name in ("empty", "full")
        }
        await _fill(stores["full"])
        servers = {name: default_server(store) for name, store in stores.items()}
        async with clients_of(servers) as clients:
            yield clients


async def _fill(store: SqliteStore) -> None:
    for number in range(KEPT):
        name = f"{number:032x}"
        claim = Claim(name, "a" * 64, 0.0, 60, call=name, arguments="a" * 64, call_seconds=_SECONDS)
        await store.reserve(claim)
        await store.record(claim, _OUTCOME)
