"""Tests of *never*: it is said only where runs and closed searches of the model say it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from documents import explored
from mrtr_options.__main__ import main
from mrtr_options.review.explore import never
from mrtr_options.review.explore.never import DESCRIBED, EXTRAS, never_in, searches
from mrtr_options.review.explore.summary import Row, markdown, with_never
from mrtr_options.tool.catalogue import all_options
from tests.commands import printed


def row_of(subject: str, policy: str) -> Row:
    """Return a kept row."""
    return next(
        row for row in explored.read() if (row["subject"], row["policy"]) == (subject, policy)
    )


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
    row = row_of("F+guard", "resends")
    assert never_in(row) == []
    assert "said of nothing until the model has each fault: late" in markdown([*with_never([row])])


def test_explore_says_never_of_no_file_of_others(tmp_path: Path) -> None:
    file = tmp_path / "E.py"
    file.write_text(all_options()["E"].source, encoding="utf-8")
    (row,) = json.loads(printed(main, "explore", str(file), "--client", "resends", "--json"))
    assert row["subject"] not in DESCRIBED
    assert row["never"] == []
