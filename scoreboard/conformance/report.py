"""The kept results of the official suite, docs/data/conformance.json, as the documents show them.

Knows the names of servers and scenarios; nothing of how the suite is run.
"""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel

from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.terminal import markdown
from scoreboard import ROOT

SUITE = "0.2.0-alpha.12"
"""The version of the suite that is run here."""

RESULTS = ROOT / "docs" / "data" / "conformance.json"

EXPECTED = {
    **dict.fromkeys(("E", "F", "G", "K", "careless"), "fixtures.yml"),
    **dict.fromkeys("HJL", "kept.yml"),
    "I": "resolvers.yml",
}
"""The suite's file of expected failures for each server, in the folder `expected`."""
GROUPS = {"multi-round": "input-required-result-", "Tasks": "tasks-", "others": ""}


class Results(BaseModel):
    """The results of a complete run: the suite's version, and each scenario's result by server."""

    suite: str
    results: dict[str, dict[str, str]]


KEPT = KeptFile(RESULTS, Results)
"""The results of the last complete run."""


def read() -> Results:
    """Return the kept results."""
    return KEPT.read()


def passed(results: dict[str, str]) -> dict[str, str]:
    """Return the passed scenarios by group, as in "13 of 14"; as in the suite, a warning passes."""
    groups = {
        name: next(group for group, prefix in GROUPS.items() if name.startswith(prefix))
        for name in results
    }
    played = Counter(groups.values())
    good = Counter(groups[name] for name, status in results.items() if status != "failed")
    return {group: f"{good[group]} of {played[group]}" if played[group] else "" for group in GROUPS}


def by_server(kept: Results) -> str:
    """Return a table of the results of each server."""
    return markdown(
        ("server", *GROUPS, "expected failures"),
        (
            (name, *passed(results).values(), f"`{EXPECTED[name]}`")
            for name, results in kept.results.items()
        ),
    )
