"""What `check` prints of a proposal. Knows the check and the terminal."""

from __future__ import annotations

import json
from functools import partial

import anyio
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.history import Era
from mrtr_options.bench.observations import Observation, Verdict
from mrtr_options.bench.subjects import Column
from mrtr_options.judge import check
from mrtr_options.judge.matrix import cells
from mrtr_options.show.matrix import COLOURS, LEGEND
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console, plural
from mrtr_options.tool.catalogue import CannotLoad, option_at
from mrtr_options.tool.weather import SqliteLedger

URL = ("http://", "https://")

MATTER: tuple[Verdict, ...] = ("more than once", "refused", "lost")
"""The verdicts of runs that are shown without being asked for."""
SHOWN = "broken, duplicated, refused or lost"


def show(target: str, *, ledger: str | None, everything: bool, as_json: bool) -> int:
    """Review a proposal and print what was found. Returns 1 if a guarantee is broken.

    Args:
        target: A file, a module, an option or a URL.
        ledger: Where a running server counts its effects.
        everything: Print every run, not only those that matter.
        as_json: Print one JSON object with all of it instead.

    Raises:
        CannotLoad, CannotReach, LedgerUnusable: The target cannot be run.
    """
    if target.startswith(URL):
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
        _print(report, target, everything=everything)
    return 1 if report.broken else 0


def _print(report: check.Report, target: str, *, everything: bool) -> None:
    out = console()
    assert report.nearest is not None
    found, style = _verdict(report)
    out.print(Text(f"{target}: {found}", style), soft_wrap=True)
    if report.own is None:
        out.print(_contract_only(target), soft_wrap=True)
    out.print()
    nearest_option = report.nearest.option
    broken = {_run(each.seen) for each in report.broken}
    others = {(other.schedule, other.era): other for _, other in report.nearest.differs}
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("schedule", "era", "instances", "a/b", "verdict", f"in {nearest_option}"):
        table.add_column(heading, no_wrap=True)
    shown = [
        seen
        for seen in report.observations
        if everything or _run(seen) in broken or seen.verdict in MATTER
    ]
    # A row for the deployments that show the same.
    rows: dict[tuple[str, Era, str, Verdict], list[str]] = {}
    for seen in shown:
        row = (seen.schedule, seen.era, seen.cell, seen.verdict)
        rows.setdefault(row, []).append(seen.deployment)
    for (schedule, era, cell, verdict), deployments in rows.items():
        other = others.get((schedule, era)) if "one" in deployments else None
        table.add_row(
            schedule,
            era,
            ", ".join(deployments),
            Text(cell, COLOURS[verdict]),
            Text(verdict, COLOURS[verdict]),
            other.cell if other else "",
        )
    if shown:
        out.print(table)
        out.print(LEGEND[0])
    runs = plural(len(report.observations), "run")
    if len(shown) < len(report.observations):
        out.print(f"{len(shown)} of {runs} shown: what was {SHOWN}; --all shows every run")
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
    for name in dict.fromkeys(each.guarantee.name for each in report.broken):
        runs_of = [each for each in report.broken if each.guarantee.name == name]
        out.print(f"breaks {name}: {runs_of[0].guarantee.says}", style="bold red")
        for each in runs_of:
            out.print(f"  {each.seen.schedule} ({each.seen.era}, {each.seen.deployment}): {each.why}")
    out.print()
    out.print(Text(found, style), soft_wrap=True)


def _run(seen: Observation) -> tuple[str, str, str]:
    return seen.schedule, seen.era, seen.deployment


def _verdict(report: check.Report) -> tuple[str, str]:
    """What came out, in a line, and its style."""
    names = dict.fromkeys(each.guarantee.name for each in report.broken)
    if names:
        return f"breaks {plural(len(names), 'guarantee')}: {', '.join(names)}", "bold red"
    return "no guarantee is broken", "green"


def _contract_only(target: str) -> str:
    if target.startswith(URL):
        return "held to the contract only"
    beside = check.file_of(target).with_suffix(".toml").name
    return f"held to the contract only; put {beside} beside it to be held to more"
