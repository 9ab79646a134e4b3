"""What RESULTS says of every set of faults is what happens now."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from mrtr_options.bench.explore import World
from mrtr_options.bench.subjects import CALL_KEY, column_named
from mrtr_options.judge.witnesses import witnesses
from mrtr_options.show.explore import FILE

ROWS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))


def sampled() -> list[Any]:
    """The rows as parameters: of each subject one is played always, and all of them by `-m whole`.

    A durable engine takes seconds; tests/sdk/test_call_key_durable.py plays K and L with call keys.
    """
    always = {row["subject"]: number for number, row in enumerate(ROWS)}
    for durable in "KL":
        always.pop(f"{durable}+{CALL_KEY}")
    return [
        pytest.param(
            row,
            id=f"{row['subject']}-{row['policy']}",
            marks=[] if always.get(row["subject"]) == number else pytest.mark.whole,
        )
        for number, row in enumerate(ROWS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled())
def test_the_witnesses_that_are_kept_are_those_of_now(row: dict[str, Any]) -> None:
    """Those of one fault; two take longer than a test may."""
    world = World(column_named(row["subject"]), row["fleet"], row["policy"], row["era"], row["location"])
    found = anyio.run(witnesses, world, 1).as_json()["witnesses"]
    kept = {
        name: small
        for name, sets in row["witnesses"].items()
        if (small := [each for each in sets if len(each.split()) <= 1])
    }
    assert found == kept


def test_with_clients_that_call_again_every_option_bills_twice_and_retrying_mends_it_for_some() -> None:
    """What the README says."""
    lost: dict[str, set[str]] = {"call again": set(), "retry": set()}
    rows = [row for row in ROWS if CALL_KEY not in row["subject"]]
    for row in rows:
        if "lost3" in row["witnesses"].get("duplicate bill", ()):
            lost[row["policy"]].add(row["subject"])
    every = {row["subject"] for row in rows}
    assert lost["call again"] == every
    assert every - lost["retry"] == {each for each in every if each in {*"HKL"} or "single-use" in each}
