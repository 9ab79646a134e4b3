"""What `check` prints of a proposal. Knows the check and the terminal."""

from __future__ import annotations

import json
from functools import partial

import anyio
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.subjects import Column
from mrtr_options.judge import check
from mrtr_options.judge.matrix import cells
from mrtr_options.show.matrix import COLOURS, LEGEND
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console, plural
from mrtr_options.tool.catalogue import CannotLoad, option_at
from mrtr_options.tool.weather import SqliteLedger


def show(target: str, *, ledger: str | None, as_json: bool) -> int:
    """Review a proposal and print what was found. Returns 1 if a guarantee is broken.

    Raises:
        CannotLoad, CannotReach, LedgerUnusable: The target cannot be run.
    """
    if target.startswith(("http://", "https://")):
        if ledger is None:
            raise CannotLoad("a running server needs --ledger FILE, the file it counts effects in")
        review = partial(check.check_url, target, SqliteLedger(ledger))
        total = len(check.playable())
    else:
        path = check.file_of(target)
        check.load_proposal(path)
        review = partial(check.check_file, path)
        total = len(cells([Column(option_at(path))]))
    with progress(quiet=as_json) as bar:
        own = bar.add_task("schedules", total=total)
        others = bar.add_task("the options, to compare with", total=None)

        report = anyio.run(review, stepping(bar, own), stepping(bar, others))
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=1))
    else:
        _print(report)
    return 1 if report.broken else 0


def _print(report: check.Report) -> None:
    out = console()
    assert report.nearest is not None
    nearest_option = report.nearest.option
    others = {(other.schedule, other.era): other for _, other in report.nearest.differs}
    out.print(report.target)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("schedule", "era", "instances", "a/b", "verdict", f"in {nearest_option}"):
        table.add_column(heading)
    for seen in report.observations:
        other = others.get((seen.schedule, seen.era)) if seen.deployment == "one" else None
        table.add_row(
            seen.schedule,
            seen.era,
            seen.deployment,
            Text(seen.cell, COLOURS[seen.verdict]),
            Text(seen.verdict, COLOURS[seen.verdict]),
            other.cell if other else "",
        )
    out.print(table)
    out.print(LEGEND[0])
    out.print()
    count = len(report.nearest.differs)
    out.print(
        f"nearest option: {nearest_option}, "
        + (
            f"which does otherwise under {plural(count, 'schedule')} (last column)"
            if count
            else "with no difference"
        )
    )
    if report.left_out:
        out.print(
            f"{plural(report.left_out, 'run')} not made: in {check.GIVE_UP} others a request was left "
            f"without a response for {report.hang_seconds:g} seconds",
            style="bold red",
        )
    if not report.broken:
        out.print("no guarantee is broken", style="green")
    for name in dict.fromkeys(each.guarantee.name for each in report.broken):
        found = [each for each in report.broken if each.guarantee.name == name]
        out.print(f"breaks {name}: {found[0].guarantee.says}", style="bold red")
        for each in found:
            out.print(f"  {each.seen.schedule} ({each.seen.era}, {each.seen.deployment}): {each.why}")
