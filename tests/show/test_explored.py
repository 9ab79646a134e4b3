"""What RESULTS says of every set of faults is what happens now."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import pytest

from mrtr_options.bench.explore import World
from mrtr_options.bench.subjects import CALL_KEY, column_named
from mrtr_options.judge.witnesses import begin, witnesses
from mrtr_options.show.explore import FILE

ROWS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))


ONE_OF = 3
"""Each subject is played once under each third of the faults; `-m whole` plays every row under all.

A durable engine takes seconds; tests/sdk/test_call_key_durable.py plays K and L with call keys.
"""
SAMPLE = {
    row["subject"]: row for row in ROWS if row["subject"] not in (f"K+{CALL_KEY}", f"L+{CALL_KEY}")
}


def world_of(row: dict[str, Any]) -> World:
    return World(column_named(row["subject"]), row["fleet"], row["policy"], row["era"], row["location"])


def kept(row: dict[str, Any], sets: set[str]) -> dict[str, list[str]]:
    """Those of the kept witnesses that are among these sets of faults."""
    found = {
        name: [each for each in row["witnesses"][name] if each in sets] for name in row["witnesses"]
    }
    return {name: each for name, each in found.items() if each}


@pytest.mark.slow
@pytest.mark.parametrize("subject", SAMPLE)
def test_the_witnesses_that_are_kept_are_those_of_now(subject: str) -> None:
    row, place = SAMPLE[subject], [*SAMPLE].index(subject) % ONE_OF
    world = world_of(row)
    clean, faults = anyio.run(begin, world)
    some = faults[place::ONE_OF]
    found = anyio.run(partial(witnesses, world, 1, first=some)).as_json()["witnesses"]
    always = clean.as_json()["witnesses"]
    assert always == kept(row, {""})
    assert {name: found[name] for name in found.keys() - always} == kept(row, {*map(str, some)})


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['subject']}-{row['policy']}")
def test_all_witnesses_that_are_kept_are_those_of_now(row: dict[str, Any]) -> None:
    """Those of one fault; two take longer than a test may."""
    found = anyio.run(witnesses, world_of(row), 1).as_json()["witnesses"]
    few = {each for sets in row["witnesses"].values() for each in sets if len(each.split()) <= 1}
    assert found == kept(row, few)


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
