"""Tests of `check --html`: it writes one file that has everything and loads nothing."""

import base64
import hashlib
import re

import anyio

from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.check.report import Report
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.show.html import write_page


def report_of(target: str, *faults: str) -> Report:
    """Make a report of F under these sets of faults."""
    called = subject_named("F"), calling()
    report = Report(target, explored=Explored(*called, 1))
    assert report.explored is not None
    for each in faults:
        subject, call = called
        history = anyio.run(run, subject, call.under(parse(each)))
        report.explored.take(history.scenario.faults, anomalies_in(history))
        report.histories[each] = history
    report.left_out["that need <time> to pass"] = 7
    return report


LOADS = r"<(script|link|img|iframe|object|embed|base)|<[^>]* (src|href|action|style|srcset|on\w+)="
"""What could load or run something."""


def test_the_report_loads_nothing_and_its_policy_allows_its_own_styles_alone() -> None:
    text = write_page(report_of("my_option.py", "lost3"))
    assert re.search(LOADS, text) is None
    styles = set(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    hashes = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in styles}
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert len(styles) == 2
    assert policy.startswith("default-src 'none'; style-src ")
    assert set(re.findall(r"'sha256-([^']*)'", policy)) == hashes


def test_what_a_stranger_writes_is_text_in_the_report() -> None:
    report = report_of("<script>alert(1)</script>.py")
    report.raised.append("</pre><script>alert(2)</script>")
    assert "<script>" not in write_page(report)
