"""The rows of `explore` that README and RESULTS show, kept in docs/data/explored.json.

Knows how to explore and how the rows are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from documents import ROOT
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import (
    Subject,
    explored_subjects,
    temporal_subjects,
)
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.explore.kept import KeptFile
from mrtr_options.review.explore.workers import Called, explore_all
from mrtr_options.review.show.progress import sharing

FILE = ROOT / "docs" / "data" / "explored.json"


def never_from(folder: str) -> str:
    """Return the text of a cell that reads *never*, with a link from the folder of its document."""
    return f"[{explore.NEVER}]({folder}MODEL.md#conditions)"


def read(path: Path = FILE) -> list[explore.Row]:
    """Return the kept rows of a file, with what never happens."""
    return explore.with_never(KeptFile(path, list[Any]).read())


def explore_calls(calls: Mapping[Called, int]) -> list[Explored]:
    """Explore calls on all processors, and show how far it is."""
    with sharing(calls, quiet=False) as on_share:
        return explore_all(calls, None, on_share)


def keep(names: Collection[str], most: int) -> int:
    """Explore some subjects and keep the rows; the kept rows of other subjects stay.

    Args:
        names: The names of the subjects; empty for all.
        most: How many faults at a time.

    Returns:
        1 if a run breaks a rule and shows no anomaly.
    """
    subjects = explored_subjects()
    calls = {
        (subject, calling(policy=policy)): _bound(subject, most)
        for subject in subjects
        for policy in POLICIES
        if not names or subject.name in names
    }
    done = explore_calls(calls)
    file = KeptFile(FILE, list[Any])
    found = {_key(row): row for row in file.read()}
    for row in (each.as_json() for each in done):
        found[_key(row)] = leave_out_races(row, found.get(_key(row), {}).get("races", ()))
    here = [subject.name for subject in subjects]
    # Rows of subjects on Temporal are kept even if Temporal is missing here.
    on_temporal = [subject.name for subject in temporal_subjects()]
    order = [(name, policy) for name in dict.fromkeys(here + on_temporal) for policy in POLICIES]
    rows = [found[key] for key in order if key in found]
    file.write(rows)
    return explore.print_unclassified(done)


def _bound(subject: Subject, most: int) -> int:
    """Return how many faults at a time are tried on a subject for the kept rows.

    On Temporal two faults take half an hour. With call keys the behaviour of a durable engine under
    two faults is a race.
    """
    on_engine = subject.option.extra is not None
    is_race = subject.keyed and on_engine
    if subject.on_temporal or is_race:
        return min(most, 1)
    return most


def leave_out_races(row: explore.Row, races: Sequence[str]) -> explore.Row:
    """Return a row without the sets of faults that contain a race.

    A race is a set of faults that shows an anomaly in some runs and not in others. Races are named
    by hand in the kept row.
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
