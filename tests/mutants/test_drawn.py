"""Slips drawn at random: each is one change that runs, and the review or a test notices it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import drawn
from tests.mutants.drawn import FILES, PACKAGE, Slip, killer, option_of, slips

F = PACKAGE / "option_f_once.py"


@pytest.mark.parametrize(
    ("file", "letter"),
    [
        ("option_f_once.py", "F"),
        ("sdk/once.py", "F"),
        ("sdk/single_use/guard.py", "E"),
        ("sdk/push.py", "C"),
    ],
)
def test_a_slip_shows_in_an_option(file: str, letter: str) -> None:
    assert PACKAGE / file in FILES
    assert option_of(PACKAGE / file) == letter


def test_every_slip_is_another_program_and_every_operator_finds_a_place() -> None:
    every = [slip for file in FILES for slip in slips(file)]
    for slip in (slip for slip in every if slip.file.parent == PACKAGE):  # the rest takes a minute
        assert ast.dump(ast.parse(slip.source)) != ast.dump(ast.parse(slip.file.read_bytes())), slip
    assert {slip.what.partition(":")[0] for slip in every} == {
        *("negate the condition", "swap the arguments", "change the constant", "rename the key"),
        *("drop the await", "widen the except", "change the comparison", "swap and with or"),
        "leave the statement out",
    }


def test_a_slip_leaves_what_does_not_run_alone() -> None:
    source = F.read_text(encoding="utf-8")
    first, last = source.index("async def"), source.index("if __name__")
    for slip in slips(F):
        changed = slip.source.decode()
        assert changed.startswith(source[:first])
        assert changed.endswith(source[last:])


def tried(source: str) -> str | None:
    """What kills option F where it reads so."""
    return killer(Slip(F, 1, "by hand", source.encode()))


@pytest.mark.slow
def test_the_review_kills_what_breaks_an_option() -> None:
    source = F.read_text(encoding="utf-8")
    bill = next(line for line in source.splitlines() if "desk.bill" in line)
    by = tried(source.replace(bill, f"    # {bill}"))
    assert by is not None
    assert by.startswith("F breaks a-report-is-billed under ")


@pytest.mark.slow
def test_tests_kill_what_no_option_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_option(file: Path) -> None:
        """As of a stand-in that no option uses."""

    def that_test(file: Path) -> list[str]:
        return [str(test)]

    test = tmp_path / "test_it.py"
    monkeypatch.setattr(drawn, "option_of", no_option)
    monkeypatch.setattr(drawn, "tests_of", that_test)
    for says, by in (("True", None), ("False", "FAILED")):
        test.write_text(f"def test_it() -> None:\n    assert {says}\n", encoding="utf-8")
        assert (tried(F.read_text(encoding="utf-8")) or "None").startswith(str(by))
