"""The examples as programs: they say what they are about, refuse unknown flags and keep logs out."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.commands import called

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = ("basic", "multiround", "carriers", "inputs", "client_dual_path", "index_directory")


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--nope", 2)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_help_and_refuses_an_unknown_flag_in_one_line(
    example: str,
    flag: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(FOLDER / f"{example}.py")
    monkeypatch.setattr(sys, "argv", [file, flag])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(file, run_name="__main__")
    assert ended.value.code == code
    out, error = capsys.readouterr()
    assert (f"usage: python -m examples.{example}" in out) == (code == 0)
    assert error.count("\n") == (0 if code == 0 else 1)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["basic", "multiround", "carriers", "inputs"])
def test_a_demonstration_sees_what_it_expects_and_no_log_line_is_in_it(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = called(f"python -m examples.{example}")
    told = capsys.readouterr()
    assert (code, told.err) == (0, ""), told.out
    assert "  with the answer " in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 100
    if example in ("multiround", "carriers"):
        assert "Invalid or expired requestState" in told.out
