"""The page that `check --html` writes, in one file that loads nothing.

It has the verdict, the broken rules, the risks with pictures, and the runs that were left out.

Knows the check's report and how a call is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from mrtr_options.review.bench.faults import COUNTS, parse
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.check.findings import Finding
from mrtr_options.review.check.report import NEVER_LOOKED_AT, Report
from mrtr_options.review.check.risks import Risk
from mrtr_options.review.check.story import story
from mrtr_options.review.explore.summary import as_in, not_tried_cell, not_tried_lines
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.contract import RULES
from mrtr_options.review.show.svg import STYLE, source_of, svg
from mrtr_options.terminal import plural

_STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.4rem; overflow-wrap: anywhere }
h2 { font-size: 1.15rem; margin-top: 2.5rem; border-bottom: 1px solid #8886 }
h3 { font-size: 1rem; margin-bottom: 0.2rem }
p { margin: 0.3rem 0 }
pre { padding: 0.6rem; border: 1px solid #8886; border-radius: 6px; overflow-x: auto }
pre { font-size: 0.85rem }
svg { display: block; width: 100%; margin: 0.8rem 0; border: 1px solid #8886; border-radius: 6px }
.holds { color: #007a5a } .breaks { color: #c0392b } .small { color: #777; font-size: 0.9rem }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } .holds { color: #3fb98c } .breaks { color: #ff7b72 }
  .small { color: #9aa4ae }
}
"""


def describe_verdict(report: Report) -> str:
    """Return the verdict in a line: the broken rules, or the risks and that it keeps them all."""
    names = report.broken_names
    if names:
        contract = f"Breaks {plural(len(names), 'guarantee')}: {', '.join(names)}"
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
    risks = [f"{cause}: {'; '.join(words)}." for cause, words in by_cause.items()]
    if names:
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


MOST_NAMED = 3
"""The most runs that are named on a line."""


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
            some = ", ".join(runs[:MOST_NAMED])
            if len(runs) > MOST_NAMED:
                some += ", ..."
            lines.append(
                f"sends a state without a question {where}, in {plural(len(runs), 'run')}: {some};"
                " some clients show an error for it and end the call"
            )
    return lines


def write_page(report: Report) -> str:
    """Return the report as one HTML file."""
    looks = "holds" if report.holds else "breaks"
    verdict = escape(describe_verdict(report))
    parts = [
        f"<h1>{escape(report.target)}</h1>",
        f'<p class="{looks}"><strong>{verdict}</strong></p>',
        *(f'<p class="small">{escape(line)}</p>' for line in describe_judging(report)),
        *_write_broken(report),
        *_write_risks(report),
    ]
    # The page may use its own two styles, and nothing else: no script, no address.
    policy = (
        f"default-src 'none'; style-src {source_of(_STYLE)} {source_of(STYLE)}; base-uri 'none'"
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>check: {escape(report.target)}</title>",
            f"<style>{_STYLE}</style>\n</head>\n<body>",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def describe_broken(report: Report) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each breach: a heading, whether it turns the verdict, and lines."""
    for finding in report.findings:
        yield (
            f"breaks {finding.rule}: {RULES[finding.rule].says}",
            True,
            _describe_finding(report, finding, "breaks"),
        )
    for finding in report.departures:
        told = _describe_finding(report, finding, "departs from")
        yield f"departs from {finding.rule}: {RULES[finding.rule].says}", False, told
    if report.findings and report.raised:
        others = f", the first of {len(report.raised)}" if report.raised[1:] else ""
        yield f"what its code raised{others}:", False, report.raised[0].splitlines()
    for guarantee, runs in groupby(report.broken, lambda each: each[0]):
        seen = [(at, at.breaks[guarantee.name]) for _, at in runs]
        lines = [f"{at.schedule} ({at.era}, {at.deployment}): {why}" for at, why in seen]
        yield f"breaks {guarantee.name}: {guarantee.says}", True, lines


def _describe_finding(report: Report, finding: Finding, does: str) -> list[str]:
    """Return the specification's sentence on the rule, the run, and the rules that follow."""
    source = RULES[finding.rule].source or "a rule of docs/CONTRACT.md alone"
    lines = [source, *story(finding)]
    following = report.following(finding)
    if following:
        lines.append(f"so it also {does} {', '.join(following)}")
    return lines


def _write_broken(report: Report) -> list[str]:
    parts: list[str] = []
    for heading, is_broken, lines in describe_broken(report):
        looks = ' class="breaks"' if is_broken else ""
        parts.append(f"<h3{looks}>{escape(heading)}</h3>")
        parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>")
    return ["<h2>What it breaks</h2>", *parts] if parts else []


def risks_heading(report: Report) -> str:
    """Return the heading of the risks, which are not all allowed if a rule is broken."""
    return "allowed, but worth knowing" if report.holds else "also worth knowing"


def _write_risks(report: Report) -> list[str]:
    explored = report.explored
    if not report.risks and explored is None:
        return []
    parts = [f"<h2>{risks_heading(report).capitalize()}</h2>"]
    if explored is not None:
        calls = plural(explored.histories, "call")
        most = plural(explored.bound, "fault")
        parts.append(f'<p class="small">Among {calls} under at most {most}.</p>')
    for risk in report.risks:
        parts += _write_risk(report, risk)
    if not report.risks:
        parts.append("<p>No risks found.</p>")
    if report.not_tried:
        parts.append(f"<p>{escape(describe_unseen(report))}.</p>")
    return parts


def describe_unseen(report: Report) -> str:
    """Name the anomalies that were not seen although some kinds of faults were not tried."""
    shown = {risk.anomaly.name for risk in report.risks}
    words = [anomaly.name for anomaly in ANOMALIES if anomaly.name not in shown]
    return f"{not_tried_cell(report.not_tried)}; so this may still happen: {'; '.join(words)}"


def _write_risk(report: Report, risk: Risk) -> list[str]:
    anomaly = risk.anomaly
    remedy, spared = risk.remedy
    parts = [
        f"<h3>{escape(anomaly.name.capitalize())}</h3>",
        f"<p>{escape(anomaly.says)} It harms {escape(anomaly.harms)}.</p>",
        f"<p><strong>What to do:</strong> {escape(remedy)}{escape(as_in(spared))}.</p>",
    ]
    first, *others = risk.counterexamples
    history = report.histories.get(first)
    if history is not None:
        parts.append(svg(history, f"{first or 'no fault'}: {_describe_faults(first)}"))
    if others:
        parts.append(f'<p class="small">Also under {escape(", ".join(others))}.</p>')
    return parts


def _describe_faults(faults: str) -> str:
    """Return a set of faults, or a schedule, in words."""
    if faults in SCHEDULES:
        return SCHEDULES[faults].why
    return "; ".join(fault.kind.says for fault in parse(faults)) or "nothing goes wrong"
