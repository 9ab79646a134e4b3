"""The search agrees with the model, and would say so if it did not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from mrtr_options.__main__ import main
from mrtr_options.bench import schedules
from mrtr_options.bench.schedules import FIRST, PLACE, SCHEDULES, UNITS, Schedule, Send, Wait
from mrtr_options.bench.subjects import SINGLE_USE, Column
from mrtr_options.judge import model, search
from mrtr_options.tool.catalogue import Option, option_named

PLAIN = [column for column in search.known_columns() if not column.wrappers]
GUARDED = [column for column in search.known_columns() if SINGLE_USE in column.wrappers]
ONCE = 'await state.once("audit", lambda: desk.audit(location))'
BILL = "await desk.bill(place)"
FIRST_LINE = "await desk.audit(location)  # the hazard above the question: once per round"


def changed(letter: str, folder: Path, old: str, new: str) -> Column:
    """An option with something else in the place of one line, which the model knows nothing of."""
    source = option_named(letter).path.read_text(encoding="utf-8")
    assert source.count(old) == 1
    path = folder / "changed.py"
    path.write_text(source.replace(old, new), encoding="utf-8")
    return Column(Option(letter, "changed", path))


def pasted(source: str) -> Schedule:
    """What a printed schedule is once it stands in `schedules`."""
    schedule: object = eval(source, dict(vars(schedules)))
    assert isinstance(schedule, Schedule)
    return schedule


def disagreement(column: Column, place: search.Place, schedule: Schedule) -> search.Disagreement | None:
    """What is wrong with one schedule, or None."""
    try:
        search.try_schedule(column, place, schedule)
    except search.Disagreement as found:
        return found
    return None


def test_every_option_of_the_deck_and_every_guarded_one_is_searched() -> None:
    names = {column.name for column in search.known_columns()}
    assert names >= set("ABCDEFGH") | {f"{letter}+{SINGLE_USE}" for letter in "EFG"}


@pytest.mark.parametrize("column", PLAIN + GUARDED, ids=lambda column: column.name)
@pytest.mark.slow
def test_the_model_knows_every_schedule_with_a_name(column: Column) -> None:
    known = [
        schedule
        for schedule in SCHEDULES.values()
        if schedule.script
        if not (schedule.has_fault or schedule.changes or schedule.takes_tasks)
    ]
    assert len(known) > 30
    place = "one" if column.wrappers else "two"
    assert [found for schedule in known if (found := disagreement(column, place, schedule))] == []


@pytest.mark.parametrize(
    ("columns", "examples"), [(PLAIN, 200), (GUARDED, 80)], ids=["plain", "guarded"]
)
@pytest.mark.slow
def test_no_schedule_disagrees_with_the_model(columns: list[Column], examples: int) -> None:
    played: list[None] = []
    found = search.search(columns, examples=examples, seed=1, on_played=lambda: played.append(None))
    assert found is None
    assert len(played) == examples


@pytest.mark.parametrize("letter", ["E", "F", "G"])
@pytest.mark.parametrize(
    "script",
    [
        (FIRST, PLACE, Send("place", asks=False)),
        (FIRST, PLACE, UNITS, Wait(540), PLACE, Wait(540), UNITS),
        (FIRST, PLACE, UNITS, Wait(540), Send("units", schedules.Nothing()), Wait(540), UNITS),
    ],
    ids=["repeated to a client that cannot be asked", "repeated late", "asked again late"],
)
def test_what_the_search_found_in_the_guard_stays_mended(
    letter: str, script: tuple[schedules.Step, ...]
) -> None:
    column = Column(option_named(letter), (SINGLE_USE,))
    assert disagreement(column, "one", Schedule("found", "Found by the search.", script)) is None


# --- it can fail --------------------------------------------------------------------------------


def test_a_broken_option_is_found_and_its_schedule_can_be_pasted(tmp_path: Path) -> None:
    broken = changed("F", tmp_path, ONCE, "await desk.audit(location)")
    found = search.search([broken], examples=50, seed=1)
    assert found is not None
    assert (found.place, found.expected, found.seen) == (
        "one",
        "1 audit of Springfield",
        "2 audit of Springfield",
    )
    again = pasted(search.source(found.schedule))
    assert again == found.schedule
    assert again.script == (Send("first"), Send("place"))
    assert disagreement(broken, "one", again) is not None
    assert disagreement(Column(option_named("F")), "one", again) is None


def test_an_error_in_the_model_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model.AUDITS, "G", "every round")
    found = search.search([Column(option_named("G"))], examples=20, seed=1)
    assert found is not None
    assert [*found.schedule.script] == [Send("first")]


def test_a_bill_without_units_is_found_even_if_the_model_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Early(model.Stateless):
        def __call__(self, instance: int, request: Any, state: Any) -> model.Said:
            said = super().__call__(instance, request, state)
            if said.reply.questions:
                self._world.effects["bill", request.location] += 1
            return said

    monkeypatch.setattr(model, "Stateless", Early)
    bills = f"await desk.bill(location)\n{' ' * 12}return ask(which_place, state)"
    broken = changed("E", tmp_path, "return ask(which_place, state)", bills)
    found = disagreement(broken, "one", Schedule("found", "", (FIRST,)))
    assert found is not None
    assert (found.expected, found.seen) == ("at most 0 rounds to be billed for", "1")


def test_what_runs_on_after_the_end_is_found(tmp_path: Path) -> None:
    keeps = f"import asyncio; kept = asyncio.create_task(asyncio.sleep(3600)); {FIRST_LINE}"
    found = search.search([changed("E", tmp_path, FIRST_LINE, keeps)], examples=10, seed=1)
    assert found is not None
    assert (found.expected, found.seen) == ("nothing to run on after the end", "1 task")


def test_a_schedule_that_cannot_be_played_is_found(tmp_path: Path) -> None:
    broken = changed("E", tmp_path, "server = build_server(", "no_server = build_server(")
    found = search.search([broken], examples=5, seed=1)
    assert found is not None
    assert "has no `server`" in found.seen


def test_the_same_seed_tries_the_same_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(seed: int) -> list[Schedule]:
        seen: list[Schedule] = []

        def note(column: Column, place: search.Place, schedule: Schedule) -> None:
            seen.append(schedule)

        monkeypatch.setattr(search, "try_schedule", note)
        assert search.search(PLAIN, examples=30, seed=seed) is None
        return seen

    assert tried(3) == tried(3)
    assert tried(3) != tried(4)


@given(search.SCHEDULES_TO_TRY)
def test_a_schedule_is_the_same_once_it_was_printed_and_pasted(schedule: Schedule) -> None:
    assert pasted(search.source(schedule)) == schedule


@pytest.mark.parametrize("slug", SCHEDULES)
def test_a_schedule_with_a_name_can_be_printed(slug: str) -> None:
    assert pasted(search.source(SCHEDULES[slug])) == SCHEDULES[slug]


# --- the command --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_soak_says_its_seed_and_how_much_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--soak", "0.02", "--seed", "5"]) == 0
    seed, played = capsys.readouterr().out.splitlines()
    assert seed == "seed 5"
    assert played.endswith(" s")
    assert int(played.split()[0]) >= 0  # on a machine that is busy enough, none


def test_a_soak_that_finds_something_prints_it_to_be_pasted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = changed("F", tmp_path, ONCE, "await desk.audit(location)")
    monkeypatch.setattr(search, "known_columns", lambda: [broken])
    assert main(["matrix", "--soak", "1", "--seed", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (printed,) = (line for line in lines if line.startswith("Schedule("))
    assert disagreement(broken, "one", pasted(printed)) is not None
    assert "expected: 1 audit of Springfield" in lines
    assert "seen: 2 audit of Springfield" in lines


def test_a_soak_in_json_has_the_schedule_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = changed("E", tmp_path, BILL, "await desk.bill(location)")
    monkeypatch.setattr(search, "known_columns", lambda: [broken])
    assert main(["matrix", "--soak", "1", "--seed", "1", "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert (report["seed"], said.err) == (1, "")
    assert report["schedules"] > 0
    assert report["failure"]["column"] == "E"
    assert disagreement(broken, "one", pasted(report["failure"]["schedule"])) is not None


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
    refused(capsys, arguments, why)


def test_without_hypothesis_a_soak_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrtr_options.__main__.find_spec", lambda name: None)  # pyright: ignore
    refused(capsys, ["--soak", "1"], "pip install hypothesis")


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], why: str) -> None:
    """Hold that the command ends with code 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        main(["matrix", *arguments])
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert why in said.err
    assert said.err.count("\n") == 1
