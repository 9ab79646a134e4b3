"""What holds for every program: the environment, Ctrl-C while it imports, a terminal without UTF-8."""

import pytest

from tests.commands import python


@pytest.mark.parametrize("module", ["mrtr_options", "mrtr_options.option_f_once"])
def test_without_the_environment_one_line_says_how_to_activate_it(module: str) -> None:
    ran = python("-S", "-m", module)
    assert (ran.returncode, ran.stdout) == (2, "")
    need = "the environment is not active: source .venv/bin/activate (make demo makes it)"
    assert ran.stderr == f"mrtr-options: {need}\n"


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "ValueError('Field: KeyboardInterrupt: ')"])
def test_ctrl_c_while_a_program_imports_ends_it_quietly(raised: str) -> None:
    """The second is what pydantic makes of it while it builds a model."""
    ran = python("-c", f"import sys; sys.argv = ['-m']; import mrtr_options; raise {raised}")
    assert (ran.returncode, ran.stderr) == (130, "")


def test_a_terminal_without_utf_8_gets_ascii() -> None:
    ran = python("-m", "mrtr_options", "explore", "--help", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "explore E F F^1^k" in ran.stdout
