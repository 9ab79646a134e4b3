"""Tests that the kept explorations behind RESULTS and CANDIDATES are what is found now."""

import json

import anyio
import pytest

from documents import candidates, explored
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world import temporal
from mrtr_options.review.explore.counterexamples import counterexamples
from mrtr_options.review.explore.summary import Row
from mrtr_options.review.explore.workers import options_of
from tests.evidence import every

ROWS: dict[str, Row] = {
    f"{row['subject']}, {row['policy']}": row for row in json.loads(explored.FILE.read_text())
}
CANDIDATES: dict[str, Row] = {
    f"{row['subject']}, {row['destination']}, {row['policy']}": row
    for row in json.loads(candidates.FILE.read_text())
}

STALE = "stale: run python -m documents --explore {}, and --candidates"

ONE_OF_EACH = (
    "E, resends",
    "F, resends",
    "F, calls again",
    "H, resends",
    "F+guard, resends",
    "F+guard+call-key, calls again",
)
"""The explorations of `make test`: options that keep nothing, markers or a frame, and the guard,
alone and with a call key.
"""
ALSO = ("F, business key, calls again", "J+guard+named, business key, resends")


def found(row: Row, bound: int) -> Row:
    """Explore a row now, and return the new row."""
    if row["subject"].endswith("+temporal") and not temporal.installed():
        pytest.skip(temporal.MISSING)
    subject = subject_named(row["subject"])
    call = calling(
        row["location"], row["fleet"], row["policy"], row["era"], destination=row["destination"]
    )
    seen = anyio.run(counterexamples, subject, call, bound, backend_options=options_of(subject))
    assert seen.unclassified == {}
    return explored.leave_out_races(seen.as_json(), row.get("races", ()))


def shown(row: Row) -> set[tuple[str, str]]:
    """Return each anomaly of a row with each set of faults that shows it."""
    return {(name, faults) for name, sets in row["witnesses"].items() for faults in sets}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_counterexamples_of_one_fault_that_are_kept_are_those_of_now(name: str) -> None:
    kept = {each for each in shown(ROWS[name]) if len(each[1].split()) <= 1}
    assert shown(found(ROWS[name], 1)) == kept, STALE.format(ROWS[name]["subject"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [
        *every("docs/data/explored.json", ROWS),
        *every("docs/data/candidates.json", CANDIDATES, ALSO),
    ],
)
def test_what_is_kept_of_every_set_of_faults_is_what_is_found_now(row: Row) -> None:
    now = found(row, row["bound"])
    stale = STALE.format(row["subject"])
    differs = shown(row) ^ shown(now)
    if subject_named(row["subject"]).option.extra is None:
        assert now | {"witnesses": {}} == row | {"witnesses": {}}, stale
    elif differs:
        # A durable engine works in threads: a difference that does not repeat is a race.
        differs &= shown(row) ^ shown(found(row, row["bound"]))
    assert not differs, stale
