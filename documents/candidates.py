"""The candidates for a default: every fault alone, three clients, three destinations.

The results are kept in docs/data/candidates.json. `python -m documents --candidates` makes it
again in two minutes. CANDIDATES, CHOOSING, README and the page show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from documents import ROOT, explored
from documents.findings import group_rows
from mrtr_options.errors import UsageError
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.review.judge.anomalies import ANOMALIES, listed
from mrtr_options.tool.notation import NAMED, SINGLE_USE
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


def keep() -> int:
    """Explore the candidates, and keep the rows. Return 1 for a run that nothing classifies."""
    calls = {
        (subject_named(name), calling(policy=policy, destination=destination)): BOUND
        for name in CANDIDATES
        for destination in DESTINATIONS
        for policy in POLICIES
    }
    done = explored.explore_calls(calls)
    KeptFile(FILE, list[Any]).write([each.as_json() for each in done])
    return explore.print_unclassified(done)


@cache
def read() -> Sequence[explore.Row]:
    """Return the kept rows, with what never happens."""
    return explored.read(FILE)


def row_of(subject: str, destination: Destination, policy: str) -> explore.Row:
    """Return the kept row of one candidate.

    Raises:
        UsageError: It has not been explored with that client at that destination.
    """
    wanted = (subject, destination, policy)
    for row in read():
        if (row["subject"], row["destination"], row["policy"]) == wanted:
            return row
    named = f"{subject}, for a client that {policy}, at a destination that {destination},"
    raise UsageError(f"{named} is not explored yet; run python -m documents --candidates")


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
        found.append(f"{explored.never_from(folder)} {TWICE}")
    return listed(found)


def compare_candidates() -> str:
    """Return the table of the candidates; candidates that fail alike share a row."""
    heads = ("candidate", "destination", *(f"client {policy}" for policy in POLICIES))
    rows = (
        (name, [kind, *(cell(row_of(name, kind, policy), "../") for policy in POLICIES)])
        for name, kind in product(CANDIDATES, DESTINATIONS)
    )
    return group_rows(heads, rows)
