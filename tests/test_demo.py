"""Tests of an option file as a program: it shows every round, and fails if a count is wrong."""

import io
import json
import os
import re
import runpy
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mrtr_options.__main__ import main as command
from mrtr_options.demo import person
from mrtr_options.demo.option import main
from mrtr_options.terminal import run
from mrtr_options.tool.catalogue import all_options, load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from tests.commands import printed, python, refusal, standard_input
from tests.fixtures import entry_of


def program(path: Path) -> Callable[[Sequence[str]], int]:
    """Return the main of an option file."""
    return partial(main, load(path, Settings(MemoryLedger())), path)


def shown(letter: str, *argv: str) -> str:
    """Run an option and return its output."""
    return printed(program(option_named(letter).path), *argv)


def run_json(letter: str, *argv: str) -> list[dict[str, Any]]:
    """Run an option and return its JSON output."""
    return json.loads(shown(letter, *argv, "--json"))


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


def test_a_run_shows_effects_and_questions_as_they_happen() -> None:
    said = shown("F", "--era", "modern", "--location", "Tokyo")
    moments = (
        "round 1   -> weather(location='Tokyo')",
        "audit 'Tokyo'",
        "<- input required: units",
        "Which units for Tokyo, Japan?",
        'accept {"units": "metric"}',
        "round 2   -> weather(location='Tokyo')",
        'answers {"units": {"action": "accept", "content": {"units": "metric"}}}',
        'bytes, signed, reads {"done":["audit"],"place":"Tokyo, Japan"}',
        "bill 'Tokyo, Japan'",
        "<- result: Tokyo, Japan: 19 °C, clear.",
        "2 rounds, 1 question",
        "1 audit, 1 bill, as meant",
    )
    places = [said.find(moment) for moment in moments]
    assert -1 not in places
    assert places == sorted(places)


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


def test_json_has_the_steps_of_each_call_in_order() -> None:
    (call,) = run_json("A", "--era", "legacy", "--location", "Tokyo")
    assert call["option"] == "A"
    assert call["era"] == "legacy"
    assert call["rounds"] == 1
    assert call["effects"] == {"audit": 2, "bill": 1}
    assert call["broken"] == []
    kinds = [step["kind"] for step in call["steps"]]
    assert kinds == ["request", "effect", "question", "answer", "effect", "effect", "response"]


def test_other_locations_can_be_asked_for_and_are_not_judged() -> None:
    calls = run_json("E", "--location", "portland")
    assert [(call["era"], call["broken"]) for call in calls] == [("modern", None), ("legacy", None)]
    assert calls[0]["text"] == "Portland, Maine: 14 °C, fog."
    said = shown("E", "--location", "[bold]", "--era", "modern")
    assert ": Unknown location: '[bold]'." in said


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


def test_a_repeated_effect_is_told_with_what_was_meant() -> None:
    said = shown("E", "--era", "modern", "--location", "Springfield")
    meant = "3 audits, 1 bill; one of each was meant (E repeats what stands above a question)"
    assert meant in said


def test_a_run_loads_nothing_of_the_review() -> None:
    """Look also for our server, databases and engines; `mcp.server` itself loads uvicorn."""
    ran = python("-X", "importtime", "-m", "mrtr_options.option_f_once")
    loaded = re.findall(r"\| +(\S+)$", ran.stderr, re.MULTILINE)
    ours = [name for name in loaded if name.split(".")[0] == "mrtr_options"]
    assert ran.returncode == 0
    assert len(ours) + 1 <= 29, ours  # one more is the file that is started
    assert not [name for name in ours if name.startswith("mrtr_options.review")]
    assert "mrtr_options.sdk.serving" not in ours
    assert {"sqlalchemy", "dbos", "temporalio"}.isdisjoint(loaded)


def test_a_breakpoint_in_the_handler_hits(tmp_path: Path) -> None:
    source = option_named("F").source.replace(
        "    desk = ctx.lifespan_context\n",
        "    breakpoint()\n    desk = ctx.lifespan_context\n",
        1,
    )
    copy = tmp_path / "option_f_once.py"
    copy.write_text(source, encoding="utf-8")
    copy.with_suffix(".toml").write_text(entry_of("F"), encoding="utf-8")
    hook = "import sys; print('at', sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno)"
    (tmp_path / "hook.py").write_text(f"def hit():\n    {hook}\n", encoding="utf-8")
    ran = python(str(copy), PYTHONBREAKPOINT="hook.hit", PYTHONPATH=str(tmp_path))
    # The breakpoint in the handler is hit once a round.
    assert ran.stdout.count("at call_weather ") == 7, ran.stdout + ran.stderr


CHOOSE = "type a number from 1 to 3, or one of d, c, l, t, o, r"
NO_LOOKUP = "<- result: No lookup was made: the question {!r} was {}."
LOST = "the response is lost"
TWICE = "a second time"
OTHER = "the other instance"
RESTARTED = "every instance is replaced"


@pytest.mark.parametrize(
    ("letter", "era", "typed", "says", "ends"),
    [
        (
            "E",
            "modern",
            "4\nSpringfield\n3\nimperial\n",
            CHOOSE,
            "Springfield, Missouri: 79 °F, sunny.",
        ),
        ("A", "modern", "d\n", "", NO_LOOKUP.format("place", "declined")),
        ("A", "legacy", "1\nc\n", "", NO_LOOKUP.format("units", "cancelled")),
        (
            "H",
            "modern",
            "1",
            "the input ended, which counts",
            NO_LOOKUP.format("place", "cancelled"),
        ),
        ("F", "modern", "1\n1\nl\n\n", LOST, "ended as completed, audit/bill 1/2: charged twice"),
        ("F", "modern", "l\n1\n1\n\n", LOST, "ended as completed, audit/bill 2/1: logged twice"),
        ("G", "modern", "1\n1\nt\n\n", TWICE, "ended as completed, audit/bill 2/2: charged twice"),
        ("H", "modern", "1\no\n1\n\n", OTHER, "ended as refused, audit/bill 1/0: call lost"),
        ("H", "modern", "1\nr\n1\n\n", RESTARTED, "ended as refused, audit/bill 1/0: call lost"),
    ],
)
def test_a_person_breaks_the_call_by_hand_and_is_told_what_came_of_it(
    letter: str, era: str, typed: str, says: str, ends: str
) -> None:
    with standard_input(typed):
        said = printed(command, "play", letter, "--by-hand", "--era", era)
    assert says in said
    assert ends in said
    assert said.count("type a number") == (2 if says == CHOOSE else 0)


@pytest.mark.parametrize(
    ("typed", "ends"),
    [
        ("3\nimperial\n", "<- result: Springfield, Missouri: 79 °F, sunny."),
        ("d\n", NO_LOOKUP.format("place", "declined")),
        ("1\n", NO_LOOKUP.format("units", "cancelled")),
    ],
)
def test_a_person_answers_the_questions_of_an_option(typed: str, ends: str) -> None:
    with standard_input(typed):
        said = shown("E", "--interactive", "--era", "modern", "--location", "Springfield")
    assert ends in said


def test_ctrl_c_cancels_the_question_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read = person.read_line_here

    def read_and_interrupt() -> str:
        threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
        return read()

    monkeypatch.setattr(person, "read_line_here", read_and_interrupt)
    with standard_input("", ends=False):
        (call,) = run_json("H", "--interactive")
    assert call["text"] == "No lookup was made: the question 'units' was cancelled."


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (
            ["--location", "x" * 101],
            "--location does not fit the tool: String should have at most 100",
        ),
        (["--location", "\udcff"], "--location does not fit the tool"),
        (["--era", "victorian"], "invalid choice: 'victorian'"),
        (["--loc", "Tokyo"], "--loc"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(argv: list[str], why: str) -> None:
    assert why in refusal(program(option_named("E").path), argv)
