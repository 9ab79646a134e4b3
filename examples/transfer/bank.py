"""The world outside: a bank in a SQLite file that all instances share."""

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass

OWNERS = {"A-1": "ada", "B-1": "bob"}
"""The owners of the accounts from which money can be sent."""

WRONG_CODES = 3
"""The number of wrong codes that the bank takes for one reference, in all calls together."""

TABLES = """
CREATE TABLE IF NOT EXISTS transfers (
    owner TEXT NOT NULL, reference TEXT NOT NULL, sender TEXT, recipient TEXT, amount INTEGER,
    fee INTEGER, at TEXT, UNIQUE (owner, reference));
CREATE TABLE IF NOT EXISTS codes (
    owner TEXT NOT NULL, reference TEXT NOT NULL, code TEXT, wrong INTEGER DEFAULT 0,
    UNIQUE (owner, reference));
"""


@dataclass(frozen=True)
class Transfer:
    """A transfer that is wanted or recorded."""

    sender: str
    recipient: str
    amount: int
    fee: int

    def __str__(self) -> str:
        return f"{self.amount} from {self.sender} to {self.recipient}, fee {self.fee}"


class Bank:
    """The destination of the effect.

    The unique constraint is on the business key of a transfer: its owner and its reference.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as db:
            db.executescript(TABLES)

    def transfer(self, owner: str, reference: str, wanted: Transfer) -> None:
        """Transfer money, unless this owner already made a transfer with this reference."""
        row = (owner, reference, wanted.sender, wanted.recipient, wanted.amount, wanted.fee)
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO transfers VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%SZ'))"
                " ON CONFLICT (owner, reference) DO NOTHING",
                row,
            )

    def recorded(self, owner: str, reference: str) -> tuple[Transfer, str] | None:
        """Return the transfer with this reference and its time; None without one."""
        with closing(sqlite3.connect(self._path)) as db:
            row = db.execute(
                "SELECT sender, recipient, amount, fee, at FROM transfers"
                " WHERE owner = ? AND reference = ?",
                (owner, reference),
            ).fetchone()
        return None if row is None else (Transfer(*row[:4]), row[4])

    def send_code(self, owner: str, reference: str) -> None:
        """Send a one-time code to the owner's phone, unless one was sent for this reference."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO codes (owner, reference, code) VALUES (?, ?, ?)"
                " ON CONFLICT (owner, reference) DO NOTHING",
                (owner, reference, f"{secrets.randbelow(10**6):06}"),
            )

    def takes_code(self, owner: str, reference: str, code: str) -> bool:
        """Check whether this is the code, and count a wrong one."""
        of = (owner, reference)
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            right, wrong = db.execute(
                "SELECT code, wrong FROM codes WHERE owner = ? AND reference = ?", of
            ).fetchone()
            is_right = wrong < WRONG_CODES and secrets.compare_digest(code, right)
            if not is_right:
                db.execute(
                    "UPDATE codes SET wrong = wrong + 1 WHERE owner = ? AND reference = ?", of
                )
        return is_right

    def phone(self, owner: str, reference: str) -> str:
        """Return the code that the owner reads on their phone."""
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute(
                "SELECT code FROM codes WHERE owner = ? AND reference = ?", (owner, reference)
            ).fetchone()[0]
