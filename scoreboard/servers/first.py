"""The first table of the scoreboard: a row for each server, and the run behind each cell.

A row is the library as its guide writes the tool; a cell adds what its own options change. Knows
the kept results and runs; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scoreboard.board import Scoreboard
from scoreboard.rows import Cell, Row, Runs, upstream_of
from scoreboard.servers.page import Result, musts, old_client, played
from scoreboard.servers.peers import Peer
from scoreboard.servers.play import CellRun, ServerReview, Tried

HEADS = {
    "state-rewritten": "client rewrites the state",
    "state-of-another-call": "state of another call",
    "last-round-again-here": "last round resent, same instance",
    "last-round-again-there": "last round resent, other instance",
    "two-instances": "two instances, default key",
    "old-client": "old client, two questions",
    "exception-to-new-client": "exception's text, new client",
    "exception-to-old-client": "exception's text, old client",
    "must": "MUST broken",
}
"""The columns. Their names are a part of each cell's address."""

BY_HAND = "this state names no place"
"""The refusal of a program that compares the place in a state with the places of the call."""

RESENT_HERE = ("lost3", "twice3")
"""The faults that send the last round again, to the same instance, after the first was answered."""

RESENT_THERE = "missent3"
"""The fault that sends the last round to another instance first."""

OF_OLD_CLIENTS = ("old-client", "exception-to-old-client", "must")
"""The columns to which settings for old clients alone add something."""

OF_TWO_INSTANCES = ("two-instances", "last-round-again-there")
"""The columns that begin with a key for each process, if a library makes one up."""

OWN_KEYS = "one for each process"
"""The keys of a variant whose library makes up a key in each process."""

NOT_RUN = "not run"


def _tried_with(found: ServerReview, fleet: str) -> Tried | None:
    for tried in found.tried:
        if (tried.policy, tried.fleet) == ("resends", fleet):
            return tried
    return None


def _state(run: CellRun | None) -> str:
    """Return whether somebody is charged for a state, or who refuses it."""
    if run is None:
        return NOT_RUN
    if run.bills:
        return "taken"
    return "refused by the handler" if BY_HAND in run.says else "refused"


def _resent(found: ServerReview, *faults: str) -> str:
    """Return whether a repeated last round charges again, and for which of these faults."""
    tried = _tried_with(found, "sticky")
    shown = [] if tried is None else tried.shown.get("charged twice", [])
    again = [fault for fault in faults if fault in shown]
    if not again:
        return "once"
    return "twice" if len(again) == len(faults) else f"twice by {', '.join(again)}"


def _two_instances(found: ServerReview) -> str:
    tried = _tried_with(found, "free")
    lost = tried is not None and "" in tried.shown.get("call lost", [])
    return "every call lost" if lost else "works"


def _there(found: ServerReview) -> str:
    return "refused" if _two_instances(found) != "works" else _resent(found, RESENT_THERE)


def _exception_to_old(found: ServerReview, run: CellRun | None) -> str:
    return _exception(run) if "clean-springfield" in found.old else "not spoken"


def _exception(run: CellRun | None) -> str:
    if run is None:
        return NOT_RUN
    return "reaches the client" if run.reaches else "stays inside"


OUTCOMES: dict[str, Callable[[ServerReview, CellRun | None], str]] = {
    "state-rewritten": lambda found, run: _state(run),
    "state-of-another-call": lambda found, run: _state(run),
    "last-round-again-here": lambda found, run: _resent(found, *RESENT_HERE),
    "last-round-again-there": lambda found, run: _there(found),
    "two-instances": lambda found, run: _two_instances(found),
    "old-client": lambda found, run: old_client(found.old.get("clean-springfield")),
    "exception-to-new-client": lambda found, run: _exception(run),
    "exception-to-old-client": _exception_to_old,
    "must": lambda found, run: musts(found),
}
"""The outcome of each column, from the review and the column's own run."""


def _forms(board: Scoreboard) -> Iterator[list[Result]]:
    """Yield the settings of each server that its guide writes; first those of the guide."""
    results = played(board)
    for peer in dict.fromkeys(peer.name for peer, *_ in results):
        own = [each for each in results if each[0].name == peer]
        guide = next((each for each in own if "guide" in each[1].means), None)
        if guide is not None:
            yield [guide, *(each for each in own if each is not guide)]


def _shown(column: str, form: list[Result]) -> list[Result]:
    """Return the settings that a cell shows: its first outcome, and then those that may add to it.

    A column of two instances begins with a key for each process. The others begin with the guide,
    and do not show what is less than it.
    """
    guide, *others = form
    adding = [each for each in others if "nothing" not in each[1].means]
    unshared = [each for each in form if each[1].keys == OWN_KEYS]
    if column in OF_TWO_INSTANCES and unshared:
        return [unshared[0], *(each for each in (guide, *adding) if each is not unshared[0])]
    return [guide, *adding]


def _cell(column: str, form: list[Result]) -> Cell:
    """Return a cell; settings for old clients alone are named, and add to their columns only."""
    outcome = OUTCOMES[column]
    first, *adding = _shown(column, form)
    says = outcome(first[2], first[2].cells.get(column))
    says = first[0].old_clients if says == "not spoken" else says
    adds: list[str] = []
    for each in adding:
        _, variant, found = each
        is_for_old_clients = not variant.means
        if is_for_old_clients and column not in OF_OLD_CLIENTS:
            continue
        more = outcome(found, found.cells.get(column))
        if more not in (says, NOT_RUN, "not spoken", *adds):
            adds.append(f"{variant.name}: {more}" if is_for_old_clients else more)
    return Cell(says=says, adds=" → ".join(adds))


def address(peer: Peer) -> str:
    """Return the address of a server's row."""
    return f"servers/{peer.name}"


def rows(board: Scoreboard) -> list[Row]:
    """Return a row for each server as its guide writes it."""
    return [
        Row(
            id=address(peer),
            title=peer.title,
            form="departs from its guide" if peer.departs else "",
            version=found.version,
            date=found.date,
            cells={column: _cell(column, form) for column in HEADS},
            upstream=upstream_of(peer.upstream),
        )
        for form in _forms(board)
        for peer, _, found in form[:1]
    ]


def runs_of(board: Scoreboard) -> Runs:
    """Return the run behind each cell."""
    found: Runs = {}
    for form in _forms(board):
        for column in HEADS:
            first, *adding = _shown(column, form)
            cell = f"{address(first[0])}/{column}"
            shown = {cell: first} | {f"{cell}/{each[1].name}": each for each in adding}
            for name, result in shown.items():
                lines = _history(result[2], column)
                if lines:
                    found[name] = lines
    return found


def _history(found: ServerReview, column: str) -> list[str]:
    """Return the history of a cell; of the last column, those of all rules that are broken."""
    if column == "must":
        return [line for broken in found.breaks for line in broken.story]
    run = found.cells.get(column)
    return [] if run is None else run.history
