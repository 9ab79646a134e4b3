"""What `check` prints of a proposal. Knows the check and the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NoReturn

import anyio
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.faults import Era
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge import check
from mrtr_options.judge.contract import RULES
from mrtr_options.judge.findings import story
from mrtr_options.judge.reading import Verdict
from mrtr_options.show.explore import rank, short
from mrtr_options.show.matrix import COLOURS, LEGEND
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.report import page as report_page
from mrtr_options.show.report import verdict, where_it_hurts
from mrtr_options.show.terminal import console, plural, refuse
from mrtr_options.tool.catalogue import CannotLoad

URL = ("http://", "https://")

MOST_NAMED = 5
"""How many schedules are named where the nearest option does otherwise."""


def show(
    target: str,
    *,
    ledger: str | None,
    everything: bool,
    as_json: bool,
    seconds: float,
    seed: int,
    hang_seconds: float,
    faults: int | None,
    only: Collection[str],
    html: Path | None = None,
) -> int:
    """Review a proposal and print what was found. Returns 1 if anything is broken.

    Args:
        target: A file, a module, an option, a URL, or several with commas.
        ledger: Where a running server counts its effects.
        everything: Print every run, not only those that matter.
        as_json: Print one JSON object with all of it instead.
        seconds, seed, hang_seconds, faults, only: See `check.check_file`.
        html: Write all that was found to this file, too.

    Raises:
        CannotLoad, CannotReach, CannotJudge, LedgerUnusable: The target cannot be run.
    """
    if target.startswith(URL):
        if ledger is None:
            raise CannotLoad("a running server needs --ledger FILE, the file it counts effects in")
        urls = [url.strip() for url in target.split(",")]
        if strange := [url for url in urls if not url.startswith(URL)]:
            raise CannotLoad(
                f"{strange[0]!r} is no URL; name instances as in {URL[0]}one/mcp,{URL[0]}two/mcp"
            )
        review = partial(check.check_url, urls, Path(ledger))
    else:
        review = partial(check.check_file, check.file_of(target))
    with progress(quiet=as_json) as bar:
        own = bar.add_task("runs", total=None)
        others = bar.add_task("the options, to compare with", total=None)
        on_begin, on_option = stepping(bar, own), stepping(bar, others)
        report = anyio.run(
            partial(
                review,
                on_begin,
                on_option,
                seconds=seconds,
                seed=seed,
                hang_seconds=hang_seconds,
                faults=faults,
                only=only,
            )
        )
    if html is not None:
        try:
            html.write_text(report_page(report), encoding="utf-8")
        except OSError as error:
            raise CannotLoad(f"cannot write {html}: {error.strerror}") from error
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=1))
    else:
        _print(report, everything=everything)
    return 0 if report.holds else 1


def try_files(subjects: Iterable[Subject]) -> None:
    """Refuse a stranger's file that hangs at its first call, or ends the process it runs in."""
    for subject in subjects:
        try:
            anyio.run(check.try_file, subject.option.path)
        except check.CannotJudge as error:
            refuse_to_judge(error)


def refuse_to_judge(error: check.CannotJudge) -> NoReturn:
    """End the program, since there is nothing to judge."""
    if error.details:
        print(error.details.rstrip("\n"), file=sys.stderr)
    refuse(error.reason)


def _print(report: check.Report, *, everything: bool) -> None:
    out = console()
    found = verdict(report)
    style = "green" if report.holds else "bold red"
    out.print(Text(f"{report.target}: {found}", style))
    if report.own is None:
        out.print(_contract_only(report.target))
    for finding in report.findings:
        out.print()
        out.print(Text(f"breaks {finding.rule}: {RULES[finding.rule]}", "bold red"))
        for line in story(finding):
            out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if report.findings and report.raised:
        out.print()
        more = len(report.raised) - 1
        others = f", the first of {more + 1}" if more else ""
        out.print(f"what its code raised{others}:", style="bold")
        out.print(Padding(Text(report.raised[0].rstrip("\n")), (0, 0, 0, 2), expand=False))
    for guarantee, runs in groupby(report.broken, lambda each: each[0]):
        out.print()
        out.print(Text(f"breaks {guarantee.name}: {guarantee.says}", "bold red"))
        for _, at in runs:
            line = f"{at.schedule} ({at.era}, {at.deployment}): {at.breaks[guarantee.name]}"
            out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if report.hurts or report.explored is not None:
        out.print()
        _print_hurts(report, everything=everything)
    if everything:
        out.print()
        _print_runs(report)
    out.print()
    _print_nearest(report)
    for why, runs in report.left_out.items():
        line = f"left out: {plural(runs, 'run')} {why}" if runs else f"left out: further runs {why}"
        out.print(Text(line), style="yellow")
    out.print(Text(f"{plural(report.runs, 'run')}; {found}", style))


def _print_hurts(report: check.Report, *, everything: bool) -> None:
    """A line for each anomaly: its smallest witness, who is harmed, and what removes it."""
    out, explored = console(), report.explored
    among = "" if explored is None else f", in {plural(explored.histories, 'call')} under at most"
    among += "" if explored is None else f" {plural(explored.bound, 'fault')}"
    out.print(f"{where_it_hurts(report)}{among}:", style="bold")
    for hurt in report.hurts:
        anomaly, under = hurt.anomaly, _under(hurt.witnesses, everything=everything)
        line = f"{anomaly.name}{under}: harms {anomaly.harms};"
        out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
        by = f" ({', '.join(map(short, anomaly.shown_by))})" if anomaly.shown_by else ""
        out.print(Padding(Text(f"{anomaly.remedy}{by}"), (0, 0, 0, 4), expand=False))
        if everything:
            out.print(Padding(Text(anomaly.says), (0, 0, 0, 4), expand=False))
    if not report.hurts:
        out.print("  nowhere")


def _under(witnesses: Sequence[str], *, everything: bool) -> str:
    if not witnesses:
        return ""
    if "" in witnesses:
        return " without any fault"
    ranked = sorted(witnesses, key=rank)
    more = len(ranked) - 1
    if everything or not more:
        return f" under {', '.join(ranked)}"
    return f" under {ranked[0]} and {plural(more, 'other')}"


def _print_nearest(report: check.Report) -> None:
    if report.nearest is None:
        return
    under = list(dict.fromkeys(here.schedule for here, _ in report.nearest.differs))
    name = short(report.nearest.option)
    if not under:
        console().print(f"nearest option: {name}, with no difference")
        return
    some = ", ".join(under[:MOST_NAMED]) + (", ..." if len(under) > MOST_NAMED else "")
    does = f"which does otherwise under {plural(len(under), 'schedule')}: {some}"
    console().print(f"nearest option: {name}, {does}")


def _print_runs(report: check.Report) -> None:
    """A row for each schedule; one for the deployments that show the same."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("schedule", "era", "instances", "a/b", "verdict"):
        table.add_column(heading, no_wrap=True)
    rows: dict[tuple[str, Era, str, Verdict], list[str]] = {}
    for seen in report.observations:
        row = (seen.schedule, seen.era, seen.cell, seen.verdict)
        rows.setdefault(row, []).append(seen.deployment)
    for (schedule, era, cell, fate), deployments in rows.items():
        colour = COLOURS[fate]
        where = ", ".join(deployments)
        table.add_row(schedule, era, where, Text(cell, colour), Text(fate, colour))
    console().print(table)
    console().print(LEGEND[0])


def _contract_only(target: str) -> str:
    if target.startswith(URL):
        return "held to the contract only"
    beside = check.file_of(target).with_suffix(".toml").name
    return f"held to the contract only; put {beside} beside it to be held to more"
