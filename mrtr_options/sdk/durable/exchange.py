"""What a call and its rounds say to each other: a table of texts, and who in this process waits for one.

A round puts an answer under one topic of its call, and the call puts what it asks under another. Each
text has a position in its topic, and a key under which it is put once. Whoever waits for a text waits in
memory, for however many calls: what is put here is told here, and what another process puts is noticed
by one thread for all. PostgreSQL notifies it; on SQLite it looks whether the file has changed.

Knows `database`, and of DBOS the table of calls: a text is deleted with its call.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import psycopg
from sqlalchemy import Connection, text

from mrtr_options.sdk.durable.database import AGAIN_SECONDS, CONNECT, Database

LOOK_SECONDS = 0.01
"""How often a SQLite file is looked at for what other processes put."""
PING_SECONDS = 5.0
"""How often the connection to PostgreSQL that waits for notifications is tried."""
TO_CALL = "to "
"""How the topics begin that a call reads."""

_CHANNEL = "mrtr_texts"
_LOG = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS mrtr_texts (
    id {id},
    call TEXT NOT NULL REFERENCES {schema}workflow_status (workflow_uuid) ON DELETE CASCADE,
    topic TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    UNIQUE (call, topic, position),
    UNIQUE (call, topic, key)
)
"""
_PUT = """
INSERT INTO mrtr_texts (call, topic, position, key, body, at)
SELECT :call, :topic, coalesce(max(position), 0) + 1, :key, :body, {now}
FROM mrtr_texts WHERE call = :call AND topic = :topic
ON CONFLICT DO NOTHING
"""
_NEW = "SELECT id, call, topic FROM mrtr_texts WHERE id > ? ORDER BY id"
_IS_THERE = "SELECT 1 FROM mrtr_texts WHERE call = :call AND topic = :topic AND key = :key"
_SELECT = "SELECT topic, position, body FROM mrtr_texts WHERE call = :call "


class Text(NamedTuple):
    """One text, and where it stands."""

    topic: str
    position: int
    body: str


class Exchange:
    """See `opened`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[str, str], list[anyio.Event]] = {}
        self._over = threading.Event()
        self._listening: psycopg.Connection[Any] | None = None

    @classmethod
    @asynccontextmanager
    async def opened(cls, database: Database) -> AsyncGenerator[Exchange]:
        """The exchange on a database that has the engine's tables, for the length of a block."""
        exchange = cls(database)
        await database.do(exchange._prepare)
        thread = threading.Thread(target=exchange._listen, name="mrtr-exchange", daemon=True)
        thread.start()
        try:
            yield exchange
        finally:
            exchange._over.set()
            with suppress(OSError, psycopg.Error):
                if exchange._listening is not None:
                    _shut_down(exchange._listening)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join, PING_SECONDS)

    def _prepare(self, db: Connection) -> None:
        by_database = "INTEGER PRIMARY KEY AUTOINCREMENT"  # ids are never used again
        if not self._database.is_sqlite:
            by_database = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
            db.execute(text("SELECT pg_advisory_xact_lock(hashtext('mrtr_texts'))"))
        db.execute(text(_TABLES.format(id=by_database, schema=self._database.schema)))

    # --- putting and reading ---

    async def put(self, call: str, topic: str, key: str, body: str) -> None:
        """Put a text at the end of a topic, unless there is one with this key.

        Raises:
            sqlalchemy.exc.IntegrityError: There is no such call.
        """
        while not await self._database.patiently(self._put, call, topic, key, body):
            pass  # another process put one at the same moment, under another key
        self._tell([(call, topic)])

    def _put(self, db: Connection, call: str, topic: str, key: str, body: str) -> bool:
        values = {"call": call, "topic": topic, "key": key, "body": body, "now": time.time()}
        new = db.execute(text(_PUT.format(now=self._database.now)), values).rowcount == 1
        if new and not self._database.is_sqlite:
            db.execute(text(f"SELECT pg_notify('{_CHANNEL}', :told)"), {"told": f"{call} {topic}"})
        return new or db.execute(text(_IS_THERE), values).scalar() is not None

    async def next(self, call: str, topic: str, after: int) -> Text:
        """The text that follows a position of a topic, as soon as it is there."""
        place = call, topic
        while True:
            told = anyio.Event()
            self._waiting.setdefault(place, []).append(told)
            try:
                following = (
                    f"{_SELECT} AND topic = :topic AND position > :after ORDER BY position LIMIT 1"
                )
                if found := await self._one(following, call=call, topic=topic, after=after):
                    return found
                await told.wait()
            finally:
                if waiting := self._waiting.get(place):
                    with suppress(ValueError):
                        waiting.remove(told)
                    if not waiting:
                        del self._waiting[place]

    async def last(self, call: str, topic: str) -> Text | None:
        """The last text of a topic."""
        last = f"{_SELECT} AND topic = :topic ORDER BY position DESC LIMIT 1"
        return await self._one(last, call=call, topic=topic)

    async def last_of_call(self, call: str) -> Text | None:
        """The last text that a call put."""
        last = f"{_SELECT} AND topic NOT LIKE '{TO_CALL}%' ORDER BY id DESC LIMIT 1"
        return await self._one(last, call=call)

    async def silence(self, call: str) -> float:
        """For how many seconds nothing was put that concerns a call."""
        since = f"SELECT {self._database.now} - max(at) FROM mrtr_texts WHERE call = :call"

        def read(db: Connection) -> float:
            return db.execute(text(since), {"call": call, "now": time.time()}).scalar() or 0.0

        return await self._database.patiently(read)

    async def _one(self, statement: str, **values: Any) -> Text | None:
        def read(db: Connection) -> Text | None:
            row = db.execute(text(statement), values).one_or_none()
            return None if row is None else Text(*row)

        return await self._database.patiently(read)

    # --- telling those who wait ---

    def _tell(self, places: Iterable[tuple[str, str]]) -> None:
        for place in places:
            for told in self._waiting.pop(place, ()):
                told.set()

    def _tell_from_thread(self, places: Iterable[tuple[str, str]] | None = None) -> None:
        """Tell those who wait at these places, or everybody."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(
                lambda: self._tell(list(self._waiting) if places is None else places)
            )

    def _listen(self) -> None:
        listen = self._listen_to_file if self._database.is_sqlite else self._listen_to_server
        while not self._over.is_set():
            try:
                listen()
            except (OSError, sqlite3.Error, psycopg.Error) as error:
                if not self._over.wait(AGAIN_SECONDS):
                    _LOG.warning("not listening to the database: %s", str(error).splitlines()[:1])

    def _listen_to_file(self) -> None:
        file = self._database.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            (seen,) = db.execute("SELECT coalesce(max(id), 0) FROM mrtr_texts").fetchone()
            self._tell_from_thread()
            version = None
            while not self._over.wait(LOOK_SECONDS):
                # Costs nothing to speak of, and tells of any other connection's change.
                (now,) = db.execute("PRAGMA data_version").fetchone()
                if now == version:
                    continue
                version = now
                new = db.execute(_NEW, (seen,))
                if rows := new.fetchall():
                    seen = rows[-1][0]
                    self._tell_from_thread([(call, topic) for _, call, topic in rows])

    def _listen_to_server(self) -> None:
        with psycopg.connect(self._database.url, autocommit=True, **CONNECT) as db:
            self._listening = db
            db.execute(f"LISTEN {_CHANNEL}".encode())
            self._tell_from_thread()  # what was put before is not notified
            while not self._over.is_set():
                for notified in db.notifies(timeout=PING_SECONDS):
                    call, _, topic = notified.payload.partition(" ")
                    self._tell_from_thread([(call, topic)])
                db.execute("SELECT 1")


def _shut_down(connection: psycopg.Connection[Any]) -> None:
    """End a connection under the thread that waits for it."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
