"""Every combination of faults up to a bound, on one call of the usual client.

Sets of faults are tried breadth first. A set grows only by faults at its last request or later
ones, since a fault changes nothing of what came before it. So each set is tried once, and each of
its faults is known to be possible.

Knows faults, scenarios and histories; nothing of how a history is judged.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping

from mrtr_options.review.bench.faults import EXPLORED, PLAYABLE, Fault, Faults
from mrtr_options.review.bench.faults.kinds import PHASES, Kind
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.redeploys import why_not
from mrtr_options.review.bench.scenario import Scenario, Setup
from mrtr_options.review.bench.situations import OWN_LEDGER, situations_of
from mrtr_options.review.bench.subjects import Subject

Play = Callable[[Scenario], Awaitable[History]]
"""A function that makes a run."""

NOT_TRIED = "not tried"
"""The text for an anomaly that nothing shows, if a kind of fault was left out."""

FEW = 3
"""The most kinds of faults that a cell names."""


def _can(name: str) -> None:
    """Accept every kind of fault: the deployment can make it happen."""


def not_tried(
    subject: Subject,
    scenario: Scenario,
    *,
    can_strike: bool = True,
    kinds: Collection[str] = tuple(EXPLORED),
    cannot: Callable[[str], str | None] = _can,
) -> dict[str, str]:
    """Return the kinds of faults that this call can meet and that are not tried, with the reasons.

    An anomaly that no run shows is "not seen" only if this is empty.

    Args:
        subject: The subject that is called.
        scenario: The call without faults.
        can_strike: Whether faults at effects can be injected.
        kinds: The kinds of faults that an exploration tries.
        cannot: Says why the deployment cannot make a kind of fault happen; None if it can.
    """
    found: dict[str, str] = {}
    for kind in (PLAYABLE[name] for name in (*kinds, *scenario.also)):
        if not _can_meet(scenario.setup, kind):
            continue
        why = cannot(kind.name)
        if why is None and kind.deploys is not None:
            why = why_not(subject.option, [kind.deploys])
        if why is None and kind.at is not None and not can_strike:
            why = OWN_LEDGER
        if why:
            found[kind.name] = why
    return found


def _can_meet(setup: Setup, kind: Kind) -> bool:
    """Return whether a call by this client and to these instances can meet a kind of fault."""
    if kind.needs_two and setup.fleet != "sticky":
        return False
    return setup.era == "modern" or not kind.modern


def kinds_in_short(kinds: Iterable[str]) -> str:
    """Name some kinds of faults: "redeploy, crash@"; those at several effects as one."""
    return ", ".join(dict.fromkeys(re.sub("@.*", "@", name) for name in kinds))


def not_tried_cell(kinds: Collection[str]) -> str:
    """Write the cell of an anomaly that nothing shows where some kinds of faults were left out."""
    said = kinds_in_short(kinds)
    count = said.count(",") + 1
    return f"{NOT_TRIED}: {said if count <= FEW else f'{count} kinds of fault'}"


def not_tried_lines(kinds: Mapping[str, str], on: str = "") -> list[str]:
    """Write a line for each reason why kinds of faults were left out: "not tried: redeploy (...)".

    Args:
        kinds: The kinds, with the reasons.
        on: The subject, if a table has several.
    """
    by_reason: dict[str, list[str]] = {}
    for name, why in kinds.items():
        by_reason.setdefault(why, []).append(name)
    where = f" on {on}" if on else ""
    return [
        f"{NOT_TRIED}{where}: {kinds_in_short(names)} ({why})" for why, names in by_reason.items()
    ]


def possible(
    subject: Subject, history: History, kinds: Collection[str] = tuple(EXPLORED)
) -> list[Fault]:
    """Return the faults that can be added to those of a run: at its last fault's request, or later.

    A kind that cannot show there is left out: no effect to fail at, no state that could be too old,
    one instance only. At one request there is at most one fault of each phase. Nothing is added to
    a fault that is tried alone.
    """
    setup = history.scenario.setup
    faults = history.scenario.faults
    tried = {*kinds, *history.scenario.also}
    if any(fault.kind.tried == "alone" for fault in faults):
        return []
    first = 0
    past = -1
    if faults:
        at = [(attempt.round, attempt.number) for attempt in history.attempts]
        last = (faults[-1].round, faults[-1].attempt)
        if last not in at:  # a server that answers by chance has not come so far this time
            return []
        first = at.index(last)
        past = PHASES.index(faults[-1].kind.phase)
    situations = situations_of(subject, history)
    found: list[Fault] = []
    for place, attempt in list(enumerate(history.attempts))[first:]:
        for kind in PLAYABLE.values():
            is_tried = kind.name in tried and not (faults and kind.tried == "alone")
            is_of_era = setup.era == "modern" or not kind.modern
            is_later = place > first or PHASES.index(kind.phase) > past
            if is_tried and is_of_era and is_later and kind.can.holds(situations[place]):
                found.append(Fault(attempt.round, attempt.number, kind.name))
    return found


async def explore(
    subject: Subject,
    scenario: Scenario,
    bound: int,
    play: Play,
    kinds: Collection[str] = tuple(EXPLORED),
    first: Collection[Fault] | None = None,
) -> AsyncGenerator[History]:
    """Make every run with at most `bound` faults, fewest first.

    Args:
        subject: The subject that is called.
        scenario: The call without faults.
        bound: The most faults at a time.
        play: Makes a run.
        kinds: The kinds of faults that can happen there.
        first: The faults with which the sets begin; None for any.
    """
    level: list[Faults] = [()]
    for size in range(bound + 1):
        following: list[Faults] = []
        for faults in level:
            history = await play(scenario.under(faults))
            yield history
            if size < bound:
                more = possible(subject, history, kinds) if faults or first is None else first
                following += [(*faults, fault) for fault in more]
        level = following
