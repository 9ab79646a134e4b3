"""The first table of the scoreboard: a row for each server, and the run behind each cell.

A row is the library as its guide writes the tool; a cell adds what its own options change. Knows
the kept results and runs; nothing of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scoreboard.board import Scoreboard
from scoreboard.rows import Cell, Row, Runs, upstream_of
from scoreboard.servers.cells import AllRuns, CellRun
from scoreboard.servers.page import Result, musts, old_client, played
from scoreboard.servers.peers import Peer
from scoreboard.servers.play import Broken, ServerReview, Tried

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

RULES = {
    "state-rewritten": "state-is-genuine",
    "state-of-another-call": "state-is-bound-to-its-call",
}
"""The rule of the contract that a column about the state shows."""

RESENT_HERE = ("lost3", "twice3")
"""The faults that send the last round again, to the same instance, after the first was answered."""

RESENT_THERE = "misrouted3"
"""The fault that sends the last round again, to another instance."""

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


def _state(found: ServerReview, rule: str) -> str:
    if not found.longest_state:
        return "no state"
    broken = {each.rule for each in (*found.breaks, *found.departs)}
    return "taken" if rule in broken else "refused"


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
    "state-rewritten": lambda found, run: _state(found, RULES["state-rewritten"]),
    "state-of-another-call": lambda found, run: _state(found, RULES["state-of-another-call"]),
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


def _cell(column: str, form: list[Result], runs: AllRuns) -> Cell:
    """Return a cell; settings for old clients alone are named, and add to their columns only."""
    outcome = OUTCOMES[column]
    first, *adding = _shown(column, form)
    says = outcome(first[2], _run_of(runs, first, column))
    says = first[0].old_clients if says == "not spoken" else says
    adds: list[str] = []
    for each in adding:
        _, variant, found = each
        is_for_old_clients = not variant.means
        if is_for_old_clients and column not in OF_OLD_CLIENTS:
            continue
        more = outcome(found, _run_of(runs, each, column))
        if more not in (says, NOT_RUN, "not spoken", *adds):
            adds.append(f"{variant.name}: {more}" if is_for_old_clients else more)
    return Cell(says=says, adds=" → ".join(adds))


def _run_of(runs: AllRuns, result: Result, column: str) -> CellRun | None:
    peer, variant, _ = result
    kept = runs.servers.get(peer.name, {}).get(variant.name)
    return None if kept is None else kept.cells.get(column)


def address(peer: Peer) -> str:
    """Return the address of a server's row."""
    return f"servers/{peer.name}"


def rows(board: Scoreboard, runs: AllRuns) -> list[Row]:
    """Return a row for each server as its guide writes it."""
    return [
        Row(
            id=address(peer),
            title=peer.title,
            form="departs from its guide" if peer.departs else "",
            version=found.version,
            date=found.date,
            cells={column: _cell(column, form, runs) for column in HEADS},
            upstream=upstream_of(peer.upstream),
        )
        for form in _forms(board)
        for peer, _, found in form[:1]
    ]


def runs_of(board: Scoreboard, runs: AllRuns) -> Runs:
    """Return the run behind each cell."""
    found: Runs = {}
    for form in _forms(board):
        for column in HEADS:
            first, *adding = _shown(column, form)
            cell = f"{address(first[0])}/{column}"
            shown = {cell: first} | {f"{cell}/{each[1].name}": each for each in adding}
            for name, result in shown.items():
                lines = _history(result, column, runs)
                if lines:
                    found[name] = lines
    return found


def _history(result: Result, column: str, runs: AllRuns) -> list[str]:
    """Return the history of a cell; of the last column, those of all rules that are broken."""
    found = result[2]
    if column == "must":
        return [line for each in found.breaks for line in _story(result, each, runs)]
    broken = {each.rule: each for each in (*found.breaks, *found.departs)}
    if RULES.get(column) in broken:
        return _story(result, broken[RULES[column]], runs)
    run = _run_of(runs, result, column)
    return [] if run is None else run.history


def _story(result: Result, broken: Broken, runs: AllRuns) -> list[str]:
    """Return a run that breaks a rule.

    For a rule about the state it is the cell's own run if somebody is charged in it, and otherwise
    the smallest run that breaks the rule.
    """
    column = next((column for column, rule in RULES.items() if rule == broken.rule), "")
    run = _run_of(runs, result, column)
    return run.history if run is not None and run.bills else broken.story
