"""Subjects under chosen faults, or under a schedule with a name, round by round.

Knows subjects only through the bench.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
from rich.text import Text

from mrtr_options.bench import explore
from mrtr_options.bench.explore import SAYS, Fault, Played, World
from mrtr_options.bench.history import History
from mrtr_options.bench.observations import observe
from mrtr_options.bench.runs import Cell, history_of
from mrtr_options.bench.schedules import Schedule
from mrtr_options.judge import anomalies
from mrtr_options.show.terminal import console
from mrtr_options.show.transcript import Transcript, end_of


def play(
    worlds: Sequence[World], faults: Sequence[Fault], schedule: Schedule | None, *, as_json: bool
) -> int:
    """Play what goes wrong on each subject, and print what happens and which anomalies it shows.

    Args:
        worlds: The subjects, their instances and clients.
        faults: What goes wrong.
        schedule: What is played instead.
        as_json: Whether to print JSON.
    """
    played = anyio.run(_played, worlds, faults) if schedule is None else []
    if schedule is None:
        histories = [each.history for each in played]
    else:
        histories = anyio.run(_scheduled, worlds, schedule)
    if as_json:
        print(json.dumps([_as_json(history) for history in histories], ensure_ascii=False, indent=1))
        return 0
    out = console()
    for fault in faults:
        out.print(f"{fault}: {SAYS[fault.kind]}")
    if schedule is not None:
        out.print(f"{schedule.slug}: {schedule.models}")
    for number, history in enumerate(histories):
        option = worlds[number].subject.option
        name = option.path.stem if option.is_foreign else history.subject
        out.print(Text(f"\n{name}, {history.era} client, {history.location!r}", "bold cyan"))
        transcript = Transcript(out)
        for event in history.events:
            transcript(event)
        sent = {(each.round, each.attempt) for each in played[number].requests} if played else None
        for fault in faults:
            if sent is not None and (fault.round, fault.attempt) not in sent:
                out.print(f"  {fault} did not happen: there was no such request")
        out.print(end_of(history))
    return 0


async def _played(worlds: Sequence[World], faults: Sequence[Fault]) -> list[Played]:
    return [await explore.play(world, faults) for world in worlds]


async def _scheduled(worlds: Sequence[World], schedule: Schedule) -> list[History]:
    return [
        await history_of(
            Cell(world.subject, schedule, world.era, "one" if world.fleet == "one" else "two")
        )
        for world in worlds
    ]


def _as_json(history: History) -> dict[str, Any]:
    return {
        **observe(history).as_json(),
        "anomalies": sorted(anomalies.found(history)),
        "events": history.as_json(),
    }
