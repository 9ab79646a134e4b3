"""From the code to the model: runs and searches show the same anomalies, for the model's faults."""

import pytest

from documents import candidates, explored
from mrtr_options.review.bench.faults import PLAYABLE, parse
from mrtr_options.review.explore import never
from mrtr_options.review.explore.never import EXTRAS, searches, searches_of
from mrtr_options.review.explore.summary import Row

NOT_IN_THE_MODEL = {kind.name for kind in PLAYABLE.values() if kind.model is None}
"""Faults that `play` takes and the model does not have."""

GIVES_UP = {"charged, told of an error", "call lost"}
"""Anomalies of a client that gives up. The model's client does so earlier than the bench's."""

NEVER_ARRIVES = {"asked twice"}
"""What a request that never arrives leads to by argument. Runs lose responses, and no requests."""

EVERY_ROW = {
    f"{row['subject']} {row['policy']} {row['destination']}": row
    for row in (*candidates.read(), *explored.read())
    if searches_of(row)
}
"""The explorations that the model describes."""


def extras_of(faults: str) -> set[str]:
    """Return the model's extras that some faults need; a fault that it lacks counts as one."""
    names = {fault.name for fault in parse(faults)}
    return {EXTRAS[name] for name in names & EXTRAS.keys()} | (names & NOT_IN_THE_MODEL)


def shown(row: Row, extra: str) -> set[str]:
    """Return the anomalies that runs show with faults that need this extra alone, or none."""
    needed = {extra} if extra else set[str]()
    return {
        name
        for name in never.modelled() & row["witnesses"].keys()
        if any(extras_of(faults) == needed for faults in row["witnesses"][name])
    }


@pytest.mark.parametrize("row", EVERY_ROW.values(), ids=EVERY_ROW)
def test_model_shows_each_anomaly_that_runs_show(row: Row) -> None:
    for found in filter(None, searches_of(row)):
        assert shown(row, found["extra"]) <= found["anomalies"].keys(), found["extra"]


PLAYED = {
    name: row
    for name, row in EVERY_ROW.items()
    if row["bound"] > 1 and row["destination"] == "ignores keys"
}


@pytest.mark.parametrize("row", PLAYED.values(), ids=PLAYED)
def test_runs_show_each_anomaly_of_the_model_and_no_other(row: Row) -> None:
    mechanism = never.DESCRIBED[row["subject"]].mechanism
    found = searches()[mechanism, row["policy"], "ignores keys", ""]
    more = (found["anomalies"].keys() & never.modelled()) - shown(row, "")
    if row["policy"] != "calls again":
        assert more == set()
    assert more <= GIVES_UP | (NEVER_ARRIVES if row["subject"] == "J+guard+named" else set())
