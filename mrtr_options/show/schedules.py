"""What `schedules` prints: the faults and the schedules that have names, and the anomalies they show.

Knows the bench's data, the anomalies and the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio
from rich.table import Table

from mrtr_options.bench.faults import EXPLORED
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge.witnesses import of_schedules
from mrtr_options.show.explore import short
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console


def show(subjects: Sequence[Subject], *, as_json: bool) -> int:
    """Print every fault, and every schedule with its sentence and the anomalies that it shows.

    Args:
        subjects: In what it shows them.
        as_json: Whether to print JSON.
    """
    with progress(quiet=as_json) as bar:
        task = bar.add_task("schedules", total=len(SCHEDULES))
        shown = anyio.run(of_schedules, subjects, stepping(bar, task))
    says = {slug: schedule.why for slug, schedule in SCHEDULES.items()}
    if as_json:
        faults = {name: kind.says for name, kind in EXPLORED.items()}
        found = {"faults": faults, "schedules": says, "anomalies": shown}
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    out = console()
    faults = Table(box=None, padding=(0, 2, 0, 0))
    faults.add_column("fault", no_wrap=True)
    faults.add_column("what happens")
    for name, kind in EXPLORED.items():
        faults.add_row(name, kind.says)
    out.print(faults)
    out.print()
    schedules = Table(box=None, padding=(0, 2, 0, 0))
    schedules.add_column("schedule", no_wrap=True)
    schedules.add_column("what happens", ratio=3)
    schedules.add_column(f"shows, on {' '.join(short(each.name) for each in subjects)}", ratio=2)
    for slug, sentence in says.items():
        lines = [f"{name}: {' '.join(map(short, where))}" for name, where in shown[slug].items()]
        schedules.add_row(slug, sentence, "\n".join(lines))
    out.print(schedules)
    return 0
