"""Mutants made by rule: each operator makes a change that runs, and the review notices."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mrtr_options.judge import operators
from mrtr_options.judge.cases import systematic
from mrtr_options.judge.operators import OPERATORS, Change

TESTS = Path(__file__).parents[1]


def test_every_option_and_stand_in_has_mutants_and_a_subject_that_shows_them() -> None:
    assert {"option_f_once.py", "sdk/once.py", "sdk/single_use/guard.py"} <= set(operators.files())
    for file in operators.files():
        assert operators.subjects_of(file), file
    assert [subject.name for subject in operators.subjects_of("sdk/once.py")] == ["F"]
    assert operators.subjects_of("sdk/single_use/guard.py")[0].name == "E+single-use"


def test_every_operator_finds_something_to_change() -> None:
    used = {site.operator for file in operators.files() for site in operators.sites(file)}
    assert used == set(OPERATORS)


def test_a_change_is_one_change_and_leaves_imports_and_docstrings_alone() -> None:
    for change in operators.sample(["option_f_once.py", "sdk/once.py"], 20, seed=3):
        before = ast.unparse(ast.parse((operators.PACKAGE / change.file).read_text(encoding="utf-8")))
        assert change.source != before, str(change)
        head = before.index("async def")
        assert change.source[: head // 2] == before[: head // 2]


def test_the_same_seed_draws_the_same() -> None:
    one, other = (operators.sample(operators.files()[:3], 5, seed=9) for _ in range(2))
    assert one == other


@pytest.mark.slow
@pytest.mark.parametrize("lives", [False, pytest.param(True, marks=pytest.mark.whole)])
def test_the_review_kills_what_breaks_an_option_and_lets_live_what_does_not(
    lives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lives:  # the first case kills it, so no other is played before
        monkeypatch.setattr(operators, "systematic", lambda: list(systematic())[:1])
    file = "option_f_once.py"
    source = (operators.PACKAGE / file).read_text(encoding="utf-8")
    bill = next(line for line in source.splitlines() if "desk.bill" in line)
    changed = source + "\n# the same\n" if lives else source.replace(bill, f"    # {bill}")
    (judged,) = operators.reviewed([Change(file, 1, "by hand", "", "", changed)])
    assert judged.by == (None if lives else "every-place, modern: a-report-is-billed")


def test_what_is_known_of_survivors_names_lines_and_tests_that_there_are() -> None:
    for (file, line, change), known in operators.survivors().items():
        lines = (operators.PACKAGE / file).read_text(encoding="utf-8").splitlines()
        assert line in map(str.strip, lines), (file, line)
        assert change.partition(":")[0] in OPERATORS, change
        if "test" in known:
            path, _, name = known["test"].partition("::")
            assert f"def {name}(" in (TESTS.parent / path).read_text(encoding="utf-8"), known
        else:
            assert known["because"]
