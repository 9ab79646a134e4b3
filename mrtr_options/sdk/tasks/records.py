"""What is known of each task besides its call: whose it is, how long it is kept, how it ended.

One row a task, in the engine's own database. The first statement that changes a
task's status from `working` settles it for good, however many processes try. Every method is one or two
statements that commit by themselves.

Knows SQLAlchemy, which the engine brings, and two databases; nothing of MCP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import TextClause, bindparam, create_engine, text
from sqlalchemy.exc import DBAPIError

RecordStatus = Literal["working", "completed", "failed", "cancelled"]
T = TypeVar("T")

THREADS = 8
"""How many statements run at a time."""
AT_ONCE = 500
"""How many tasks one statement asks about."""

_TABLE = """
CREATE TABLE IF NOT EXISTS mrtr_tasks (
    id TEXT PRIMARY KEY,
    principal TEXT,
    status TEXT NOT NULL,
    message TEXT,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    ttl BIGINT,
    expires BIGINT,
    outcome TEXT
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS mrtr_tasks_by_end ON mrtr_tasks (expires)"
_CREATE = text("""
INSERT INTO mrtr_tasks (id, principal, status, created, updated, ttl, expires)
VALUES (:id, :principal, 'working', :now, :now, :ttl, :expires) ON CONFLICT (id) DO NOTHING
""")
_GET = text("""
SELECT id, principal, status, message, created, updated, ttl, expires, outcome
FROM mrtr_tasks WHERE id = :id
""")
_SAY = text(
    "UPDATE mrtr_tasks SET message = :message, updated = :now WHERE id = :id AND status = 'working'"
)
_TOUCH = text("UPDATE mrtr_tasks SET updated = :now WHERE id = :id AND status = 'working'")
_FINISH = text("""
UPDATE mrtr_tasks SET status = :status, outcome = :outcome, message = NULL, updated = :now
WHERE id = :id AND status = 'working'
""")
_WORKING = text("SELECT id FROM mrtr_tasks WHERE id IN :ids AND status = 'working'").bindparams(
    bindparam("ids", expanding=True)
)
_EXPIRED = text("SELECT id FROM mrtr_tasks WHERE expires <= :now ORDER BY expires LIMIT :limit")
_DELETE = text("DELETE FROM mrtr_tasks WHERE id IN :ids").bindparams(bindparam("ids", expanding=True))


@dataclass(frozen=True)
class Record:
    """One task. Times and durations are milliseconds.

    Attributes:
        id: The call's handle, which is the task's id.
        principal: Whose it is; None for an anonymous client.
        status: `working` until it is settled; whether it waits for input is the call's to say.
        message: The author's words.
        created, updated: When.
        ttl, expires: How long it is kept, and until when; None for ever.
        outcome: The result or the error, as JSON.
    """

    id: str
    principal: str | None
    status: RecordStatus
    message: str | None
    created: int
    updated: int
    ttl: int | None
    expires: int | None
    outcome: str | None


class Records:
    """The table. Its methods block: call them through `do`."""

    def __init__(self, url: str) -> None:
        is_sqlite = url.startswith("sqlite")
        self._db = create_engine(
            url.replace("postgresql://", "postgresql+psycopg://", 1),
            connect_args={"timeout": 30} if is_sqlite else {},
        )
        for statement in (_TABLE, _INDEX):
            try:
                self._run(text(statement))
            except DBAPIError:  # PostgreSQL refuses one of two that create it at the same moment
                self._run(text(statement))

        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mrtr-tasks")

    async def do(self, method: Callable[..., T], *args: Any) -> T:
        """Call a method in a thread of the table's own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, method, self, *args)

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncGenerator[Records]:
        """The table of tasks in the engine's database, for the length of a block."""
        records = await anyio.to_thread.run_sync(cls, url)
        try:
            yield records
        finally:
            # A task that is cancelled leaves its statement to its thread, and a connection in use is not
            # closed with its pool: so wait for both.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(records._close)

    def _close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._db.dispose()

    def _run(self, statement: TextClause, **values: Any) -> int:
        with self._db.begin() as db:
            return db.execute(statement, values).rowcount

    def _ids(self, statement: TextClause, **values: Any) -> list[str]:
        with self._db.begin() as db:
            return [row.id for row in db.execute(statement, values)]

    def create(self, task: str, principal: str | None, ttl: int | None, now: int) -> Record | None:
        """Make a record unless there is one; what is there then."""
        expires = None if ttl is None else now + ttl
        self._run(_CREATE, id=task, principal=principal, ttl=ttl, expires=expires, now=now)
        return self.get(task)

    def get(self, task: str) -> Record | None:
        """The record, if there is one."""
        with self._db.begin() as db:
            row = db.execute(_GET, {"id": task}).mappings().one_or_none()
            return None if row is None else Record(**row)

    def say(self, task: str, message: str, now: int) -> None:
        """Set the author's words on a task that is not settled."""
        self._run(_SAY, id=task, message=message, now=now)

    def touch(self, task: str, now: int) -> None:
        """Note that something happened to a task that is not settled."""
        self._run(_TOUCH, id=task, now=now)

    def finish(self, task: str, status: RecordStatus, outcome: str | None, now: int) -> bool:
        """Settle a task; whether this is what settled it."""
        return self._run(_FINISH, id=task, status=status, outcome=outcome, now=now) == 1

    def working(self, tasks: Collection[str]) -> set[str]:
        """Which of these are there and not settled."""
        ids = list(tasks)  # some at a time: PostgreSQL takes 65,535 parameters and SQLite fewer
        parts = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
        return {task for part in parts for task in self._ids(_WORKING, ids=part)}

    def expired(self, now: int, limit: int) -> list[str]:
        """Some tasks that need not be kept any longer, the longest expired first."""
        return self._ids(_EXPIRED, now=now, limit=limit)

    def delete(self, tasks: Sequence[str]) -> None:
        """Forget tasks."""
        self._run(_DELETE, ids=list(tasks))
