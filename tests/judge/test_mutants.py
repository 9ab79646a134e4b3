"""The judge on trial: every broken option is caught by the guarantee it breaks, and no sound one is."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.judge import guarantees, mutation
from mrtr_options.judge.mutation import Mutant, all_mutants, try_mutant
from mrtr_options.tool.catalogue import option_named
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow


@pytest.mark.anyio
@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
async def test_a_mutant_is_caught_by_the_guarantee_it_breaks(mutant: Mutant) -> None:
    with anyio.fail_after(SECONDS):
        trial = await try_mutant(mutant)
    assert trial.caught is not None, mutant.title
    assert trial.caught.guarantee.name == mutant.guarantee


def test_there_are_mutants_enough() -> None:
    assert len(all_mutants()) >= 20


def test_every_guarantee_of_the_contract_has_a_mutant_that_breaks_it() -> None:
    broken = {mutant.guarantee for mutant in all_mutants()}
    assert {guarantee.name for guarantee in guarantees.CONTRACT} <= broken


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_says_first_of_which_option_it_is_one(mutant: Mutant) -> None:
    letter = mutant.name[0].upper()
    guarded = mutant.name[1:].startswith("_guard_")
    of = f"the guard around {letter}" if guarded else letter
    assert mutant.title.startswith(f"Mutant of {of}: ")
    assert mutant.title.endswith(".")


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> Mutant:
    """The one mutant there is, and nothing is broken in it."""
    mutant = Mutant("e_sound", option_named("E").path, "clean-tokyo")
    monkeypatch.setattr(mutation, "all_mutants", lambda: [mutant])
    return mutant


def test_a_mutant_that_escapes_makes_the_command_fail(
    sound: Mutant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutants", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == [{"name": "e_sound", "guarantee": "clean-tokyo", "caught_by": None}]
    assert said.err == ""


def test_a_mutant_that_escapes_stands_out(sound: Mutant, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mutants"]) == 1
    assert "nothing" in (said := capsys.readouterr().out)
    assert said.endswith("1 mutants, 1 escaped\n")


def test_mutants_that_are_all_caught_are_listed_with_what_was_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = [mutant for mutant in all_mutants() if mutant.name == "f_two_effects_one_marker"]
    monkeypatch.setattr(mutation, "all_mutants", lambda: mutants)
    assert main(["mutants"]) == 0
    said = capsys.readouterr().out
    assert "bill happened 0 times" in said
    assert said.endswith("1 mutants, all caught\n")


@pytest.mark.anyio
async def test_a_mutant_cannot_break_what_no_option_guarantees() -> None:
    with pytest.raises(ValueError, match="no option guarantees that"):
        await try_mutant(Mutant("e_sound", option_named("E").path, "world-peace"))


def test_a_mutant_has_to_say_what_it_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e_mute.py").write_text('"""Mutant of E: says nothing."""\n')
    monkeypatch.setattr(mutation, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="give it BREAKS"):
        all_mutants()
