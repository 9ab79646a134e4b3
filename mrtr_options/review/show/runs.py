"""The output of `play`: subjects under chosen faults, or under a schedule, round by round.

Knows subjects only through the bench.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.faults import Fault
from mrtr_options.review.bench.faults.words import describe_faults
from mrtr_options.review.bench.history import Crashed, Effect, Event, Failed, History
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.combinations import OWN_LEDGER, situations_of
from mrtr_options.review.judge.facts import anomalies_in, observe
from mrtr_options.review.show.transcript import Transcript, end_of, note_on_keys
from mrtr_options.terminal import console


def print_runs(
    scenario: Scenario,
    subjects: Sequence[Subject],
    histories: Sequence[History],
    *,
    as_json: bool,
) -> None:
    """Print the run of a scenario on each subject: its rounds and its anomalies."""
    if as_json:
        print(
            json.dumps([_as_json(history) for history in histories], ensure_ascii=False, indent=1)
        )
        return
    out = console()
    if scenario.name in SCHEDULES:
        out.print(f"{scenario.name}: {scenario.why}")
    elif scenario.faults:
        out.print(describe_faults(scenario.faults))
    for subject, history in zip(subjects, histories, strict=True):
        client = f"{history.era} client that {scenario.setup.client}"
        out.print(Text(f"\n{subject.title}, {client}, {history.location!r}", "bold cyan"))
        _print_run(subject, history, out)


def _print_run(subject: Subject, history: History, out: Console) -> None:
    transcript = Transcript(out)
    for event in history.events:
        transcript(event)
    for fault in history.scenario.faults:
        note = _note_on(fault, subject, history)
        if note:
            out.print(f"  {fault} {note}")
    if not history.can_strike:
        for kind in history.scenario.at_effects:
            out.print(f"  {kind.name} did not happen: {OWN_LEDGER}")
    note = note_on_keys(history)
    if note:
        out.print(note)
    out.print(end_of(history))


def _note_on(fault: Fault, subject: Subject, history: History) -> str:
    """Return a note on a fault that did not happen, or whose request is of no use; else ""."""
    at = [(each.round, each.number) for each in history.attempts]
    if (fault.round, fault.attempt) not in at:
        return "did not happen: there was no such request"
    place = at.index((fault.round, fault.attempt))
    effect = fault.kind.at
    if effect is None:
        condition = fault.kind.can
        is_met = condition.holds(situations_of(subject, history)[place])
        return "" if is_met else f"may show nothing: it takes {condition.says}"
    if not history.can_strike:
        return ""
    sending = history.attempts[place].sending
    struck = any(_is_struck(event, sending, effect) for event in history.events)
    return "" if struck else f"did not happen: there was no {effect} in it"


def _is_struck(event: Event, sending: int, effect: str) -> bool:
    """Return whether an event shows that a sending reached an effect, or died before it."""
    match event:
        case Effect():
            return event.effect.kind == effect and event.sending in (sending, None)
        case Failed():
            return event.kind == effect and event.sending in (sending, None)
        case Crashed():
            return event.sending in (sending, None)
        case _:
            return False


def _as_json(history: History) -> dict[str, Any]:
    return {
        **observe(history).as_json(),
        "anomalies": sorted(anomalies_in(history)),
        "events": history.as_json(),
    }
