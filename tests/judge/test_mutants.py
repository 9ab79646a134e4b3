"""Mutants: every broken option is caught by the guarantee it breaks, and no sound one is."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.bench.explore import parse
from mrtr_options.judge import mutation
from mrtr_options.judge.mutation import Exploration, Mutant, all_mutants, mutant_named, try_mutant
from mrtr_options.tool.catalogue import CannotLoad, option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


ONE_OF = 3
"""Which mutants are always tried; `-m whole` tries all of them, as does the command."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=pytest.mark.whole if number % ONE_OF else [])
        for number, mutant in enumerate(all_mutants())
    ],
)
async def test_a_mutant_is_caught_by_the_guarantee_and_the_faults_that_it_names(mutant: Mutant) -> None:
    with anyio.fail_after(SECONDS):
        trial = await try_mutant(mutant)
    assert not trial.escaped, mutant.title
    assert trial.caught is not None or trial.is_shown
    assert trial.caught is None or trial.caught.guarantee.name == mutant.breaks


def test_there_are_mutants_enough() -> None:
    assert len(all_mutants()) >= 20
    assert sum(len(mutant.witness) == 2 for mutant in all_mutants() if mutant.faults) >= 8


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_that_breaks_what_holds_of_deliveries_names_its_faults(mutant: Mutant) -> None:
    deliveries = (
        "bill-once-",
        "audit-once-",
        "duplicates-",
        "survives-",
        "failed-effects-",
        "parallel-",
    )
    assert mutant.faults or not mutant.breaks.startswith(deliveries)
    assert bool(mutant.faults) == bool(mutant.shows)


@pytest.mark.anyio
async def test_faults_that_show_nothing_leave_a_mutant_uncaught() -> None:
    mutant = mutant_named("e_guard_forgets_what_it_repeated")
    for faults in ("twice3", "twice2 lost3", "lost3 lost3.2 lost3.3"):
        trial = await try_mutant(mutant.model_copy(update={"faults": faults}))
        assert trial.escaped, faults


def test_a_mutant_is_found_by_exploration_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--explore", "h_result_is_forgotten"]) == 0
    assert "orphan bill  lost3" in capsys.readouterr().out


def test_a_mutant_that_fewer_faults_show_is_not_found_by_those_that_it_names() -> None:
    mutant = mutant_named("h_keeps_one_result")
    sets = [mutant.witness]
    assert Exploration(mutant, 1, {"orphan bill": sets}).is_found
    assert not Exploration(mutant, 1, {"orphan bill": sets, "lost call": [parse("lost3")]}).is_found
    assert not Exploration(mutant, 1, {"lost call": sets}).is_found


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_is_described_in_two_sentences(mutant: Mutant) -> None:
    for sentence in (mutant.title, mutant.seen):
        assert sentence[0] in string.ascii_uppercase + "`"
        assert sentence.endswith(".")


def test_no_mutant_is_caught_for_a_name_that_is_not_there(tmp_path: Path) -> None:
    for mutant in all_mutants():
        (tmp_path / f"{mutant.name}.py").write_text(mutant.source, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821,F823",
        str(tmp_path),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


SOUND = Mutant(
    name="e_sound",
    title="Nothing is broken.",
    seen="Here.",
    breaks="modern-clean-tokyo-counts",
    diff='     """The weather tool."""\n',
)


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> Mutant:
    """The one mutant there is, and nothing is broken in it."""
    monkeypatch.setattr(mutation, "all_mutants", lambda: [SOUND])
    return SOUND


def test_a_mutant_that_escapes_makes_the_command_fail(
    sound: Mutant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutants", "--json"]) == 1
    said = capsys.readouterr()
    (trial,) = json.loads(said.out)
    assert (trial["name"], trial["guarantee"], trial["caught_by"]) == (
        "e_sound",
        "modern-clean-tokyo-counts",
        None,
    )
    assert said.err == ""


def test_a_mutant_that_escapes_stands_out(sound: Mutant, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants"]) == 1
    assert "nothing" in (said := capsys.readouterr().out)
    assert said.endswith("1 mutant, 1 escaped\n")


def test_mutants_that_are_all_caught_are_listed_with_what_was_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [mutant for mutant in all_mutants() if mutant.name == "f_two_effects_one_marker"]
    monkeypatch.setattr(mutation, "all_mutants", lambda: mutants)
    assert main(["mutants"]) == 0
    said = capsys.readouterr().out
    assert "none before the text" in said
    assert said.endswith("1 mutant, all caught\n")


def test_one_mutant_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants", "--json", "f_two_effects_one_marker"]) == 0
    (trial,) = json.loads(capsys.readouterr().out)
    assert trial["name"] == "f_two_effects_one_marker"


def test_a_mutants_file_differs_from_the_option_in_what_the_mutant_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["mutants", "--show", "f_marker_stays_at_home"]) == 0
    shown = capsys.readouterr().out.splitlines()
    added = [line for line in shown if line not in option_named("F").source.splitlines()]
    assert added == [
        "from mrtr_options.judge import mutant_parts as parts",
        "    state.done = []",
    ]


def test_an_unknown_mutant_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["no_such"], ["--show", "no_such"]):
        with pytest.raises(SystemExit) as stopped:
            main(["mutants", *arguments])
        assert stopped.value.code == 2
        assert capsys.readouterr().err.startswith("mrtr-options: there is no mutant 'no_such'")


@pytest.mark.anyio
async def test_a_mutant_cannot_break_what_no_option_guarantees() -> None:
    with pytest.raises(CannotLoad, match="no option guarantees that"):
        await try_mutant(SOUND.model_copy(update={"breaks": "world-peace"}))


@pytest.mark.parametrize(
    ("diff", "found"),
    [
        ("-    await desk.bill(plaice)\n", "0"),
        ("-    await desk.bill\n", "0"),  # not a whole line
        (" \n", r"\d\d"),  # blank lines
    ],
)
def test_a_place_of_a_diff_is_found_exactly_once(diff: str, found: str) -> None:
    with pytest.raises(CannotLoad, match=rf"\[e_sound\] this is {found} times in option_e"):
        _ = SOUND.model_copy(update={"diff": diff}).source


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('title = "Says nothing."', r"\[e_mute\] seen: Field required"),
        ("title = 1", r"\[e_mute\] title: Input should be a valid string"),
        ("title =", "Invalid value"),
    ],
)
def test_a_bad_table_is_one_line(
    table: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mutants.toml"
    file.write_text(f"[e_mute]\n{table}\n", encoding="utf-8")
    monkeypatch.setattr(mutation, "MUTANTS", file)
    with pytest.raises(CannotLoad, match=says):
        all_mutants()
