"""The rows of `explore` that README and RESULTS show: made again, and kept in docs/explored.json.

Knows what `explore` finds and how it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from documents import ROOT
from mrtr_options.review.bench.scenario import POLICIES, calling
from mrtr_options.review.bench.subjects import (
    Subject,
    all_subjects,
    fleet_subjects,
    keyed_subjects,
    named_subjects,
    temporal_subjects,
)
from mrtr_options.review.explore import show as explore
from mrtr_options.review.explore.workers import results
from mrtr_options.review.show.progress import sharing
from mrtr_options.tool.notation import LEGACY_SHIM

FILE = ROOT / "docs" / "explored.json"


def read(path: Path = FILE) -> list[explore.Row]:
    """The rows that are kept."""
    return json.loads(path.read_text(encoding="utf-8"))


def keep(names: Collection[str], most: int, path: Path = FILE) -> int:
    """Explore, and keep what is found; the rows of other subjects stay as they are kept.

    Args:
        names: The subjects, by their names; none for all.
        most: How many faults at a time.
        path: Where rows are kept.

    Returns:
        1 if a run breaks a rule and shows no anomaly.
    """
    subjects = [  # a modern client does not notice the shim for legacy ones
        each
        for each in (*all_subjects(), *keyed_subjects(), *named_subjects(), *fleet_subjects())
        if LEGACY_SHIM not in each.wrappers
    ]
    calls = {
        (subject, calling(policy=policy)): _bound(subject, most)
        for subject in subjects
        for policy in POLICIES
        if not names or subject.name in names
    }
    with sharing(calls, quiet=False) as on_share:
        done, proofs = results(calls, None, on_share)
    found = {_key(row): row for row in read(path)}
    for row in explore.as_rows(done, proofs):
        found[_key(row)] = settled(row, found.get(_key(row), {}).get("races", ()))
    here = [subject.name for subject in subjects]
    # Kept where Temporal is missing, too.
    on_temporal = [subject.name for subject in temporal_subjects()]
    order = [(name, policy) for name in dict.fromkeys(here + on_temporal) for policy in POLICIES]
    rows = [found[key] for key in order if key in found]
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return explore.name_unclassified(done)


def _bound(subject: Subject, most: int) -> int:
    """How many faults at a time are kept of a subject.

    On Temporal two of them take half an hour. With call keys what a durable engine does under two
    is a race.
    """
    return min(most, 1) if subject.on_temporal or (subject.keyed and subject.option.extra) else most


def settled(row: explore.Row, races: Sequence[str]) -> explore.Row:
    """A row without the sets of faults that show an anomaly in some runs and not in others, and
    without those that contain them. They are named by hand in the row that is kept.
    """
    if not races:
        return row
    counterexamples = {
        name: [
            each for each in sets if not any({*race.split()} <= {*each.split()} for race in races)
        ]
        for name, sets in row["witnesses"].items()
    }
    shown = {name: sets for name, sets in counterexamples.items() if sets}
    return row | {"witnesses": shown, "races": list(races)}


def _key(row: explore.Row) -> tuple[str, str]:
    return row["subject"], row["policy"]
