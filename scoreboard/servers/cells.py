"""The runs of the first table: one for each cell, on a server that was built.

A review keeps what is wrong; a cell also shows what went well, so its run is made on its own. Knows
the bench and the servers; nothing of any library.
"""

from __future__ import annotations

from mrtr_options.review.bench.attacks.forgeries import Forge
from mrtr_options.review.bench.deployments import quiet_servers
from mrtr_options.review.bench.deployments.remote import Remote, eras_of
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import History, Received, Reply
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Caller, Scenario, Setup, calling
from mrtr_options.review.bench.steps import FIRST, MISSOURI, Send, WholeCall, accept
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world.ledger import MADE_TO_FAIL
from mrtr_options.review.judge.facts import HistoryReading
from mrtr_options.tool.catalogue import Option
from mrtr_options.tool.weather import SqliteLedger
from scoreboard import today
from scoreboard.servers.peers import Peer, Variant, running
from scoreboard.servers.play import CellRun, told

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
    "last-round-again-there": calling(fleet="sticky").under(parse("missent3")),
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


async def play(peer: Peer, variant: Variant) -> dict[str, CellRun]:
    """Play every cell that a built server can be asked for.

    Raises:
        Unavailable: An instance ends, or does not listen.
    """
    found: dict[str, CellRun] = {}
    subject = Subject(Option("?", peer.name, peer.folder))
    with quiet_servers():
        async with running(peer, variant) as there:
            first = there.urls[0]
            where = Remote(there.urls, SqliteLedger(there.ledger), eras=await eras_of(first))
            for name, scenario in CELLS.items():
                if where.cannot(scenario) is None:
                    found[name] = taken(await run(subject, scenario, where))
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
        date=today(),
        reaches=any(map(names_the_exception, replies)),
        says="" if last is None else last.text or last.message or "",
        bills=HistoryReading(history).effects("bill").total(),
        history=lines,
    )


def names_the_exception(reply: Reply) -> bool:
    """Return whether a response has the text of the exception that the tool raised."""
    shown = (*reply.texts, reply.text or "", reply.message or "")
    return any(text in each for each in shown for text in MADE_TO_FAIL)
