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
from typing import Literal

from mcp.server import Server
from mcp_types import CallToolResult, ToolAnnotations
from mrtr_options import sdk
from mrtr_options.errors import in_one_line
from pydantic import BaseModel, Field

TOOL = "own_tool"


class Arguments(BaseModel):
    """What the tool is called with."""

    item: str = Field(min_length=1, max_length=50, description="What it is done to")
    reference: str = Field(
        min_length=1,
        max_length=50,
        description="What it is for, an invoice for example. A call with the"
        " same reference is the same call; take another one to have it done once more.",
    )


class Way(BaseModel):
    """The form of the first question."""

    way: Literal["standard", "express"]


class Consent(BaseModel):
    """The form of the second question."""

    go_ahead: Literal["yes", "no"]


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

    def do(self, caller: str, reference: str, what: str) -> None:
        """Do it, unless it is done."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "INSERT INTO records VALUES (?, ?, ?, strftime('%Y-%m-%d %H:%M:%SZ'))"
                " ON CONFLICT (caller, reference) DO NOTHING",
                (caller, reference, what),
            )

    def recorded(self, caller: str, reference: str) -> tuple[str, str]:
        """Return what is recorded, and since when."""
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute(
                "SELECT what, at FROM records WHERE caller = ? AND reference = ?",
                (caller, reference),
            ).fetchone()

    def all(self) -> list[tuple[str, str, str]]:
        """Return who has what recorded under which reference."""
        with closing(sqlite3.connect(self._path)) as db:
            return db.execute("SELECT caller, reference, what FROM records").fetchall()


@dataclass(frozen=True)
class World:
    """What the handler needs.

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


def may_i(what: str) -> sdk.Question[Consent]:
    """Make the second question, which names the answer to the first."""
    return sdk.Question("consent", f"{what}: go ahead?", Consent)


async def call_tool(ctx: sdk.ReplayContext[World], params: sdk.Params) -> sdk.Result:
    """Ask, then act. It runs from its first line in each round, with equal answers."""
    world, caller = ctx.lifespan_context, ctx.caller
    wanted = sdk.arguments_of(params, Arguments)
    if caller is None:
        return sdk.text("This tool needs to know who calls.", is_error=True)

    answer = await ctx.elicit(which_way(wanted.item))
    fee = world.fee if answer.way == "express" else 0
    what = f"{wanted.item}, {answer.way}, for {fee}"

    # An answer belongs to the question in its words: a new fee is asked for again.
    consent = await ctx.elicit(may_i(what))
    if consent.go_ahead == "no":
        raise sdk.Declined("consent")

    # `key` is the same on every attempt of this call: a service's idempotency key.
    await ctx.once("do", lambda key: world.records.do(caller, wanted.reference, what))
    return report(
        world.records.recorded(caller, wanted.reference), wanted.reference, what
    )


def report(recorded: tuple[str, str], reference: str, what: str) -> CallToolResult:
    """Say what is recorded, which an earlier call may have asked for in another way."""
    done, at = recorded
    if done != what:
        return sdk.text(
            f"Nothing was done. Since {at}, {reference} is recorded as: {done}.",
            is_error=True,
        )
    return sdk.text(f"Recorded under {reference} at {at}: {done}.")


# --- the server -----------------------------------------------------------------------

TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}
"""Who has which token. Ask whoever issues yours."""

REPEAT = "This call was made before, at {since}. Nothing was done now; its result was:"
"""What the model is told in front of the result of an earlier call."""


def caller_of(ctx: sdk.Context) -> str | None:
    """Name the caller of a request; None for a stranger."""
    header = "" if ctx.request is None else ctx.request.headers.get("authorization", "")
    return TOKENS.get(header.removeprefix("Bearer "))


@contextmanager
def instance(
    folder: Path, settings: sdk.Settings, fee: int = World.fee
) -> Generator[Server[World]]:
    """Build an instance, whose files are in a folder that all instances share."""
    world = World(Records(folder / "records.sqlite"), fee)
    with closing(sdk.SqliteStore(folder / "rounds.sqlite")) as rounds:
        guard = sdk.single_use(
            rounds,
            call="reference",
            repeat_note=REPEAT,
            attempts=2,  # a round whose process died runs again: the records absorb it
            round_seconds=10,  # what takes longer counts as dead
            wait_seconds=15,  # longer than that: who calls again waits for its end
        )
        tool = sdk.Tool(
            TOOL,
            "Does one thing, once for each reference.",
            Arguments,
            sdk.keyed_replay(call_tool),
            [guard],
            annotations=ToolAnnotations(idempotent_hint=True),
        )
        yield sdk.build_server(
            f"{TOOL}-server", tool, lifespan_context=world, settings=settings
        )


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
