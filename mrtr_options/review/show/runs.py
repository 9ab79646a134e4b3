"""The output of `play`: subjects under chosen faults, or under a schedule, round by round.

Knows subjects only through the bench.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
from rich.console import Console
from rich.text import Text

from mrtr_options.review.bench.faults import Faults
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore.combinations import OWN_LEDGER
from mrtr_options.review.explore.summary import sentence, short
from mrtr_options.review.judge.anomalies import anomalies_in
from mrtr_options.review.judge.facts import observe
from mrtr_options.review.show.transcript import Transcript, end_of, note_on_keys
from mrtr_options.terminal import console


def play(subjects: Sequence[Subject], scenario: Scenario, faults: Faults, *, as_json: bool) -> int:
    """Play a scenario on each subject, and print its rounds and its anomalies.

    `faults` are the scenario's, if it is no schedule.
    """
    histories = anyio.run(_play_all, subjects, scenario)
    if as_json:
        print(
            json.dumps([_as_json(history) for history in histories], ensure_ascii=False, indent=1)
        )
        return 0
    out = console()
    if faults:
        out.print(sentence(faults))
    if scenario.name in SCHEDULES:
        out.print(f"{scenario.name}: {scenario.why}")
    for subject, history in zip(subjects, histories, strict=True):
        policy = scenario.setup.policy
        client = f"{history.era} client that {policy}"
        name = subject.title
        if subject.wrappers:
            name = f"{short(subject.title)} ({subject.title})"
        out.print(Text(f"\n{name}, {client}, {history.location!r}", "bold cyan"))
        _print_run(history, faults, out)
    return 0


def _print_run(history: History, faults: Faults, out: Console) -> None:
    transcript = Transcript(out)
    for event in history.events:
        transcript(event)
    sent = {(each.round, each.attempt) for each in history.attempts}
    for fault in faults:
        if (fault.round, fault.attempt) not in sent:
            out.print(f"  {fault} did not happen: there was no such request")
    if not history.strikes:
        for kind in history.scenario.at_effects:
            out.print(f"  {kind.name} did not happen: {OWN_LEDGER}")
    note = note_on_keys(history)
    if note:
        out.print(note)
    out.print(end_of(history))


async def _play_all(subjects: Sequence[Subject], scenario: Scenario) -> list[History]:
    return [await run(subject, scenario) for subject in subjects]


def _as_json(history: History) -> dict[str, Any]:
    return {
        **observe(history).as_json(),
        "anomalies": sorted(anomalies_in(history)),
        "events": history.as_json(),
    }
