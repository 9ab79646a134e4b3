"""The parts of a run that are no events of its history: the author's lines, and database writes.

Knows the guard's store and the tables of the durable engine; nothing of deployments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mrtr_options.sdk.single_use.reservations import Claim, Stamp, Store

Report = Callable[[str], None]


class Watch(Protocol):
    """An observer. `events` is the number of events of the history so far."""

    def line(self, events: int, path: Path, instance: int, round: int | None, line: int) -> None:
        """Note a statement of the author's before it runs: its file, and its first line."""
        ...

    def kept(self, events: int, instance: int | None, round: int | None, what: str) -> None:
        """Note a read or write of a database, in two or three words."""
        ...


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


_KEPT = re.compile(r"\s*INSERT INTO \S*\boperation_outputs\b", re.IGNORECASE)
_NAMES = {
    "mrtr.asked": "the question",
    "mrtr.answered": "the answer",
    "mrtr.again": "that a step begins again",
    "mrtr.task": "that it is a task",
}


@contextmanager
def watching_the_engine(report: Report) -> Generator[None]:
    """Report each step that a durable engine of this process records meanwhile."""
    import sqlalchemy  # comes with the extra
    import sqlalchemy.event

    def done(connection: Any, cursor: Any, statement: str, parameters: Any, *others: Any) -> None:
        if _KEPT.match(statement):
            _, _, name, *_ = parameters
            report(f"keeps {_NAMES.get(name) or f'step {name}'}")

    sqlalchemy.event.listen(sqlalchemy.Engine, "after_cursor_execute", done)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "after_cursor_execute", done)
