"""What is known of each task besides its call: whose it is, how long it is kept, how it ended.

One row a task, in the engine's own database. The first statement that changes a task's status from
`working` settles it for good, however many processes try.

Knows `database` and its SQL; nothing of MCP.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import Connection, bindparam, text

from mrtr_options.sdk.durable.database import Database

RecordStatus = Literal["working", "completed", "failed", "cancelled"]
T = TypeVar("T")
P = ParamSpec("P")

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
        message: The author's words, sealed.
        created, updated: When.
        ttl, expires: How long it is kept, and until when; None for ever.
        outcome: The result or the error, sealed.
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

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def opened(cls, database: Database) -> Records:
        """The table of tasks in the engine's database."""
        records = cls(database)
        await records.do(Records._prepare)
        return records

    async def do(
        self, method: Callable[Concatenate[Records, Connection, P], T], *args: P.args, **values: P.kwargs
    ) -> T:
        """Call a method in a thread, in a transaction, once the database can be used."""

        def run(db: Connection) -> T:
            return method(self, db, *args, **values)

        return await self._database.patiently(run)

    def _prepare(self, db: Connection) -> None:
        if not self._database.is_sqlite:
            db.execute(text("SELECT pg_advisory_xact_lock(hashtext('mrtr_tasks'))"))
        db.execute(text(_TABLE))
        db.execute(text(_INDEX))

    def create(
        self, db: Connection, task: str, principal: str | None, ttl: int | None, now: int
    ) -> Record | None:
        """Make a record unless there is one; what is there then."""
        expires = None if ttl is None else now + ttl
        db.execute(
            _CREATE, {"id": task, "principal": principal, "ttl": ttl, "expires": expires, "now": now}
        )
        return self.get(db, task)

    def get(self, db: Connection, task: str) -> Record | None:
        """The record, if there is one."""
        row = db.execute(_GET, {"id": task}).mappings().one_or_none()
        return None if row is None else Record(**row)

    def say(self, db: Connection, task: str, message: str, now: int) -> None:
        """Set the author's words on a task that is not settled."""
        db.execute(_SAY, {"id": task, "message": message, "now": now})

    def touch(self, db: Connection, task: str, now: int) -> None:
        """Note that something happened to a task that is not settled."""
        db.execute(_TOUCH, {"id": task, "now": now})

    def finish(
        self, db: Connection, task: str, status: RecordStatus, outcome: str | None, now: int
    ) -> bool:
        """Settle a task; whether this is what settled it."""
        return (
            db.execute(_FINISH, {"id": task, "status": status, "outcome": outcome, "now": now}).rowcount
            == 1
        )

    def working(self, db: Connection, tasks: Collection[str]) -> set[str]:
        """Which of these are there and not settled."""
        ids = list(tasks)  # some at a time: PostgreSQL takes 65,535 parameters and SQLite fewer
        parts = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
        return {row.id for part in parts for row in db.execute(_WORKING, {"ids": part})}

    def expired(self, db: Connection, now: int, limit: int) -> list[str]:
        """Some tasks that need not be kept any longer, the longest expired first."""
        return [row.id for row in db.execute(_EXPIRED, {"now": now, "limit": limit})]

    def delete(self, db: Connection, tasks: Sequence[str]) -> None:
        """Forget tasks."""
        db.execute(_DELETE, {"ids": list(tasks)})
