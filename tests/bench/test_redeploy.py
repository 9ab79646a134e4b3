"""Tests of redeploys in the middle of a call, option by option."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import anyio
import pytest

from mrtr_options.review.bench import redeploys
from mrtr_options.review.bench.messages import form_of
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.steps import FIRST, Change, Redeploy, Send, Step, accept
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.explore import not_tried
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.observation import Observation, observe
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options, option_named
from tests.evidence import every

CHANGES: tuple[Change, ...] = get_args(Change)
LETTERS = [
    letter
    for letter, option in all_options().items()
    if redeploys.next_versions_of(option).is_file()
]
"""The options with next versions. Without any, a redeploy is not tried, and each table says so."""


def played(option: Option, script: tuple[Step, ...]) -> Observation:
    """Run a script on one instance and return what was observed."""
    return observe(anyio.run(run, Subject(option), replace(calling(fleet="one"), script=script)))


def test_redeploys_are_tried_on_the_options_of_the_argument() -> None:
    assert set("ABCDEFGHIJKLM") <= {*LETTERS}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("letter", LETTERS)
def test_a_kept_next_version_fits_the_file_of_its_option(letter: str, change: Change) -> None:
    option = option_named(letter)
    assert redeploys.why_not(option, [change]) == ""
    assert redeploys.source(option, change) != option.source


ANSWERS = (
    Send("place", accept({"place": "Springfield, Missouri"}), only_if="asked"),
    Send("consent", accept({"consent": "yes"}), only_if="asked"),
    Send("units", only_if="asked"),
)


CASES = {f"{letter}-{change}": (letter, change) for letter, change in product(LETTERS, CHANGES)}
FEW = [name for name in CASES if name[0] not in "KL" or name.endswith("inserted")]
"""The cases of `make test`. A call on an engine takes two seconds."""


@pytest.mark.parametrize("case", every("calls of next versions", CASES, FEW))
def test_a_clean_call_of_the_next_version_asks_what_it_asks(case: tuple[str, Change]) -> None:
    letter, change = case
    seen = played(option_named(letter), (Redeploy(change), FIRST, *ANSWERS, *ANSWERS))
    place = "Springfield, Illinois" if change == "removed" else "Springfield, Missouri"
    due = redeploys.questions(change, "Springfield", place).values()
    asked = [
        form_of(message, reply.schemas[key])
        for reply in seen.replies
        for key, message in reply.questions.items()
    ]
    assert seen.fate == "ok"
    assert seen.effects["bill"] == 1
    assert sorted(asked, key=str) == sorted(due, key=str)
    assert (seen.questions[0] == "Which units for Springfield?") == (change == "reordered")
    assert (seen.text or "").startswith(place)


@pytest.fixture
def stranger(tmp_path: Path) -> Option:
    """Return an option with F's code and no other file beside it."""
    file = tmp_path / "my_option.py"
    file.write_text(option_named("F").source, encoding="utf-8")
    return Option("?", "my option", file)


def test_a_file_without_next_versions_is_not_tried(stranger: Option, tmp_path: Path) -> None:
    missing = "no next version of my_option.py is kept; add my_option.next.toml"
    cells, left_out = grid.split([Subject(stranger)], schedules=[SCHEDULES["redeploy-reworded"]])
    assert cells == []
    assert {cell.missing for cell in left_out} == {missing}
    assert not_tried(Subject(stranger), calling()) == {"redeploy": missing}
    assert not_tried(Subject(stranger), calling(era="legacy")) == {}
    with pytest.raises(ValueError, match=missing):
        redeploys.write(stranger, "reworded", tmp_path)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("-    of_another_file()", "my_option.next.toml: in [inserted] this is found 0 times"),
        (
            "-class State(Markers):\n+class State(",
            "'(' was never closed (my_option.next.toml: in [inserted], line",
        ),
    ],
)
def test_a_next_version_that_does_not_fit_is_not_tried(
    lines: str, problem: str, stranger: Option
) -> None:
    diff = f"[inserted]\ndiff = '''\n{lines}\n'''\n"
    redeploys.next_versions_of(stranger).write_text(diff, encoding="utf-8")
    (why,) = not_tried(Subject(stranger), calling()).values()
    assert why.startswith(f"the next version of my_option.py does not fit: {problem}")
    kept = redeploys.why_not(stranger, ["effect"])
    assert kept.endswith("is kept for it; add [effect] to my_option.next.toml")


@pytest.mark.parametrize(
    ("diff", "changed"),
    [("-a\n+x", "x\nb\nc"), ("-c\n+x", "a\nb\nx"), (" b\n+x", "a\nb\nx\nc")],
    ids=["first", "last", "between"],
)
def test_a_diff_may_change_any_line_also_the_first_and_one_without_an_end(
    diff: str, changed: str
) -> None:
    assert redeploys.patched("a\nb\nc", diff, "a diff") == changed


def test_a_next_version_reads_what_stands_beside_its_file(stranger: Option, tmp_path: Path) -> None:
    diff = "[effect]\ndiff = '''\n-class State(Markers):\n+class Other(Markers):\n'''\n"
    redeploys.next_versions_of(stranger).write_text(diff, encoding="utf-8")
    (tmp_path / "words.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "versions").mkdir()
    version = redeploys.write(stranger, "effect", tmp_path / "versions")
    assert (version.parent / "words.txt").read_text(encoding="utf-8") == "hello"
    assert "class Other" in version.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"[effect", "Expected ']' at the end of a table declaration"),
        (b"[effect]\ndiff = 3", "effect.diff: Input should be a valid string"),
        (b"[reword]\ndiff = ''", "reword.[key]: Input should be 'reworded', 'schema'"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_next_versions_that_cannot_be_read_are_one_clear_line(
    written: bytes, problem: str, stranger: Option
) -> None:
    kept = redeploys.next_versions_of(stranger)
    kept.write_bytes(written)
    with pytest.raises(CannotLoad, match=rf"\A{re.escape(f'{kept}: {problem}')}.*\Z"):
        redeploys.why_not(stranger, ["effect"])
