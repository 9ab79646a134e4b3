"""Tests that the review catches every mutant by the property that it breaks."""

from pathlib import Path

import anyio
import pytest

from tests.bounds import SECONDS
from tests.commands import printed, python
from tests.evidence import every
from tests.mutants import __main__ as command
from tests.mutants.__main__ import main
from tests.mutants.mutation import Mutant, all_mutants, caught, mutant_named

pytestmark = pytest.mark.slow


OF_EACH_KIND = (
    "e_answers_are_not_checked",  # wrong about answers
    "e_state_is_only_encoded",  # wrong about the protection of the state
    "e_asks_old_clients",  # wrong about old clients
    "f_failed_effect_is_done",  # wrong about a stand-in's marker
    "h_is_a_replay",  # wrong about how often code runs
    "e_guard_records_afterwards",  # wrong under one fault, which a schedule has
    "e_guard_keeps_the_last_round",  # wrong under two faults, which no schedule has
    "k_dead_worker_is_waited_for",  # on a durable engine
)
"""The mutants of `make test`: one of each kind. `make evidence` tries all of them."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    "mutant", every("mutants", {mutant.name: mutant for mutant in all_mutants()}, OF_EACH_KIND)
)
async def test_a_mutant_is_caught_by_the_guarantee_and_the_faults_that_it_names(
    mutant: Mutant,
) -> None:
    with anyio.fail_after(SECONDS):
        assert await caught(mutant) is not None, f"nothing shows it: {mutant.title}"


def test_no_mutant_is_caught_for_a_name_that_is_not_there(tmp_path: Path) -> None:
    for mutant in all_mutants():
        (tmp_path / f"{mutant.name}.py").write_text(mutant.source, encoding="utf-8")
    ended = python("-m", "ruff", "check", "--isolated", "--select", "F821,F823", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_mutants_that_escape_make_the_command_fail_and_stand_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Try faults that show nothing, faults more than needed, and a guarantee that is not broken."""
    mutant = mutant_named("e_guard_forgets_what_it_repeated")
    faults = ("twice3", "twice2 lost3", "lost3 lost3.2 lost3.3")
    others = [{"faults": each} for each in faults] + [{"faults": "", "breaks": "state-is-genuine"}]
    escaping = [mutant.model_copy(update=each) for each in others]
    monkeypatch.setattr(command, "all_mutants", lambda: escaping)
    escapes = f"{mutant.name}  ESCAPES: {mutant.title}\n"
    assert printed(main, code=1) == f"4 mutants\n{4 * escapes}4 escaped\n"
