"""An option file as a program: it shows every round, and fails where its guarantee is wrong."""

import io
import json
import os
import runpy
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mrtr_options.demo import person
from mrtr_options.demo.option import main
from mrtr_options.terminal import run
from mrtr_options.tool.catalogue import all_options, option_named
from tests.commands import printed, refusal, standard_input
from tests.fixtures import entry_of


def shown(letter: str, *argv: str) -> str:
    """What a run of an option prints."""
    return printed(partial(main, option_named(letter).path), *argv)


def run_json(letter: str, *argv: str) -> list[dict[str, Any]]:
    """What a run of an option prints as JSON."""
    return json.loads(shown(letter, *argv, "--json"))


def wrong_copy(tmp_path: Path, letter: str, right: str, wrong: str) -> Path:
    """An option file and its guarantees beside it, with something changed in one of the two."""
    option = option_named(letter)
    source, own = option.path.read_text(encoding="utf-8"), entry_of(letter)
    assert right in source + own
    copy = tmp_path / option.path.name
    copy.write_text(source.replace(right, wrong), encoding="utf-8")
    copy.with_suffix(".toml").write_text(own.replace(right, wrong), encoding="utf-8")
    return copy


@pytest.mark.parametrize("letter", list(all_options()))
@pytest.mark.slow
def test_every_option_file_runs_as_a_program_and_keeps_its_guarantee(
    letter: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = option_named(letter).path
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert said.err == ""
    assert said.out.count(": as guaranteed") == (6 if letter == "K" else 4)


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
        "2 rounds, 1 question, audit/bill 1/1: as guaranteed",
    )
    places = [said.find(moment) for moment in moments]
    assert -1 not in places
    assert places == sorted(places)


class Leaving(io.TextIOWrapper):
    """A pipe whose reader goes as soon as it is sent a word."""

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
        assert run(lambda: main(option_named("F").path, ["--era", "modern"])) == 0


def test_json_has_the_events_of_each_call_in_order() -> None:
    (call,) = run_json("A", "--era", "legacy", "--location", "Tokyo")
    assert (call["option"], call["era"], call["rounds"]) == ("A", "legacy", 1)
    assert call["effects"] == {"audit": 2, "bill": 1}
    assert call["broken"] == []
    kinds = [event["event"] for event in call["events"] if event["event"] != "entered"]
    assert kinds == ["sent", "effect", "asked", "answered", "effect", "effect", "received"]


def test_other_locations_can_be_asked_for_and_are_not_judged() -> None:
    calls = run_json("E", "--location", "portland")
    assert [(call["era"], call["broken"]) for call in calls] == [("modern", None), ("legacy", None)]
    assert calls[0]["text"] == "Portland, Maine: 14 °C, fog."
    said = shown("E", "--location", "[bold]", "--era", "modern")
    assert ": Unknown location: '[bold]'." in said


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ('modern_tokyo = "2/1"', 'modern_tokyo = "1/1"', "audit/bill is 2/1, guaranteed 1/1"),
        ('legacy_springfield = "1/0"', 'legacy_springfield = "1/1"', "is 1/0, guaranteed 1/1"),
        (
            "asks_legacy = false",
            "asks_legacy = true",
            "old-clients-are-asked: what the user was asked",
        ),
        (
            "weather.report(place, units)",
            "place",
            "the-report-is-the-pages: the text 'Tokyo, Japan',",
        ),
        ("await desk.bill(place)", "raise ValueError", "the-report-is-the-pages: error -32603"),
    ],
)
def test_a_wrong_guarantee_or_result_fails(
    right: str, wrong: str, why: str, tmp_path: Path
) -> None:
    said = printed(partial(main, wrong_copy(tmp_path, "E", right, wrong)), code=1)
    assert ("NOT as guaranteed" in said, why in said) == (True, True), said


CHOOSE = "type a number from 1 to 3, or one of d, c, l, t, o, r"
NO_LOOKUP = "<- result: No lookup was made: the question {!r} was {}."
LOST, TWICE = "the response is lost", "a second time"
OTHER, RESTARTED = "the other instance", "every instance is replaced"


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
def test_a_person_answers_refuses_or_breaks_the_call_and_is_told_what_came_of_it(
    letter: str, era: str, typed: str, says: str, ends: str
) -> None:
    with standard_input(typed):
        said = shown(letter, "--interactive", "--era", era, "--location", "Springfield")
    assert (says in said, ends in said, "as guaranteed" in said) == (True, True, False)
    assert said.count("type a number") == (2 if says == CHOOSE else 0)


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
    assert why in refusal(partial(main, option_named("E").path), argv)
