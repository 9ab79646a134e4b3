"""What is run, and what is kept of it: docs/conformance.json and the table in docs/CONFORMANCE.md.

Knows the names of servers and scenarios, and the suite's files; runs nothing, so it needs no npm.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from mrtr_options.show.terminal import markdown as in_markdown

SUITE = "0.2.0-alpha.12"
"""The version of the suite that all of this is about."""
RESULTS = Path(__file__).parents[2] / "docs" / "conformance.json"
DOCUMENT = RESULTS.with_name("CONFORMANCE.md")

EXPECTED = {
    **dict.fromkeys(("E", "F", "G", "K", "careless"), "fixtures.yml"),
    **dict.fromkeys("HJL", "kept.yml"),
    "I": "resolvers.yml",
}
"""The suite's file of expected failures for each server, in the folder `expected`."""
DRAFT = (("--suite", "draft", "--spec-version", "2026-07-28"),)
"""The suite's arguments: the scenarios of 2026-07-28."""
TASKS = tuple(
    ("--scenario", f"tasks-{name}")
    for name in (
        *("lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input"),
        *("request-headers", "dispatch-and-envelope", "required-task-error", "mrtr-composition"),
    )
)
"""The same for K, a scenario at a time: they are skipped where a version is named.

Without `tasks-status-notifications`, which checks nothing in this version of the suite.
"""
GROUPS = {"multi-round": "input-required-result-", "Tasks": "tasks-", "others": ""}


class Results(BaseModel):
    """What is kept of a complete run: the suite's version, and each scenario's result by server."""

    suite: str
    results: dict[str, dict[str, str]]


def status_of(checks: Path) -> str:
    """What the checks of a scenario come to: passed, failed, or warned of a SHOULD."""
    found = {check["status"] for check in json.loads(checks.read_bytes())}
    if "FAILURE" in found or "SUCCESS" not in found:
        return "failed"
    return "warned" if "WARNING" in found else "passed"


def write(kept: Results) -> None:
    """Keep a complete run, and write its table into the document."""
    RESULTS.write_text(kept.model_dump_json(indent=2) + "\n", encoding="utf-8")
    head, begin, rest = DOCUMENT.read_text(encoding="utf-8").partition("<!-- begin: conformance -->\n")
    end = rest[rest.index("<!-- end -->") :]
    DOCUMENT.write_text(f"{head}{begin}{markdown(kept)}\n{end}", encoding="utf-8")


def read() -> Results:
    """The complete run that was kept last."""
    return Results.model_validate_json(RESULTS.read_bytes())


def passed(results: dict[str, str]) -> dict[str, str]:
    """How many scenarios passed by group, as in "13 of 14"; as in the suite, a warning passes."""
    found: dict[str, list[bool]] = {group: [] for group in GROUPS}
    for name, status in results.items():
        group = next(group for group, prefix in GROUPS.items() if name.startswith(prefix))
        found[group].append(status != "failed")
    return {group: f"{sum(good)} of {len(good)}" if good else "" for group, good in found.items()}


def markdown(kept: Results) -> str:
    """The kept results as a table."""
    return in_markdown(
        ("server", *GROUPS, "expected failures"),
        (
            (name, *passed(results).values(), f"`{EXPECTED[name]}`")
            for name, results in kept.results.items()
        ),
    )
