"""Tests that the stored explorations behind RESULTS are what an exploration finds now."""

import json
from typing import Any

import anyio
import pytest

from documents import explored
from documents.explored import FILE
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world import temporal
from mrtr_options.review.explore.counterexamples import counterexamples
from mrtr_options.review.explore.workers import options_of
from tests.evidence import every

ROWS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))


PLAYABLE = {f"{row['subject']}, {row['policy']}": row for row in ROWS}
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


def found(row: dict[str, Any], bound: int) -> dict[str, Any]:
    """Explore a row now, and return the new row."""
    if row["subject"].endswith("+temporal") and not temporal.installed():
        pytest.skip(temporal.MISSING)
    subject = subject_named(row["subject"])
    call = calling(
        row["location"], row["fleet"], row["policy"], row["era"], destination=row["destination"]
    )
    seen = anyio.run(counterexamples, subject, call, bound, backend_options=options_of(subject))
    assert seen.unclassified == {}
    return seen.as_json()


def differences(kept: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the differences between a stored row and a new one, as texts."""
    told: list[str] = []
    for name in {**kept["witnesses"], **now["witnesses"]}:
        one, other = (set(each["witnesses"].get(name, ())) for each in (kept, now))
        told += [
            f"{name}: {each or 'no fault'} is kept and does not show it" for each in one - other
        ]
        told += [f"{name}: {each or 'no fault'} shows it and is not kept" for each in other - one]
    rest = [
        name for name in {**kept, **now} if name != "witnesses" and kept.get(name) != now.get(name)
    ]
    told += [f"{name}: {kept.get(name)} is kept, it is {now.get(name)}" for name in rest]
    return told


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_counterexamples_of_one_fault_that_are_kept_are_those_of_now(name: str) -> None:
    kept = dict(PLAYABLE[name])
    now = found(PLAYABLE[name], 1)
    few = {each for sets in kept["witnesses"].values() for each in sets if len(each.split()) <= 1}
    sets = {anomaly: few & {*each} for anomaly, each in kept["witnesses"].items()}
    kept |= {"witnesses": {anomaly: each for anomaly, each in sets.items() if each}}
    assert not differences(kept | {"bound": 1, "histories": now["histories"]}, now)


@pytest.mark.slow
@pytest.mark.parametrize("row", every("docs/data/explored.json", PLAYABLE))
def test_what_is_kept_of_every_set_of_faults_is_what_is_found_now(row: dict[str, Any]) -> None:
    def now() -> list[str]:
        return differences(
            row, explored.leave_out_races(found(row, row["bound"]), row.get("races", ()))
        )

    told = now()
    if told and subject_named(row["subject"]).option.extra is not None:
        # A durable engine works in threads: a difference that does not repeat is a race.
        again = now()
        told = [each for each in told if each in again]
    assert not told, told
