"""Mutants: every broken option is caught by the guarantee it breaks, and no sound one is."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.bounds import SECONDS
from tests.evidence import every
from tests.mutants import __main__ as command
from tests.mutants.__main__ import main
from tests.mutants.mutation import Mutant, all_mutants, caught, mutant_named

pytestmark = pytest.mark.slow


OF_EACH_KIND = (
    "e_answers_are_not_checked",  # broken in an answer
    "e_state_is_only_encoded",  # in what protects the state
    "e_asks_old_clients",  # for old clients
    "f_two_effects_one_marker",  # in a stand-in's marker
    "h_is_a_replay",  # in how often code runs
    "e_guard_records_afterwards",  # about one fault, and a schedule shows it
    "e_guard_keeps_the_last_round",  # about two faults, and no schedule shows it
    "k_dead_worker_is_waited_for",  # on a durable engine
)
"""The mutants of `make test`: one of each kind. `make evidence` tries all of them."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "mutant", every("mutants", {mutant.name: mutant for mutant in all_mutants()}, OF_EACH_KIND)
)
async def test_a_mutant_is_caught_by_the_guarantee_and_the_faults_that_it_names(mutant: Mutant) -> None:
    with anyio.fail_after(SECONDS):
        assert await caught(mutant) is not None, f"nothing shows it: {mutant.title}"


@pytest.mark.anyio
async def test_faults_that_show_nothing_leave_a_mutant_uncaught() -> None:
    mutant = mutant_named("e_guard_forgets_what_it_repeated")
    for faults in ("twice3", "twice2 lost3", "lost3 lost3.2 lost3.3"):
        assert await caught(mutant.model_copy(update={"faults": faults})) is None, faults


def test_no_mutant_is_caught_for_a_name_that_is_not_there(tmp_path: Path) -> None:
    for mutant in all_mutants():
        (tmp_path / f"{mutant.name}.py").write_text(mutant.source, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated"]
    command = [*ruff, "--select", "F821,F823", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


SOUND = Mutant(
    name="e_sound",
    title="Nothing is broken.",
    seen="Here.",
    breaks="modern-clean-tokyo-counts",
    diff='     """The weather tool."""\n',
)


def test_a_mutant_that_escapes_makes_the_command_fail_and_stands_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "all_mutants", lambda: [SOUND])
    assert main([]) == 1
    assert capsys.readouterr().out.endswith("e_sound  ESCAPES: Nothing is broken.\n1 escaped\n")
