"""The wrappers of a subject, and the guard's store, with the numbers that are shipped.

A guard under review has the defaults of `single_use` and of its store, but for these two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.watch import Report
from mrtr_options.sdk.ask_again import ask_again
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.single_use.reservations import Claim, Stamp, Store
from mrtr_options.tool.notation import (
    ASK_AGAIN,
    CALL_KEY,
    LEGACY_SHIM,
    NAMED,
    SINGLE_USE,
    TEMPORAL,
)
from mrtr_options.tool.server import Handler
from mrtr_options.tool.weather import Destination

if TYPE_CHECKING:
    from mrtr_options.sdk.single_use.postgres import PostgresStore

KEEP_SECONDS = 600.0
"""The time for which a guard's store remembers rounds: its default."""

KEYED_KEEP_SECONDS = 24 * 3600.0
"""The same for clients that send call keys, as the guard's documentation says.

A store that remembers no longer than a state is valid cannot tell such a client, whose state is too
old, what became of its call.
"""

WAIT_SECONDS = 0.5
"""The time for which a guarded round waits for another delivery of itself.

Shorter than the guard's default: most runs would really wait, and no outcome depends on it.
"""

ROUND_SECONDS = 60.0
"""The longest time for a guarded round: the guard's default."""

OpenStore: TypeAlias = "SqliteStore | PostgresStore"
"""The store of a guard, while its instance runs."""


def keep_seconds(subject: Subject) -> float:
    """Return the time for which the store of a subject's guard remembers rounds."""
    return KEYED_KEEP_SECONDS if subject.keyed else KEEP_SECONDS


Wrapper: TypeAlias = Callable[[Handler], Handler]

REVIEWED: Callable[..., Wrapper] = partial(single_use, wait_seconds=WAIT_SECONDS)
"""The guard under review."""


def make_wrappers(
    names: tuple[str, ...], store: Store, guard: Callable[..., Wrapper] = REVIEWED
) -> list[Wrapper]:
    """Make wrappers by their names, innermost first. Instances share a guard's store."""
    wrappers: list[Wrapper] = []
    for name in names:
        if name == LEGACY_SHIM:
            wrappers.append(legacy_shim)
        elif name == ASK_AGAIN:
            wrappers.append(ask_again)
        elif name == SINGLE_USE:
            wrappers.append(guard(store, call="location" if NAMED in names else None))
        elif name not in (NAMED, CALL_KEY, TEMPORAL):
            raise ValueError(f"there is no wrapper {name!r}")
    return wrappers


def open_store(
    where: Path | str, clock: Callable[[], float] = time.time, keep_seconds: float = KEEP_SECONDS
) -> OpenStore:
    """Open a store: in a SQLite file, by this clock, or in a PostgreSQL database."""
    if isinstance(where, Path):
        return SqliteStore(where, keep_seconds=keep_seconds, clock=clock)
    from mrtr_options.sdk.single_use.postgres import PostgresStore  # needs the extra `durable`

    return PostgresStore(where, keep_seconds=keep_seconds)


@contextmanager
def opened(
    subject: Subject, destination: Destination, clock: Callable[[], float]
) -> Generator[Callable[[Report | None], list[Wrapper]]]:
    """Open the store of a subject's instances in memory.

    Yields a function that makes the wrappers of one instance. It takes what is told of each use of
    the store, or None.
    """
    with closing(SqliteStore(":memory:", keep_seconds=keep_seconds(subject), clock=clock)) as store:

        def make(report: Report | None) -> list[Wrapper]:
            watched = store if report is None else WatchedStore(store, report)
            guard = partial(REVIEWED, attempts=subject.attempts(destination))
            return make_wrappers(subject.wrappers, watched, guard)

        yield make


class WatchedStore:
    """A guard's store that reports each use, with its result."""

    def __init__(self, store: Store, report: Report) -> None:
        self._store = store
        self._report = report

    async def stamp(self) -> Stamp:
        return await self._store.stamp()

    async def reserve(self, claim: Claim) -> str | None:
        with self._reporting_errors():
            found = await self._store.reserve(claim)
        self._report("takes the round" if found is None else "finds the outcome")
        return found

    async def outcome(self, call: str) -> str | None:
        with self._reporting_errors():
            found = await self._store.outcome(call)
        self._report("finds nothing" if found is None else "finds the outcome")
        return found

    async def take_over(self, claim: Claim) -> bool:
        taken = await self._store.take_over(claim)
        self._report("takes it over" if taken else "leaves it")
        return taken

    async def effects(self, claim: Claim) -> str | None:
        return await self._store.effects(claim)

    async def begin_effect(self, claim: Claim) -> bool:
        return await self._store.begin_effect(claim)

    async def suspend(self, claim: Claim) -> None:
        await self._store.suspend(claim)

    async def ask_afresh(self, claim: Claim, outcome: str) -> bool:
        return await self._store.ask_afresh(claim, outcome)

    async def reopen(self, claim: Claim, outcome: str) -> bool:
        return await self._store.reopen(claim, outcome)

    async def record(self, claim: Claim, outcome: str) -> bool:
        kept = await self._store.record(claim, outcome)
        self._report("keeps the outcome" if kept else "leaves the outcome")
        return kept

    async def release(self, claim: Claim) -> None:
        await self._store.release(claim)
        self._report("gives it back")

    @contextmanager
    def _reporting_errors(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # the store's way to say that a round is not taken
            self._report(f"finds it {type(error).__name__.lower()}")
            raise
