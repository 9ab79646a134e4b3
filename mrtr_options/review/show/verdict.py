"""The output of `check` for a proposal. Knows the report and the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtr_options.review.bench.faults import COUNTS, describe_faults, names_of, parse
from mrtr_options.review.bench.messages import Era
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.check.breaches import Breach
from mrtr_options.review.check.compared import AGAIN, Way
from mrtr_options.review.check.report import NEVER_LOOKED_AT, Report
from mrtr_options.review.check.story import story
from mrtr_options.review.explore import (
    NOT_TRIED,
    kinds_in_short,
    not_tried_cell,
    not_tried_lines,
)
from mrtr_options.review.explore.counterexamples import Explored, weakest_of
from mrtr_options.review.judge.anomalies import ANOMALIES, in_order, listed
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.judge.observation import Verdict
from mrtr_options.review.judge.properties import Property
from mrtr_options.review.show.tables import COLOURS, LEGEND, build_table
from mrtr_options.terminal import console, plural, print_json
from mrtr_options.tool.notation import DEFAULT, DEFAULT_FOR_ALL, as_in, in_text, titled

MOST_RUNS_NAMED = 3
"""The most runs that are named on a line."""

MOST_NAMED = 5
"""The most schedules that are named in which the nearest option differs."""


def show(report: Report, *, everything: bool, as_json: bool) -> None:
    """Print a report: as lines, with every run or with the important ones, or as JSON."""
    if as_json:
        print_json(report.as_json())
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
            out.print(_indented(line, 2))
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


def _indented(text: str, by: int) -> Padding:
    return Padding(Text(text), (0, 0, 0, by), expand=False)


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
        out.print(_indented(f"{anomaly.name}: {under}", 2))
        remedy, spared = risk.remedy
        by = as_in(spared)
        harms = f"harms {anomaly.harms}; what to do: {remedy}{by}"
        out.print(_indented(harms, 4))
        if everything:
            out.print(_indented(anomaly.says, 4))
    if not report.risks:
        out.print("  no risks found")
    if report.not_tried:
        out.print(_indented(describe_unseen(report), 2))


def _print_setups(explored: Sequence[Explored]) -> None:
    """Print the least that shows each anomaly, for each client and fleet."""
    setups = [each.scenario.setup for each in explored]
    names = in_order({name for each in explored for name in each.counterexamples})
    head = ("the client", *(f"{setup.client}, {setup.fleet}" for setup in setups))
    rows = ((name, *(_least_of(each, name) for each in explored)) for name in names)
    console().print(build_table(head, rows))


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
    differs = "behaves the same"
    if under:
        differs = f"differs in {plural(len(under), 'schedule')}: {_some(under, MOST_NAMED)}"
    if report.not_tried:
        differs += f"; {NOT_TRIED}: {kinds_in_short(report.not_tried)}"
    console().print(f"most similar option: {in_text(report.nearest.option)} ({differs})")


def _some(names: Sequence[str], most: int) -> str:
    """Return the first of some names in a text, and whether there are more."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def _print_compared(ways: Sequence[Way]) -> None:
    """Print the proposal beside the most similar option and the default, a column for each."""
    if not ways:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for way in ways:
        is_default = way.subject == DEFAULT_FOR_ALL
        table.add_column(f"{titled(DEFAULT)}: the default" if is_default else way.title)
    sizes = [way.size for way in ways]
    author = [NOT_TRIED if size is None else f"{size.author:,}" for size in sizes]
    of_sdk = [NOT_TRIED if size is None else f"{size.own:,}" for size in sizes]
    table.add_row("lines of the author", *author)
    table.add_row("lines of the SDK", *of_sdk)
    table.add_row("result lost; the client")
    for policy in POLICIES:
        table.add_row(f"  {policy}", *(way.if_lost[policy] for way in ways))
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
    console().print(LEGEND)


# --- sentences that the page has, too -------------------------------------------------------------


def describe_verdict(report: Report) -> str:
    """Return the verdict in a line: the broken rules, or the risks and that it keeps them all."""
    broken = [
        f"{plural(len(names), noun)}: {', '.join(names)}"
        for noun, names in report.broken_names.items()
    ]
    if broken:
        contract = f"Breaks {'; '.join(broken)}"
    elif report.own:
        departs = ", ".join(report.own.departs)
        but = f" but for {departs}, as it declares," if departs else ""
        contract = f"Keeps the contract{but} and its own guarantees"
    else:
        contract = "Keeps the contract"
    if report.departures:
        contract += f"; departs from {', '.join(each.rule for each in report.departures)}"
    by_cause: dict[str, list[str]] = {}
    for risk in report.risks:
        first = risk.counterexamples[0]
        words = f"{risk.anomaly.name} ({first})" if first else risk.anomaly.name
        by_cause.setdefault(_describe_cause(first), []).append(words)
    risks = [f"{cause}: {listed(words)}." for cause, words in by_cause.items()]
    if broken:
        return " ".join([f"{contract}.", *risks])
    return " ".join([*risks, f"{contract}."])


def _describe_cause(counterexample: str) -> str:
    """Return "Under one fault", "Under a schedule" or "In every call"."""
    if not counterexample:
        return "In every call"
    if counterexample in SCHEDULES:
        return "Under a schedule"
    return f"Under {COUNTS.get(len(parse(counterexample)), 'no fault')}"


def describe_judging(report: Report) -> list[str]:
    """Return lines on how the proposal was judged, and what was left out."""
    by = f" {report.judged}" if report.judged else ""
    held = "and its own guarantees" if report.own else "only"
    if report.own is None and "://" not in report.target:
        held += f"; {_where_to_declare(Path(report.target))} to declare stronger guarantees"
    lines = [f"judged in {plural(report.runs, 'run')}{by}, against the contract {held}"]
    for why, runs in report.left_out.items():
        left_out = plural(runs, "run") if runs else "further runs"
        lines.append(f"left out: {left_out} {why}")
    lines.append(f"never looked at: {'; '.join(NEVER_LOOKED_AT)}")
    return [*lines, *not_tried_lines(report.not_tried), *_describe_state_only(report)]


def _where_to_declare(file: Path) -> str:
    """Return the place to declare guarantees: an option's are in the file of all options."""
    letter = re.fullmatch(r"option_([a-z])_\w+", file.stem)
    if letter is None:
        return f"add {file.stem}.toml"
    return f"add [{letter[1].upper()}] to mrtr_options/guarantees.toml"


def _describe_state_only(report: Report) -> list[str]:
    """Say where a server depends on a state without a question.

    Some clients never send such a state again.
    """
    lines: list[str] = []
    for runs, where in (
        (list(report.state_only_calm), "though nothing goes wrong"),
        (list(report.state_only_else), "where something goes wrong"),
    ):
        if runs:
            some = _some(runs, MOST_RUNS_NAMED)
            lines.append(
                f"sends a state without a question {where}, in {plural(len(runs), 'run')}: {some};"
                " some clients show an error for it and end the call"
            )
    return lines


def describe_broken(report: Report) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each breach: a heading, whether it turns the verdict, and lines."""
    for breach in report.breaches:
        yield (
            f"breaks {breach.rule}: {RULES[breach.rule].says}",
            True,
            _describe_breach(report, breach, "breaks"),
        )
    for breach in report.departures:
        told = _describe_breach(report, breach, "departs from")
        yield f"departs from {breach.rule}: {RULES[breach.rule].says}", False, told
    if report.breaches and report.raised:
        others = f", the first of {len(report.raised)}" if report.raised[1:] else ""
        yield f"what its code raised{others}:", False, report.raised[0].splitlines()
    runs: dict[Property, list[str]] = {}
    for guarantee, at in report.broken:
        told = f"{at.schedule} ({at.era}, {at.deployment}): {at.breaks[guarantee.name]}"
        runs.setdefault(guarantee, []).append(told)
    for guarantee, lines in runs.items():
        yield f"breaks {guarantee.name}: {guarantee.says}", True, lines


def _describe_breach(report: Report, breach: Breach, does: str) -> list[str]:
    """Return the specification's sentence on the rule, the run, and the rules that follow."""
    source = RULES[breach.rule].source or "a rule of docs/CONTRACT.md alone"
    lines = [source, *story(breach)]
    following = report.following(breach)
    if following:
        lines.append(f"so it also {does} {', '.join(following)}")
    return lines


def risks_heading(report: Report) -> str:
    """Return the heading of the risks, which are not all allowed if a rule is broken."""
    return "allowed, but worth knowing" if report.holds else "also worth knowing"


def describe_unseen(report: Report) -> str:
    """Name the anomalies that were not seen although some kinds of faults were not tried."""
    shown = {risk.anomaly.name for risk in report.risks}
    words = [anomaly.name for anomaly in ANOMALIES if anomaly.name not in shown]
    return f"{not_tried_cell(report.not_tried)}; so this may still happen: {listed(words)}"
