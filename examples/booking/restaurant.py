"""The world outside: tables that are booked, in a SQLite file that all instances share."""

import sqlite3
from contextlib import closing

OPEN_AT = {2: ("18:00", "20:30"), 4: ("18:00", "21:00"), 8: ("19:00",)}


def hours_for(party: int) -> tuple[str, ...]:
    """Return the hours at which there is a table for so many people."""
    return next(hours for seats, hours in OPEN_AT.items() if party <= seats)


class Restaurant:
    """The destination of the effect.

    Args:
        path: The SQLite file.
        unique: Whether a guest can have one table at one time. Without it, each booking counts.
    """

    def __init__(self, path: str, *, unique: bool = True) -> None:
        self._path = path
        about = ", UNIQUE (guest, time)" if unique else ""
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(f"CREATE TABLE IF NOT EXISTS bookings (guest, party, time, deposit{about})")

    def book(self, guest: str, party: int, time: str, deposit: str) -> None:
        """Book a table; the same guest at the same time is the same booking."""
        with closing(sqlite3.connect(self._path)) as db, db:
            row = (guest, party, time, deposit)
            db.execute("INSERT INTO bookings VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)

    def bookings(self) -> list[tuple[str, int, str, str]]:
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute("SELECT * FROM bookings").fetchall()
