"""The world outside: a bank in a SQLite file that all instances share."""

import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

OWNERS = {"A-1": "ada", "B-1": "bob"}
"""The owners of the accounts from which money can be sent."""

WRONG_CODES = 3
"""The number of wrong codes that the bank takes for one reference, in all calls together."""

TABLES = """
CREATE TABLE IF NOT EXISTS transfers (
    owner TEXT NOT NULL, reference TEXT NOT NULL, sender TEXT, recipient TEXT, amount INTEGER,
    fee INTEGER, at TEXT, receipts INTEGER DEFAULT 0, UNIQUE (owner, reference));
CREATE TABLE IF NOT EXISTS codes (
    owner TEXT NOT NULL, reference TEXT NOT NULL, code TEXT, wrong INTEGER DEFAULT 0,
    is_right INTEGER DEFAULT 0, UNIQUE (owner, reference));
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


@dataclass(frozen=True)
class Paid:
    """A transfer that is recorded, and its time."""

    transfer: Transfer
    at: str


class Bank:
    """The destination of the effect.

    The unique constraint is on the business key of a transfer: its owner and its reference.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as db:
            db.executescript(TABLES)

    def transfer(self, owner: str, reference: str, wanted: Transfer) -> Paid:
        """Transfer money, unless this owner already did so with this reference.

        Returns:
            The transfer that is recorded under the reference.
        """
        row = (owner, reference, wanted.sender, wanted.recipient, wanted.amount, wanted.fee)
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO transfers (owner, reference, sender, recipient, amount, fee, at)"
                " VALUES (?, ?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%SZ'))"
                " ON CONFLICT (owner, reference) DO NOTHING",
                row,
            )
        paid = self.find(owner, reference)
        assert paid
        return paid

    def find(self, owner: str, reference: str) -> Paid | Literal[False]:
        """Look up the transfer with this reference."""
        with closing(sqlite3.connect(self._path)) as db:
            row = db.execute(
                "SELECT sender, recipient, amount, fee, at FROM transfers"
                " WHERE owner = ? AND reference = ?",
                (owner, reference),
            ).fetchone()
        return Paid(Transfer(*row[:4]), row[4]) if row else False

    def send_receipt(self, owner: str, reference: str) -> None:
        """Send a receipt for a transfer, and count it."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "UPDATE transfers SET receipts = receipts + 1 WHERE owner = ? AND reference = ?",
                (owner, reference),
            )

    # --- the bank's own page, where the user types a code ---

    def page(self, owner: str, reference: str) -> str:
        """Return the address of the page for this reference."""
        return f"https://bank.example/{quote(owner)}/{quote(reference)}"

    def phone(self, page: str) -> str:
        """Open a page; return the code that is sent to its owner's phone."""
        owner, reference = _of(page)
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO codes (owner, reference, code) VALUES (?, ?, ?)"
                " ON CONFLICT (owner, reference) DO NOTHING",
                (owner, reference, f"{secrets.randbelow(10**6):06}"),
            )
            return db.execute(
                "SELECT code FROM codes WHERE owner = ? AND reference = ?", (owner, reference)
            ).fetchone()[0]

    def type_code(self, page: str, code: str) -> None:
        """Type a code on a page, which counts the wrong ones."""
        of = _of(page)
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "UPDATE codes SET is_right = is_right OR (code = ? AND wrong < ?),"
                " wrong = wrong + (code != ?) WHERE owner = ? AND reference = ?",
                (code, WRONG_CODES, code, *of),
            )

    def is_confirmed(self, owner: str, reference: str) -> bool:
        """Return whether the right code was typed for this reference."""
        with closing(sqlite3.connect(self._path)) as db:
            row = db.execute(
                "SELECT is_right FROM codes WHERE owner = ? AND reference = ?", (owner, reference)
            ).fetchone()
        return bool(row and row[0])


def _of(page: str) -> tuple[str, str]:
    """Return the owner and the reference that a page is for."""
    _, owner, reference = page.rsplit("/", 2)
    return unquote(owner), unquote(reference)
