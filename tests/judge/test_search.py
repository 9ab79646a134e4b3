"""The search finds nothing wrong with the options, and would say so if there were."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.bench.run import run
from mrtr_options.bench.scenario import FIRST, PLACE, UNITS, Nothing, Send, Step, Wait, calling
from mrtr_options.bench.subjects import SINGLE_USE, Subject
from mrtr_options.judge import search
from mrtr_options.judge.contract import violations
from mrtr_options.judge.findings import Finding
from mrtr_options.tool.catalogue import Option, option_named

BILL = "await desk.bill(place)"


def twice(folder: Path) -> Subject:
    """E, which bills twice."""
    source = option_named("E").source
    assert source.count(BILL) == 1
    path = folder / "changed.py"
    path.write_text(source.replace(BILL, f"{BILL}; {BILL}"), encoding="utf-8")
    return Subject(Option("E", "changed", path))


def found(subject: Subject, seed: int) -> tuple[Subject, Finding] | None:
    """What a search of one subject finds in a minute at most."""
    look = partial(search.search, seed=seed, seconds=60, on_played=lambda: None)
    return anyio.run(look, [subject])


def test_every_option_of_the_deck_and_every_guarded_one_is_searched() -> None:
    names = {subject.name for subject in search.subjects_to_search()}
    assert names >= set("ABCDEFGHIJ") | {f"{letter}+{SINGLE_USE}" for letter in "EFGJ"}


def test_a_broken_option_is_found_by_its_smallest_call(tmp_path: Path) -> None:
    subject = twice(tmp_path)
    seen = found(subject, 1)
    assert seen is not None
    assert (seen[0], seen[1].rule) == (subject, "bills-are-due")
    assert len(seen[1].history.scenario.callers) <= 4
    again = found(subject, 1)
    assert again is not None
    assert again[1].violation == seen[1].violation


@pytest.mark.parametrize(
    "script",
    [
        (FIRST, PLACE, Send("place", asks=False)),
        (FIRST, PLACE, UNITS, Wait(540), PLACE, Wait(540), UNITS),
        (FIRST, PLACE, UNITS, Wait(540), Send("units", Nothing()), Wait(540), UNITS),
    ],
    ids=["repeated to a client that cannot be asked", "repeated late", "asked again late"],
)
def test_what_a_search_found_in_the_guard_stays_mended(script: tuple[Step, ...]) -> None:
    scenario = replace(calling(fleet="one"), script=script)
    history = anyio.run(run, Subject(option_named("F"), (SINGLE_USE,)), scenario)
    assert violations(history) == []


@pytest.mark.slow
def test_a_soak_says_its_seed_and_how_much_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--soak", "0.02", "--seed", "5"]) == 0
    seed, played = capsys.readouterr().out.splitlines()
    assert seed == "seed 5"
    assert played.endswith(" s")
    assert int(played.split()[0]) >= 0  # on a machine that is busy enough, none


def test_a_soak_that_finds_something_tells_what_happened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "subjects_to_search", lambda: [twice(tmp_path)])
    assert main(["matrix", "--soak", "1", "--seed", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("E breaks bills-are-due: ")
    assert lines[-2:] == [
        "     allowed: at most one bill a delivery",
        "     came: an effect: bill of 'Springfield, Missouri'",
    ]


def test_a_soak_in_json_has_the_story_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "subjects_to_search", lambda: [twice(tmp_path)])
    assert main(["matrix", "--soak", "1", "--seed", "1", "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert (report["seed"], said.err) == (1, "")
    assert report["runs"] > 0
    assert (report["failure"]["column"], report["failure"]["rule"]) == ("E", "bills-are-due")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--soak", "0"], "a number of minutes"),
        (["--soak", "nan"], "a number of minutes"),
        (["--soak", "inf"], "a number of minutes"),
        (["--soak", "long"], "invalid float value: 'long'"),
        (["--soak", "1", "--era", "modern"], "makes its own schedules"),
        (["--soak", "1", "--seed", "x"], "invalid int value: 'x'"),
        (["--seed", "1"], "--seed goes with --soak"),
    ],
)
def test_a_soak_that_makes_no_sense_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["matrix", *arguments])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert why in said.err
    assert said.err.count("\n") == 1
