"""The weather tool's domain for the servers in Python: places, texts, and the ledger
(docs/CONTRACT.md).

Knows no library.
"""

import asyncio
import os
import sqlite3
from contextlib import closing

TODAY = {
    "Lisbon, Portugal": (24, "sunny"),
    "Nairobi, Kenya": (23, "light cloud"),
    "Portland, Maine": (14, "fog"),
    "Portland, Oregon": (16, "drizzle"),
    "Reykjavik, Iceland": (7, "windy"),
    "Springfield, Illinois": (22, "partly cloudy"),
    "Springfield, Massachusetts": (17, "rain"),
    "Springfield, Missouri": (26, "sunny"),
    "Tokyo, Japan": (19, "clear"),
}


def places(location: str) -> list[str]:
    """The places that a location may mean."""
    wanted = location.strip().lower()
    return [name for name in TODAY if wanted in (name.lower(), name.split(",")[0].lower())]


def report(place: str, units: str | None) -> str:
    """The tool's result; without units, metric is assumed."""
    celsius, sky = TODAY[place]
    degrees = f"{round(celsius * 1.8 + 32)} °F" if units == "imperial" else f"{celsius} °C"
    assumed = "" if units else " (metric assumed: this client cannot be asked)"
    return f"{place}: {degrees}, {sky}.{assumed}"


async def audit(location: str) -> None:
    """A lookup was requested."""
    await asyncio.to_thread(_record, "audit", location)


async def bill(place: str) -> None:
    """A lookup is metered."""
    await asyncio.to_thread(_record, "bill", place)


def _record(kind: str, subject: str) -> None:
    with closing(sqlite3.connect(os.environ["MRTR_LEDGER"], timeout=5)) as db, db:
        db.execute(
            "CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
            " subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)"
        )
        db.execute(
            "INSERT INTO effects (kind, subject, at) VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%fZ'))",
            (kind, subject),
        )
