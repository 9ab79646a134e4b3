"""What `schedules` prints: the faults and the schedules that have names. Knows the bench's data."""

from __future__ import annotations

import json

from rich.table import Table

from mrtr_options.bench.explore import SAYS
from mrtr_options.bench.schedules import SCHEDULES
from mrtr_options.show.terminal import console


def show(*, as_json: bool) -> int:
    """Print every fault and every schedule with its sentence."""
    schedules = {slug: schedule.models for slug, schedule in SCHEDULES.items()}
    if as_json:
        print(json.dumps({"faults": SAYS, "schedules": schedules}, ensure_ascii=False, indent=1))
        return 0
    out = console()
    for title, says in (("fault", dict(SAYS)), ("schedule", schedules)):
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column(title, no_wrap=True)
        table.add_column("what happens")
        for name, sentence in says.items():
            table.add_row(name, sentence)
        out.print(table)
        out.print()
    return 0
