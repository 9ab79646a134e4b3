"""The page that `check --html` writes, in one file that loads nothing.

It has the verdict, the broken rules, the risks with pictures, and the runs that were left out.

Knows the check's report and how a call is drawn.
"""

from __future__ import annotations

from html import escape

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.check.report import Report, Risk
from mrtr_options.review.show.svg import STYLE, source_of, svg
from mrtr_options.review.show.verdict import (
    describe_broken,
    describe_judging,
    describe_unseen,
    describe_verdict,
    risks_heading,
)
from mrtr_options.terminal import plural
from mrtr_options.tool.notation import as_in

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


def _write_broken(report: Report) -> list[str]:
    parts: list[str] = []
    for heading, is_broken, lines in describe_broken(report):
        looks = ' class="breaks"' if is_broken else ""
        parts.append(f"<h3{looks}>{escape(heading)}</h3>")
        parts.append(f"<pre>{escape(chr(10).join(lines))}</pre>")
    return ["<h2>What it breaks</h2>", *parts] if parts else []


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
