"""The output of `play`: subjects under chosen faults, or under a schedule, round by round.

Knows subjects only through the bench.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.faults import Fault, describe_faults
from mrtr_options.review.bench.history import Crashed, Effect, Event, Failed, History
from mrtr_options.review.bench.history.narrate import Narrator, Row
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.situations import OWN_LEDGER, situations_of
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.anomalies import in_order, listed
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.judge.observation import observe
from mrtr_options.terminal import console, counts, print_json, print_step


class Transcript:
    """A printer of a run's events as they happen.

    A look at a task is printed if something has changed.
    """

    def __init__(self, out: Console) -> None:
        self._out = out
        self._narrator = Narrator()

    def __call__(self, event: Event) -> None:
        for row in self._narrator.rows(event):
            if not row.quiet:
                self._print(row)

    def _print(self, row: Row) -> None:
        mark = "again" if row.again else ""
        if row.lost and row.end is not None:
            mark = "does not arrive"
        print_step(self._out, row.kind, row.wire or (row.text,), row.round, mark)


def end_of(history: History) -> Text:
    """Return the end of a call in a line: its outcome, its counts, and its anomalies."""
    seen = observe(history)
    found = listed(in_order(anomalies_in(history)))
    return Text.assemble(
        f"  the call ended as {seen.outcome.replace('_', ' ')}, audit/bill ",
        counts(seen.most("audit"), seen.most("bill")),
        ": ",
        (found or "no anomaly", "bold red" if found else "green"),
    )


def note_on_keys(history: History) -> str:
    """Return a note if the destination ignored the key of two bills; else ""."""
    effects = [event.effect for event in history.events if isinstance(event, Effect)]
    bills = Counter(effect.key for effect in effects if effect.kind == "bill" and effect.key)
    ignored = history.scenario.setup.destination == "ignores keys"
    if not ignored or max(bills.values(), default=0) < 2:
        return ""
    return "  the destination ignored the key of a bill; --destination honours-keys does not"


def print_runs(
    scenario: Scenario,
    subjects: Sequence[Subject],
    histories: Sequence[History],
    *,
    as_json: bool,
) -> None:
    """Print the run of a scenario on each subject: its rounds and its anomalies."""
    if as_json:
        print_json([_as_json(history) for history in histories])
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
            kind: str = event.effect.kind
        case Failed():
            kind = event.kind
        case Crashed():
            kind = effect
        case _:
            return False
    return kind == effect and event.sending in (sending, None)


def _as_json(history: History) -> JsonObject:
    return {
        **observe(history).as_json(),
        "anomalies": sorted(anomalies_in(history)),
        "events": history.as_json(),
    }
