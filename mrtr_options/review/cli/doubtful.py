"""List the calls in doubt of a guard's store, and end them."""

from __future__ import annotations

import argparse
import json
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from mrtr_options.terminal import console, refuse

if TYPE_CHECKING:
    from mrtr_options.sdk.single_use.reservations import Doubtful


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the store, and how a call is ended."""
    parser.add_argument("file", type=Path, metavar="FILE", help="as in: doubtful rounds.sqlite")
    parser.add_argument("--settle", metavar="ID", help="end this call")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--result", metavar="TEXT", help="it was done: tell whoever calls again this")
    how.add_argument("--not-done", action="store_true", help="it was not done: free its name")


def run(args: argparse.Namespace) -> int:
    """List the calls in doubt, or end one of them."""
    from mrtr_options.sdk.effects import text
    from mrtr_options.sdk.single_use import SqliteStore
    from mrtr_options.sdk.single_use.outcomes import write_response

    if (args.settle is None) != (args.result is None and not args.not_done):
        refuse("give --settle ID with --result TEXT or --not-done")
    if not _is_store(args.file):
        refuse(f"there is no store {args.file}; name the file of SqliteStore(...)")
    with closing(SqliteStore(args.file)) as store:
        if args.settle is None:
            for each in anyio.run(store.doubtful):
                console().print(describe(each), markup=False)
            return 0
        told = text(args.result or "Nothing was done.")

        async def settle() -> bool:
            outcome = write_response(told)
            return await store.settle(args.settle, outcome, is_done=not args.not_done)

        if not anyio.run(settle):
            refuse(f"no call {args.settle!r} is in doubt; without --settle all of them are listed")
    return 0


def _is_store(file: Path) -> bool:
    """Return whether a file has a guard's rounds; `SqliteStore` would make a store of another."""
    table = "SELECT 1 FROM sqlite_master WHERE name = 'guard_rounds'"
    address = f"{file.absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as db:
        return db.execute(table).fetchone() is not None
    return False


def describe(call: Doubtful) -> str:
    """Return a line on a call in doubt."""
    since = datetime.fromtimestamp(call.since, UTC).isoformat(timespec="seconds")
    begun = [*json.loads(call.effects)["now"]] if call.effects else []
    return f"{call.id}  {call.label or 'no name'}  since {since}  begun: {', '.join(begun) or '?'}"
