"""The runs of the first table: one for each cell, on a server that was built.

A review keeps what is wrong; a cell also shows what went well, so its run is made on its own. Knows
the bench and the servers; nothing of any library.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.deployments import quiet_servers, scratch
from mrtr_options.review.bench.deployments.remote import Remote, eras_of
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import Effect, History, Received, Reply
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Caller, Scenario, calling
from mrtr_options.review.bench.setup import Setup
from mrtr_options.review.bench.steps import FIRST, MISSOURI, Send, WholeCall, accept
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger import MADE_TO_FAIL
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.tool.catalogue import Option
from mrtr_options.tool.weather import SqliteLedger
from scoreboard import ROOT
from scoreboard.servers.peers import Peer, Variant, running
from scoreboard.servers.play import told

FILE = ROOT / "docs" / "data" / "scoreboard-cells.json"
"""The run of each cell."""

IMPERIAL = accept({"units": "imperial"})
PLACE = Send("place", MISSOURI)

OLD = Setup(era="legacy")

LONGEST = 30
"""The number of lines of a history that are kept."""

WRITTEN = "'Illinois' written for 'Missouri'"
"""The changed state that is sent first, where the state can be read: another place is billed."""

FORGED = 6
"""The number of other changed states that are sent."""

FAILS = "fail@audit"
"""The fault in which the tool raises an exception."""

CELLS: dict[str, Scenario] = {
    "state-rewritten": Scenario(
        "state-rewritten",
        "The client changes what it can read of the state.",
        script=(
            FIRST,
            PLACE,
            Forge("units", IMPERIAL, only=WRITTEN),
            Forge("units", IMPERIAL, most=FORGED),
        ),
    ),
    "state-of-another-call": Scenario(
        "state-of-another-call",
        "The client answers with the state of its call about another place.",
        callers=(Caller("Springfield"), Caller("Portland")),
        script=(
            FIRST,
            PLACE,
            Send("first", call=2),
            Send("place", accept({"place": "Portland, Maine"}), call=2),
            Send("units", IMPERIAL, call=1, state_of=2),
        ),
    ),
    "last-round-again-here": calling(fleet="sticky").under(parse("lost3")),
    "last-round-again-there": calling(fleet="sticky").under(parse("misrouted3")),
    "two-instances": calling(fleet="free"),
    "old-client": Scenario(
        "old-client", "A client of 2025-11-25 calls.", OLD, script=(WholeCall(),)
    ),
    "exception-to-new-client": Scenario(
        "exception-to-new-client",
        "The tool raises an exception while a client of 2026-07-28 waits.",
        script=(
            Send("first", fault=FAILS),
            Send("place", MISSOURI, fault=FAILS),
            Send("units", IMPERIAL, fault=FAILS),
        ),
    ),
    "exception-to-old-client": Scenario(
        "exception-to-old-client",
        "The tool raises an exception while a client of 2025-11-25 waits.",
        OLD,
        script=(WholeCall(fault=FAILS),),
    ),
}
"""The scenario of each cell."""


class CellRun(BaseModel):
    """The run of a cell.

    Attributes:
        reaches: Whether a text of the tool's exception is in a response to the client.
        says: The text or the message of the last response.
        bills: The number of charges.
        history: The run, a line for each event.
    """

    reaches: bool = False
    says: str = ""
    bills: int = 0
    history: list[str]


class CellRuns(BaseModel):
    """The runs of a server with some settings.

    Attributes:
        version, date: The version of its library, and the day of the runs.
        digest: The digest of the sources that were run.
        cells: The run of each cell; without those that the server cannot be asked for.
    """

    version: str
    date: str
    digest: str
    cells: dict[str, CellRun] = {}


class AllRuns(BaseModel):
    """The runs of all servers, by server and settings."""

    servers: dict[str, dict[str, CellRuns]] = {}


def read(path: Path = FILE) -> AllRuns:
    """Return the kept runs."""
    return KeptFile(path, AllRuns).read(AllRuns())


def keep(name: str, found: dict[str, CellRuns], order: Sequence[str], path: Path = FILE) -> AllRuns:
    """Add the runs of one server to the file, and return all runs."""
    every = read(path).servers | {name: found}
    kept = AllRuns(servers={each: every[each] for each in order if each in every})
    KeptFile(path, AllRuns).write(kept)
    return kept


async def play(peer: Peer, variant: Variant) -> CellRuns:
    """Play every cell on a built server.

    Raises:
        Unavailable: An instance ends, or does not listen.
    """
    found = CellRuns(
        version=peer.version, date=datetime.now(UTC).date().isoformat(), digest=peer.digest
    )
    subject = Subject(Option("?", peer.name, peer.folder))
    with scratch() as folder, quiet_servers():
        file = folder / "effects.sqlite"
        ledger = SqliteLedger(file)
        async with running(peer, variant, file, 2, secrets.token_hex(32)) as urls:
            where = Remote(urls, ledger, eras=await eras_of(urls[0]))
            for name, scenario in CELLS.items():
                if where.cannot(scenario) is None:
                    found.cells[name] = taken(await run(subject, scenario, where))
    return found


def taken(history: History) -> CellRun:
    """Return what is kept of the run of a cell."""
    replies = [each.reply for each in history.events if isinstance(each, Received)]
    lines = told(history)
    more = len(lines) - LONGEST
    if more > 0:
        lines = [*lines[:LONGEST], f"   … and {more} more lines"]
    last = replies[-1] if replies else None
    return CellRun(
        reaches=any(map(names_the_exception, replies)),
        says="" if last is None else last.text or last.message or "",
        bills=bills_in(history),
        history=lines,
    )


def bills_in(history: History) -> int:
    """Return how often a run charged."""
    happened = (each for each in history.events if isinstance(each, Effect) and not each.absorbed)
    return len([each for each in happened if each.effect.kind == "bill"])


def names_the_exception(reply: Reply) -> bool:
    """Return whether a response has the text of the exception that the tool raised."""
    shown = (*reply.texts, reply.text or "", reply.message or "")
    return any(text in each for each in shown for text in MADE_TO_FAIL)
