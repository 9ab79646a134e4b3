"""The output of `check` for a proposal. Knows the report and the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.faults import describe_faults, names_of, parse
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.setup import POLICIES, Era
from mrtr_options.review.check.compared import AGAIN, Way
from mrtr_options.review.check.report import Report
from mrtr_options.review.explore.counterexamples import Explored, weakest_of
from mrtr_options.review.explore.summary import (
    NOT_TRIED,
    as_in,
    kinds_in_short,
)
from mrtr_options.review.judge.observation import Verdict
from mrtr_options.review.show.html import (
    describe_broken,
    describe_judging,
    describe_unseen,
    describe_verdict,
    risks_heading,
)
from mrtr_options.review.show.tables import COLOURS, LEGEND
from mrtr_options.terminal import console, plural
from mrtr_options.tool.notation import DEFAULT, in_text

MOST_NAMED = 5
"""The most schedules that are named in which the nearest option differs."""


def show(report: Report, *, everything: bool, as_json: bool) -> None:
    """Print a report: as lines, with every run or with the important ones, or as JSON."""
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=1))
    else:
        _print(report, everything=everything)


def _print(report: Report, *, everything: bool) -> None:
    out = console()
    found = describe_verdict(report)
    style = _style_of(report)
    out.print(Text(f"{report.target}: {found}", style))
    for line in describe_judging(report):
        out.print(line)
    for heading, is_broken, lines in describe_broken(report):
        out.print()
        out.print(Text(heading, "bold red" if is_broken else "yellow"))
        for line in lines:
            out.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    _print_risks(report, everything=everything)
    if report.explored is not None and report.otherwise:
        out.print()
        _print_setups([report.explored, *report.otherwise])
    if everything:
        out.print()
        _print_runs(report)
    out.print()
    if report.longest_state:
        out.print(f"longest state: {plural(report.longest_state, 'byte')}")
    _print_nearest(report)
    out.print(Text(found, style))
    _print_compared(report.compared)


def _style_of(report: Report) -> str:
    if not report.holds:
        return "bold red"
    return "yellow" if report.risks else "green"


def _print_risks(report: Report, *, everything: bool) -> None:
    """Print for each anomaly the least that causes it, who is harmed, and what removes it."""
    out = console()
    explored = report.explored
    if not report.risks and explored is None:
        return
    out.print()
    among = ""
    if explored is not None:
        runs = plural(explored.histories, "run")
        faults = plural(explored.bound, "fault")
        among = f" ({runs}, at most {faults})"
    out.print(f"{risks_heading(report)}{among}:", style="bold")
    for risk in report.risks:
        anomaly = risk.anomaly
        under = _describe_counterexamples(risk.counterexamples, everything=everything)
        out.print(Padding(Text(f"{anomaly.name}: {under}"), (0, 0, 0, 2), expand=False))
        remedy, spared = risk.remedy
        by = as_in(spared)
        harms = f"harms {anomaly.harms}; what to do: {remedy}{by}"
        out.print(Padding(Text(harms), (0, 0, 0, 4), expand=False))
        if everything:
            out.print(Padding(Text(anomaly.says), (0, 0, 0, 4), expand=False))
    if not report.risks:
        out.print("  no risks found")
    if report.not_tried:
        out.print(Padding(Text(describe_unseen(report)), (0, 0, 0, 2), expand=False))


def _print_setups(explored: Sequence[Explored]) -> None:
    """Print the least that shows each anomaly, for each client and fleet."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("the client")
    for each in explored:
        setup = each.scenario.setup
        table.add_column(f"{setup.client}, {setup.fleet}")
    for name in dict.fromkeys(name for each in explored for name in each.counterexamples):
        table.add_row(name, *(_least_of(each, name) for each in explored))
    console().print(table)


def _least_of(explored: Explored, anomaly: str) -> str:
    """Return the least that shows an anomaly; "" if no run shows it and all was tried."""
    sets = [names_of(faults) for faults in explored.counterexamples.get(anomaly, [])]
    if sets:
        return weakest_of(sets) or "every call"
    return NOT_TRIED if explored.not_tried else ""


def _describe_counterexamples(counterexamples: Sequence[str], *, everything: bool) -> str:
    """Return the least that causes an anomaly, and the number of other sets of faults that do."""
    first, *others = counterexamples
    least = f"schedule {first}" if first in SCHEDULES else describe_faults(parse(first))
    more = f"also {' | '.join(others)}" if everything else plural(len(others), "other case")
    return f"{least}; {more}" if others else least


def _print_nearest(report: Report) -> None:
    if report.nearest is None:
        return
    under = list(dict.fromkeys(here.schedule for here, _ in report.nearest.differs))
    some = ", ".join(under[:MOST_NAMED])
    if len(under) > MOST_NAMED:
        some += ", ..."
    differs = "behaves the same"
    if under:
        differs = f"differs in {plural(len(under), 'schedule')}: {some}"
    if report.not_tried:
        differs += f"; {NOT_TRIED}: {kinds_in_short(report.not_tried)}"
    console().print(f"most similar option: {in_text(report.nearest.option)} ({differs})")


def _print_compared(ways: Sequence[Way]) -> None:
    """Print the proposal beside the most similar option and the default, a column for each."""
    if not ways:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for way in ways:
        is_default = way.subject == DEFAULT
        table.add_column(f"{way.title}: the default" if is_default else way.title)
    sizes = [way.size for way in ways]
    author = [NOT_TRIED if size is None else f"{size.author:,}" for size in sizes]
    of_sdk = [NOT_TRIED if size is None else f"{size.own:,}" for size in sizes]
    table.add_row("lines of the author", *author)
    table.add_row("lines of the SDK", *of_sdk)
    table.add_row("result lost; the client")
    for policy in POLICIES:
        table.add_row(f"  {policy}", *(way.lost[policy] for way in ways))
        if policy == AGAIN:
            table.add_row("    guarded and named", *(way.named for way in ways))
    table.add_row("redeploy within a call", *(way.redeploy for way in ways))
    out = console()
    out.print()
    out.print(table)
    shared = max((size.shared for size in sizes if size is not None), default=0)
    out.print(f"(and {plural(shared, 'line')} of the SDK that nearly every option uses)")


def _print_runs(report: Report) -> None:
    """Print a row for each schedule; one row for deployments with the same result."""
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
