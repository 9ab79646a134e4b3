"""Every combination of faults up to a bound, on one call of the default client.

Sets of faults are tried breadth first. A set grows only by faults at its last request or later
ones, since a fault changes nothing of what came before it. So each set is tried once, and each of
its faults is known to be possible.

Knows faults, scenarios and histories; nothing of what is wrong with a history.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

from mrtr_options.review.bench.driver import rounds_of
from mrtr_options.review.bench.faults import (
    CHANGE,
    EXPLORED,
    NAMED,
    PHASES,
    At,
    Fault,
    Faults,
    Kind,
    NoFault,
)
from mrtr_options.review.bench.history import Effect, History, Sent
from mrtr_options.review.bench.redeploys import covers, why_not
from mrtr_options.review.bench.scenario import Scenario, Setup
from mrtr_options.review.bench.subjects import Subject

OWN_LEDGER = "this file writes to the ledger by itself; try it with check"
"""Why nothing goes wrong at the effects of a file, in this process."""

Play = Callable[[Scenario], Awaitable[History]]
"""Makes a run."""


def in_words(faults: Faults, location: str = "Springfield") -> str:
    """Some faults in the words of a table's cell: "result lost, state expired"; without one, what
    they show is there in every call. The last response to a location is the result.
    """
    nth = {1: "1st", 2: "2nd", 3: "3rd"}

    def said(fault: Fault) -> str:
        number = nth.get(fault.round, f"{fault.round}th")
        response = "result" if fault.round == rounds_of(location) else f"{number} response"
        return fault.kind.words.format(nth=number, response=response)

    return ", ".join(map(said, faults)) or "every call"


def refuse_impossible(subject: Subject, scenario: Scenario, faults: Faults) -> None:
    """Refuse faults that cannot happen to a subject in a scenario.

    Raises:
        NoFault: One of them cannot.
    """
    names = {fault.name for fault in faults}
    two = sorted(fault.name for fault in faults if fault.kind.needs_two)
    if two and scenario.setup.fleet != "sticky":
        raise NoFault(
            f"{two[0]} needs two instances and rounds that go to the one that asked: --fleet sticky"
        )
    if "redeploy" in names and not covers(subject.option, CHANGE):
        raise NoFault(f"{why_not(subject.option, [CHANGE])}; or leave redeploy out")
    only = sorted(fault.name for fault in faults if fault.kind.modern)
    if only and scenario.setup.era == "legacy":
        raise NoFault(f"a legacy call is one request, so {only[0]} cannot happen; use --era modern")
    last = 1 if scenario.setup.era == "legacy" else rounds_of(scenario.location)
    for fault in faults:
        if fault.round > last + ("redeploy" in names):  # a later version asks one more question
            rounds = "1 round" if last == 1 else f"{last} rounds"
            raise NoFault(
                f"{fault} cannot happen: this call has {rounds}; the second attempt of the last one is"
                f" {fault.name}{last}.2"
            )


def _can(name: str) -> None:
    """Say of every kind of fault that a deployment can make it happen."""


def not_tried(
    subject: Subject,
    scenario: Scenario,
    *,
    strikes: bool = True,
    kinds: Collection[str] = tuple(EXPLORED),
    cannot: Callable[[str], str | None] = _can,
) -> dict[str, str]:
    """Return the kinds of faults that this call can meet and that are not tried, each with why.

    An anomaly that no run shows is "not seen" only where this is empty.

    Args:
        subject: What is called.
        scenario: Where and by which client.
        strikes: Whether something can go wrong at the effects.
        kinds: What an exploration tries.
        cannot: Says why the deployment cannot make a kind of fault happen; None if it can.
    """
    found: dict[str, str] = {}
    for kind in (NAMED[name] for name in kinds):
        if not _can_meet(scenario.setup, kind):
            continue
        why = cannot(kind.name)
        if why is None and kind.name == "redeploy":
            why = why_not(subject.option, [CHANGE])
        if why is None and kind.at is not None and not strikes:
            why = OWN_LEDGER
        if why:
            found[kind.name] = why
    return found


def _can_meet(setup: Setup, kind: Kind) -> bool:
    """Whether a call by this client and to these instances can meet a kind of fault."""
    if kind.needs_two and setup.fleet != "sticky":
        return False
    return setup.era == "modern" or not kind.modern


def possible(
    subject: Subject, history: History, kinds: Collection[str] = tuple(EXPLORED)
) -> list[Fault]:
    """The faults that can be added to those of a run: at its last fault's request, or later.

    A kind that cannot show there is left out: no effect to fail at, no state that could be too old,
    one instance only. At one request there is at most one fault of each phase. Nothing is added to
    a fault that is tried alone.
    """
    setup, faults = history.scenario.setup, history.scenario.faults
    if any(fault.kind.tried == "alone" for fault in faults):
        return []
    first, past = 0, -1
    if faults:
        requests = [(sent.round, sent.attempt) for sent in history.attempts]
        first = requests.index((faults[-1].round, faults[-1].attempt))
        past = PHASES.index(faults[-1].kind.phase)
    has_next = covers(subject.option, CHANGE)
    effects = _effects_by_round(history)
    found: list[Fault] = []
    for number, sent in list(enumerate(history.attempts))[first:]:
        answers = sent.answers and sent.round <= rounds_of(history.location)
        asks = sent.round < rounds_of(history.location)
        done = frozenset(effects.get(sent.played, ()) if history.strikes else ())
        at = At(number == 0, setup.era, setup.fleet, answers, asks, done, has_next)
        found += [
            Fault(sent.round, sent.attempt, kind.name)
            for kind in NAMED.values()
            if kind.name in kinds and not (faults and kind.tried == "alone")
            if (setup.era == "modern" or not kind.modern) and kind.can(at)
            if number > first or PHASES.index(kind.phase) > past
        ]
    return found


def _effects_by_round(history: History) -> dict[int, set[str]]:
    """The kinds of effects of each round; where it cannot be seen, the round is the one sent
    last.
    """
    found: dict[int, set[str]] = {}
    last = 0
    for event in history.events:
        if isinstance(event, Sent):
            last = event.round
        elif isinstance(event, Effect):
            found.setdefault(event.round or last, set()).add(event.effect.kind)
    return found


async def explore(
    subject: Subject,
    scenario: Scenario,
    bound: int,
    play: Play,
    kinds: Collection[str] = tuple(EXPLORED),
    first: Collection[Fault] | None = None,
) -> AsyncGenerator[History]:
    """Make every run with up to so many faults, fewest first.

    Args:
        subject, scenario: What is called, where and by which client.
        bound: How many faults at most.
        play: Makes a run.
        kinds: What can go wrong there.
        first: With what the sets of faults begin; with anything if it is left out.
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
