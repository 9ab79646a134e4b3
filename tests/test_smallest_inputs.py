"""The smallest inputs that once did harm: on this package each promise is kept."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests import smallest_inputs
from tests.smallest.shared import INPUTS, NOT_THERE, Input, Seen
from tests.smallest_inputs import Line, line_of, main, play


def parameter_of(each: Input) -> Any:
    """Return an input as a parameter; slow where it waits for a database or a crowd."""
    is_slow = each.needs_postgres or each.is_slow
    marks = [pytest.mark.slow] if is_slow else []
    return pytest.param(each, id=f"{each.point}-{each.name}", marks=marks)


@pytest.mark.parametrize("each", [parameter_of(each) for each in INPUTS])
def test_a_smallest_input_does_no_harm(each: Input) -> None:
    seen = play(each)
    assert seen.is_kept, seen.happened


def test_each_point_has_a_smallest_input_and_each_a_claim_of_its_own() -> None:
    assert {each.point for each in INPUTS} == set(range(1, 22))
    assert len({each.name for each in INPUTS}) == len(INPUTS)
    assert all(each.play.__doc__ for each in INPUTS)


def lines_with(verdict: str) -> Callable[[Input], Line]:
    """Return what makes a line with this verdict of each input."""

    def line_with(each: Input) -> Line:
        return Line(each.point, each.name, each.tried, "word " * 40, verdict)

    return line_with


@pytest.mark.parametrize(("verdict", "code"), [("kept", 0), ("not there", 0), ("broken", 1)])
def test_the_exit_code_says_whether_one_is_broken(
    verdict: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(smallest_inputs, "line_of", lines_with(verdict))
    assert main(["1", "20"]) == code
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= smallest_inputs.WIDTH
    played = [each for each in INPUTS if each.point in (1, 20)]
    assert len([line for line in printed if verdict in line]) == len(played)
    assert main(["1", "--json"]) == code
    assert {each["verdict"] for each in json.loads(capsys.readouterr().out)} == {verdict}


def test_a_point_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["99"])
    assert ended.value.code == 2
    assert "no such point" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("outcome", "happened", "verdict"),
    [
        (Seen("as promised", is_kept=True), "as promised", "kept"),
        (NOT_THERE, "not there", "not there"),
        (Seen("twice", is_kept=False), "twice", "broken"),
        (1, "cannot be played: it says why", "broken"),
        (subprocess.TimeoutExpired("python", 60), "did not end in 60 s", "broken"),
    ],
)
def test_what_a_process_says_is_a_line(
    outcome: Any, happened: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **options: Any) -> Any:
        assert options["timeout"] == smallest_inputs.SECONDS
        if isinstance(outcome, Exception):
            raise outcome
        is_seen = isinstance(outcome, Seen)
        said = json.dumps(vars(outcome)) if is_seen else ""
        code = 0 if is_seen else outcome
        return subprocess.CompletedProcess(command, code, f"noise\n{said}\n", "why\nit says why\n")

    monkeypatch.setattr(subprocess, "run", run)
    found = line_of(INPUTS[0])
    assert found.happened == happened
    assert found.verdict == verdict


@pytest.mark.slow
def test_an_input_is_played_in_a_process_of_its_own() -> None:
    (first, *_) = INPUTS
    assert line_of(first).verdict == "kept"
