"""Tests of an option file as a program: it shows every round, and fails if a count is wrong."""

import io
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from mrtr_options.__main__ import main as command
from mrtr_options.demo import person
from mrtr_options.demo.option import main
from mrtr_options.terminal import run
from mrtr_options.tool.catalogue import all_options, load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from tests.commands import printed, standard_input
from tests.fixtures import entry_of


def program(path: Path) -> Callable[[Sequence[str]], int]:
    """Return the main of an option file."""
    return partial(main, load(path, Settings(MemoryLedger())), path)


def shown(letter: str, *argv: str) -> str:
    """Run an option and return its output."""
    return printed(program(option_named(letter).path), *argv)


def wrong_copy(tmp_path: Path, letter: str, right: str, wrong: str) -> Path:
    """Copy an option file and its guarantees, with a change in one of the two."""
    option = option_named(letter)
    source = option.path.read_text(encoding="utf-8")
    own = entry_of(letter)
    assert right in source + own
    copy = tmp_path / option.path.name
    copy.write_text(source.replace(right, wrong), encoding="utf-8")
    copy.with_suffix(".toml").write_text(own.replace(right, wrong), encoding="utf-8")
    return copy


@pytest.mark.parametrize("letter", list(all_options()))
@pytest.mark.slow
def test_every_option_file_runs_as_a_program_and_does_as_declared(
    letter: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = option_named(letter).path
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert said.err == ""
    assert said.out.count(" meant") == (6 if letter == "K" else 4)
    assert "NOT as declared" not in said.out


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ('modern_tokyo = "2/1"', 'modern_tokyo = "1/1"', "audit/bill is 2/1; guarantees.toml"),
        ('legacy_springfield = "1/0"', 'legacy_springfield = "1/1"', "audit/bill is 1/0;"),
        ("asks_legacy = false", "asks_legacy = true", "0 questions: guarantees.toml declares"),
        ("await desk.bill(place)", "raise ValueError", "audit/bill is 2/0;"),
    ],
)
def test_a_call_that_is_not_as_declared_fails(
    right: str, wrong: str, why: str, tmp_path: Path
) -> None:
    said = printed(program(wrong_copy(tmp_path, "E", right, wrong)), code=1)
    assert f"NOT as declared: {why}" in said


@pytest.mark.parametrize(
    ("letter", "era", "typed", "ends"),
    [
        ("E", "modern", "4\nSpringfield\n3\nimperial\n", "Springfield, Missouri: 79 °F, sunny."),
        ("A", "legacy", "1\nc\n", "the question 'units' was cancelled."),
        ("F", "modern", "1\n1\nl\n\n", "ended as completed, audit/bill 1/2: charged twice"),
        ("G", "modern", "1\n1\nt\n\n", "ended as completed, audit/bill 2/2: charged twice"),
        ("H", "modern", "1\no\n1\n\n", "ended as refused, audit/bill 1/0: call lost"),
        ("H", "modern", "1\nr\n1\n\n", "ended as refused, audit/bill 1/0: call lost"),
        ("E", "modern", "1\n1\nq\n\n", "press Enter, or type one of"),
    ],
)
def test_a_person_breaks_the_call_by_hand_and_is_told_what_came_of_it(
    letter: str, era: str, typed: str, ends: str
) -> None:
    with standard_input(typed):
        assert ends in printed(command, "play", letter, "--by-hand", "--era", era)


def test_ctrl_c_cancels_the_question_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read = person.read_line_here

    def read_and_interrupt() -> str:
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return read()

    monkeypatch.setattr(person, "read_line_here", read_and_interrupt)
    with standard_input("", ends=False):
        (call,) = json.loads(shown("H", "--interactive", "--json"))
    assert call["text"] == "No lookup was made: the question 'units' was cancelled."


class Leaving(io.TextIOWrapper):
    """A pipe whose reader closes it when it receives a certain word."""

    def __init__(self, word: str) -> None:
        self._reader, writer = os.pipe()
        self._word = word
        super().__init__(os.fdopen(writer, "wb"), encoding="utf-8")

    def write(self, text: str) -> int:
        if self._word in text and self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
        return super().write(text)


@pytest.mark.parametrize("word", ["round 1", "audit", "result: "])
def test_a_reader_that_goes_in_a_call_is_no_error(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Leaving(word) as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert run(lambda: program(option_named("F").path)(["--era", "modern"])) == 0


NO_LOOKUP = "<- result: No lookup was made: the question {!r} was {}."


@pytest.mark.parametrize(
    ("typed", "ends"),
    [
        ("3\nimperial\n", "<- result: Springfield, Missouri: 79 °F, sunny."),
        ("9\nd\n", "type a number from 1 to 3, or one of d, c"),
        ("d\n", NO_LOOKUP.format("place", "declined")),
        ("1\n", NO_LOOKUP.format("units", "cancelled")),
    ],
)
def test_a_person_answers_the_questions_of_an_option(typed: str, ends: str) -> None:
    with standard_input(typed):
        said = shown("E", "--interactive", "--era", "modern", "--location", "Springfield")
    assert ends in said
