"""The situations of a run's requests, and the faults that cannot happen to a call.

Knows faults, scenarios and histories; nothing of which runs are made.
"""

from __future__ import annotations

from mrtr_options.review.bench.faults import Fault, Faults, NoFault
from mrtr_options.review.bench.faults.before import CHANGE
from mrtr_options.review.bench.faults.kinds import Situation, rounds_of
from mrtr_options.review.bench.history import Effect, History, Sent
from mrtr_options.review.bench.redeploys import why_not
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import Change
from mrtr_options.review.bench.subjects import Subject

OWN_LEDGER = "this file writes to the ledger by itself; try it with check"
"""The reason why faults at the effects of a file are not tried in this process."""


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


def situations_of(subject: Subject, history: History) -> list[Situation]:
    """Return the situation of each attempt of the usual client in a run."""
    last = rounds_of(history.location)
    effects = _effects_by_sending(history)
    return [
        Situation(
            first=place == 0,
            can_go_elsewhere=history.scenario.setup.fleet == "sticky",
            answers=attempt.answers and attempt.round <= last,
            asks=attempt.round < last,
            effects=frozenset(effects.get(attempt.sending, ()) if history.can_strike else ()),
            has_next_version=not why_not(subject.option, [CHANGE]),
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
