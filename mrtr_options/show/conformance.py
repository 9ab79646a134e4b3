"""What is kept of the official suite's runs, docs/conformance.json, as the table of docs/CONFORMANCE.md.

Knows the names of servers and scenarios; how they are run is told in `scoreboard.conformance`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from mrtr_options.show.terminal import markdown as in_markdown

SUITE = "0.2.0-alpha.12"
"""The version of the suite that all of this is about."""
RESULTS = Path(__file__).parents[2] / "docs" / "conformance.json"

EXPECTED = {
    **dict.fromkeys(("E", "F", "G", "K", "careless"), "fixtures.yml"),
    **dict.fromkeys("HJL", "kept.yml"),
    "I": "resolvers.yml",
}
"""The suite's file of expected failures for each server, in the folder `expected`."""
GROUPS = {"multi-round": "input-required-result-", "Tasks": "tasks-", "others": ""}


class Results(BaseModel):
    """What is kept of a complete run: the suite's version, and each scenario's result by server."""

    suite: str
    results: dict[str, dict[str, str]]


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
