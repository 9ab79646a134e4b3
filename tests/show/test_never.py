"""Tests of *never*: it is said only where runs and closed searches of the model say it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from documents import candidates, explored
from mrtr_options.__main__ import main
from mrtr_options.review.bench.faults import PLAYABLE, parse
from mrtr_options.review.bench.setup import POLICIES, Policy
from mrtr_options.review.explore import never
from mrtr_options.review.explore.never import DESCRIBED, EXTRAS, never_in, searches, searches_of
from mrtr_options.review.explore.summary import behaviours
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.weather import Destination
from tests.commands import printed
from tests.model.subjects import SUBJECTS

EVERY_ROW = [*explored.read(), *candidates.read()]
NOT_IN_THE_MODEL = {kind.name for kind in PLAYABLE.values() if kind.model is None}
"""Faults that `play` takes and the model does not have."""


def row_of(subject: str, policy: str) -> dict[str, Any]:
    """Return a kept row."""
    return next(
        row for row in explored.read() if (row["subject"], row["policy"]) == (subject, policy)
    )


def test_described_subjects_are_those_that_play_the_mechanism_or_are_driven() -> None:
    mechanisms = {subject: each.mechanism for subject, each in DESCRIBED.items()}
    played = {subject: mechanism for mechanism, subject in SUBJECTS.items()}
    driven = {"J+guard+named": "guard, named by argument (J)"}
    assert mechanisms.items() <= (played | driven).items()


def test_guard_never_charges_twice_if_its_client_resends() -> None:
    assert "charged twice" in never_in(row_of("F+guard", "resends"))
    assert "charged twice" not in never_in(row_of("F+guard", "calls again"))


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "?+guard"},
        {"subject": "G+guard"},
        {"era": "legacy"},
        {"location": "Tokyo"},
        {"not_tried": {"redeploy": "no next version"}},
    ],
    ids=str,
)
def test_nothing_is_never_where_the_model_or_the_runs_are_of_something_else(
    change: Mapping[str, Any],
) -> None:
    row = row_of("F+guard", "resends")
    assert never_in(row)
    assert never_in({**row, **change}) == []


@pytest.mark.parametrize("destination", ["ignores keys", "honours keys"])
@pytest.mark.parametrize("policy", POLICIES)
def test_guard_with_a_key_never_charges_twice_as_call_key_says(
    policy: Policy, destination: Destination
) -> None:
    row = row_of("J+guard+call-key", policy)
    none: dict[str, list[str]] = {}  # CALL_KEY has the runs
    there = row | {"destination": destination, "witnesses": none}
    assert "charged twice" in never_in(there)


def test_anomaly_that_a_run_shows_is_not_never() -> None:
    row = row_of("F+guard", "resends")
    shown = row["witnesses"] | {"charged twice": ["lost3 lost3.2"]}
    assert "charged twice" not in never_in(row | {"witnesses": shown})


@pytest.mark.parametrize("extra", ["", *sorted(set(EXTRAS.values()))])
def test_anomaly_that_a_search_shows_is_not_never(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = row_of("F+guard", "resends")
    key = ("guard (F)", "resends", "ignores keys", extra)
    mine = searches()[key]
    worse = {**mine, "anomalies": {**mine["anomalies"], "charged twice": 3}}
    monkeypatch.setattr(never, "searches", lambda: {**searches(), key: worse})
    assert "charged twice" not in never_in(row)
    monkeypatch.setattr(never, "searches", lambda: {**searches(), key: {**mine, "closed": False}})
    assert never_in(row) == []


def test_fault_that_the_model_lacks_makes_nothing_never(monkeypatch: pytest.MonkeyPatch) -> None:
    assert never.LACKING == []
    monkeypatch.setattr(never, "LACKING", ["late"])
    assert never_in(row_of("F+guard", "resends")) == []


def test_search_that_is_missing_makes_nothing_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(never, "searches", dict)
    assert never_in(row_of("F+guard", "resends")) == []


def extras_of(faults: str) -> set[str]:
    """Return the model's extras that some faults need; a fault that it lacks counts as one."""
    names = {fault.name for fault in parse(faults)}
    return {EXTRAS[name] for name in names & EXTRAS.keys()} | (names & NOT_IN_THE_MODEL)


def test_model_shows_each_anomaly_that_runs_of_described_subjects_show() -> None:
    for row in EVERY_ROW:
        done = [each for each in searches_of(row) if each is not None]
        found = {each["extra"]: each["anomalies"] for each in done}
        for name in never.modelled() & row["witnesses"].keys() if found else ():
            needed = [extras_of(faults) for faults in row["witnesses"][name]]
            modelled = [
                each for each in needed if len(each) < 2 and each.isdisjoint(NOT_IN_THE_MODEL)
            ]
            for each in modelled:
                (extra,) = each or {""}
                where = row["subject"], row["policy"], name, extra
                assert name in found.get(extra, {name}), where


def test_what_never_happens_to_a_candidate_never_happens_with_two_faults() -> None:
    of_two = {(row["subject"], row["policy"]): row for row in explored.read()}
    for row in candidates.read():
        more = of_two.get((row["subject"], row["policy"]))
        if more is not None and row["destination"] == more["destination"]:
            assert "charged twice" not in {*row["never"]} - {*more["never"]}


def test_behaviour_is_never_only_where_each_of_its_subjects_is() -> None:
    rows = [row for row in explored.read() if row["subject"] in ("A", "E")]
    (both,) = behaviours(rows)
    assert row_of("E", "resends")["never"]
    assert both.rows["resends"]["never"] == []


def test_explore_says_never_with_its_conditions_in_one_line() -> None:
    told = " ".join(printed(main, "explore", "F+guard", "--client", "resends").split())
    assert " never charged twice" in told
    assert told.endswith(never.CONDITIONS)


def test_explore_says_never_of_no_file_of_others(tmp_path: Path) -> None:
    file = tmp_path / "E.py"
    file.write_text(all_options()["E"].source, encoding="utf-8")
    (row,) = json.loads(printed(main, "explore", str(file), "--client", "resends", "--json"))
    assert row["subject"] not in DESCRIBED
    assert row["never"] == []
