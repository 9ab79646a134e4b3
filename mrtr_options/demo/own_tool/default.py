"""A tool that asks its user twice and then does one thing, once for each reference.

python own_tool.py 8000 serves an instance; start others on other ports.
All need the same MRTR_STATE_KEYS. pytest test_own_tool.py tries two.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server import Server
from mcp_types import ToolAnnotations
from mrtr_options import sdk
from mrtr_options.errors import in_one_line
from pydantic import BaseModel, Field

TOOL = "own_tool"


Item = Annotated[
    str, Field(min_length=1, max_length=50, description="What it is done to")
]
Reference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=50,
        description="What it is for, an invoice for example.",
    ),
]


class Way(BaseModel):
    """The form of the first question."""

    way: Literal["standard", "express"]


# --- where the effect goes ------------------------------------------------------------


class Records:
    """A database that all instances share. Yours may be somebody else's service.

    The unique constraint is on what the effect is about: a caller has one row for one
    reference, however often and by whatever way it is asked for.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS records (caller TEXT NOT NULL,"
                " reference TEXT NOT NULL, what TEXT NOT NULL, at TEXT NOT NULL,"
                " UNIQUE (caller, reference))"
            )

    def do(self, caller: str, reference: str, what: str) -> tuple[str, str]:
        """Do it, unless it is done; return what is recorded, and since when."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO records VALUES (?, ?, ?, strftime('%Y-%m-%d %H:%M:%SZ'))"
                " ON CONFLICT (caller, reference) DO NOTHING",
                (caller, reference, what),
            )
        recorded = self.find(caller, reference)
        assert recorded
        return recorded

    def find(self, caller: str, reference: str) -> tuple[str, str] | Literal[False]:
        """Look whether it is done; return what is recorded, and since when."""
        with closing(sqlite3.connect(self._path)) as db:
            recorded = db.execute(
                "SELECT what, at FROM records WHERE caller = ? AND reference = ?",
                (caller, reference),
            ).fetchone()
        return recorded or False

    def all(self) -> list[tuple[str, str, str]]:
        """Return who has what recorded under which reference."""
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute("SELECT caller, reference, what FROM records").fetchall()


@dataclass(frozen=True)
class World:
    """What the tool needs.

    Attributes:
        records: Where the effect goes.
        fee: What express costs in this version.
    """

    records: Records
    fee: int = 5


# --- the tool -------------------------------------------------------------------------


def which_way(item: str) -> sdk.Question[Way]:
    """Make the first question."""
    return sdk.Question("way", f"How is it to be done to {item}?", Way)


def add_tool(server: Server[Any], world: World, calls: sdk.Calls) -> None:
    """Serve the tool."""
    records = world.records

    @calls.tool(
        server,
        name=TOOL,
        name_by="reference",
        annotations=ToolAnnotations(idempotent_hint=True),
        round_seconds=10,  # what takes longer counts as dead
        wait_seconds=15,  # longer than that: who calls again waits for its end
    )
    async def do_it(call: sdk.Call, item: Item, reference: Reference) -> str:
        """Do one thing, once for each reference."""
        # It runs from its first line in each round, with equal answers.
        answer = await call.elicit(which_way(item))
        fee = world.fee if answer.way == "express" else 0
        what = f"{item}, {answer.way}, for {fee}"

        # A yes belongs to its words: a new fee is asked for again.
        if not await call.confirm(f"{what}: go ahead?"):
            raise sdk.NotDone("Nothing was done: the user declined.")

        # If the effect fails, or its process dies, `find` says whether it was done.
        done, at = await call.once(
            "do", records.do, call.caller, reference, what, settled=records.find
        )
        return f"Recorded under {reference} at {at}: {done}."


# --- the server -----------------------------------------------------------------------

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}
"""Who has which token. Ask whoever issues yours."""


def caller_of(ctx: sdk.Context) -> str | None:
    """Name the caller of a request; None for a stranger."""
    if ctx.request is None:
        return "local"  # over stdio: who started this process
    header = ctx.request.headers.get("authorization", "")
    return TOKENS.get(header.removeprefix("Bearer "))


@contextmanager
def instance(
    folder: Path, settings: sdk.Settings, fee: int = World.fee
) -> Generator[Server[Any]]:
    """Build an instance, whose files are in a folder that all instances share."""
    world = World(Records(folder / "records.sqlite"), fee)
    server = Server[Any](f"{TOOL}-server")
    with closing(sdk.SqliteStore(folder / "rounds.sqlite")) as rounds:
        add_tool(server, world, sdk.Calls(rounds, settings=settings))
        yield server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("port", type=int, nargs="?", default=8000)
    port = parser.parse_args().port
    sdk.log_to_standard_error()
    with (
        in_one_line(),
        instance(Path(), sdk.Settings.from_environment(caller_of)) as server,
    ):
        sdk.serve(server, port=port)
