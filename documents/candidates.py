"""The candidates for a default: every fault alone, three clients, three destinations.

The results are kept in docs/data/candidates.json. `python -m documents --candidates` makes it
again in two minutes. CANDIDATES, CHOOSING, README and the page show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from documents import ROOT
from documents.explored import never_from
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.setup import POLICIES, Policy
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.review.explore.workers import Called, explore_all
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.show.progress import sharing
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.notation import NAMED, SINGLE_USE, list_in_text
from mrtr_options.tool.weather import DESTINATIONS, Destination

FILE = ROOT / "docs" / "data" / "candidates.json"

AROUND = ("", f"+{SINGLE_USE}", f"+{SINGLE_USE}+{NAMED}")
CANDIDATES = ("E", *(letter + around for around in AROUND for letter in "FGHJ"))
"""The subjects that are compared. E stands for a tool written without reading any advice."""

BOUND = 1
"""The number of faults at a time."""

TWICE = "charged twice"
"""The anomaly of which a cell says that it never happens."""

OF_THE_BENCH = ("expired state accepted", "two responses to one request")
"""Anomalies that the table leaves out: they harm no user."""


def called() -> dict[Called, int]:
    """Return the calls to explore, with the number of faults for each."""
    return {
        (subject_named(name), calling(policy=policy, destination=destination)): BOUND
        for name in CANDIDATES
        for destination in DESTINATIONS
        for policy in POLICIES
    }


def keep(path: Path = FILE) -> int:
    """Explore the candidates, and keep the rows.

    Args:
        path: The file of the kept rows.

    Returns:
        1 if a run breaks a rule and shows no anomaly.
    """
    calls = called()
    with sharing(calls, quiet=False) as on_share:
        done = explore_all(calls, None, on_share)
    rows = [each.as_json() for each in done]
    KeptFile(path, list[Any]).write(rows)
    return explore.print_unclassified(done)


@cache
def read() -> Sequence[explore.Row]:
    """Return the kept rows, with what never happens."""
    return explore.with_never(KeptFile(FILE, list[Any]).read())


def row_of(subject: str, destination: Destination, policy: Policy) -> explore.Row:
    """Return the kept row of one candidate."""
    return next(
        row
        for row in read()
        if (row["subject"], row["destination"], row["policy"]) == (subject, destination, policy)
    )


def anomalies_in(row: explore.Row) -> dict[str, str]:
    """Return the anomalies that one fault causes, each with its mildest fault.

    The anomalies come in the order of harm.
    """
    witnesses: Mapping[str, Sequence[str]] = row["witnesses"]
    return {
        each.name: weakest_of(witnesses[each.name])
        for each in ANOMALIES
        if each.name in witnesses and each.name not in OF_THE_BENCH
    }


def cell(row: explore.Row, folder: str = "") -> str:
    """Return the anomalies that one fault causes, and whether a user is never charged twice.

    Args:
        row: The kept row of a candidate.
        folder: The way from the document to `docs/`.
    """
    found = [*anomalies_in(row)] or [f"✓ {explore.NOT_SEEN.format(row['bound'])}"]
    if TWICE in row["never"]:
        found.append(f"{never_from(folder)} {TWICE}")
    return "; ".join(found)


def compare_candidates() -> str:
    """Return the table of the candidates; candidates that fail alike share a row."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in CANDIDATES:
        for destination in DESTINATIONS:
            cells = tuple(cell(row_of(name, destination, policy), "../") for policy in POLICIES)
            lines.setdefault((destination, *cells), []).append(name)
    heads = ("candidate", "destination", *(f"client {policy}" for policy in POLICIES))
    return table(
        heads,
        [(list_in_text(names), *cells) for cells, names in lines.items()],
    )
