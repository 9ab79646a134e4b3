"""Every combination of faults up to a bound, on one call of the default client.

Sets of faults are tried breadth first. A set grows only by faults at its last request or later
ones, since a fault changes nothing of what came before it. So each set is tried once, and each of
its faults is known to be possible.

Knows faults, scenarios and histories; nothing of how a history is judged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

from mrtr_options.review.bench.faults import EXPLORED, PLAYABLE, Fault, Faults, NoFault
from mrtr_options.review.bench.faults.before import CHANGE
from mrtr_options.review.bench.faults.kinds import PHASES, Kind, Situation
from mrtr_options.review.bench.history import Effect, History, Sent
from mrtr_options.review.bench.redeploys import covers, why_not
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.setup import Setup, rounds_of
from mrtr_options.review.bench.steps import Change
from mrtr_options.review.bench.subjects import Subject

OWN_LEDGER = "this file writes to the ledger by itself; try it with check"
"""The reason why faults at the effects of a file are not tried in this process."""

Play = Callable[[Scenario], Awaitable[History]]
"""A function that makes a run."""


def refuse_impossible(subject: Subject, scenario: Scenario, faults: Faults) -> None:
    """Raise for faults that cannot happen to a subject in a scenario, or not together.

    Raises:
        NoFault: One of them cannot.
    """
    _refuse_two_of_one_phase(faults)
    deployed: list[Change] = [each.kind.deploys for each in faults if each.kind.deploys is not None]
    two = sorted(fault.name for fault in faults if fault.kind.needs_two)
    if two and scenario.setup.fleet != "sticky":
        raise NoFault(
            f"{two[0]} needs two instances and rounds that go to the one that asked: --fleet sticky"
        )
    reason = why_not(subject.option, deployed)
    if reason:
        raise NoFault(f"{reason}; or leave redeploy out")
    only = sorted(fault.name for fault in faults if fault.kind.modern)
    if only and scenario.setup.era == "legacy":
        raise NoFault(f"a legacy call is one request, so {only[0]} cannot happen; use --era modern")
    last = 1 if scenario.setup.era == "legacy" else rounds_of(scenario.location)
    for fault in faults:
        # A later version asks one more question.
        most = last + 1 if deployed else last
        if fault.round > most:
            rounds = "1 round" if last == 1 else f"{last} rounds"
            raise NoFault(
                f"{fault} cannot happen: this call has {rounds}; the second attempt of the last one"
                f" is {fault.name}{last}.2"
            )


def _refuse_two_of_one_phase(faults: Faults) -> None:
    """Raise for two faults that would take each other's place: at one request, in one phase."""
    at: dict[tuple[int, int, str], Fault] = {}
    for fault in faults:
        other = at.setdefault((fault.round, fault.attempt, fault.kind.phase), fault)
        if other is not fault:
            raise NoFault(
                f"{other} and {fault} cannot both happen to one request; leave one of them out, or"
                " let it happen to another round"
            )


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
        first = at.index((faults[-1].round, faults[-1].attempt))
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


def situations_of(subject: Subject, history: History) -> list[Situation]:
    """Return the situation of each attempt of the default client in a run."""
    setup = history.scenario.setup
    last = rounds_of(history.location)
    effects = _effects_by_sending(history)
    return [
        Situation(
            first=place == 0,
            era=setup.era,
            fleet=setup.fleet,
            answers=attempt.answers and attempt.round <= last,
            asks=attempt.round < last,
            effects=frozenset(effects.get(attempt.sending, ()) if history.can_strike else ()),
            has_next_version=covers(subject.option, CHANGE),
        )
        for place, attempt in enumerate(history.attempts)
    ]


def _effects_by_sending(history: History) -> dict[int, set[str]]:
    """Return the kinds of effects of each sending. An unknown sending counts as the latest one."""
    found: dict[int, set[str]] = {}
    last = 0
    for event in history.events:
        if isinstance(event, Sent):
            last = event.sending
        elif isinstance(event, Effect):
            found.setdefault(event.sending or last, set()).add(event.effect.kind)
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
