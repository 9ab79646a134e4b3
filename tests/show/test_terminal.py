"""Tests of commands' output: progress, no colours, and help."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mrtr_options.__main__ import main
from mrtr_options.review.bench.history import UNREADABLE, readable_state
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.show.progress import progress, stepping
from mrtr_options.terminal import PIPED_COLUMNS, console, in_colour
from mrtr_options.tool.catalogue import all_options
from tests.commands import printed
from tests.evidence import every


def test_a_subject_is_typed_as_well_as_a_keyboard_can() -> None:
    for typed in ("F1k", "f^1k", "F¹ᵏ", "F+guard+key", "F+single-use+call-key"):
        assert subject_named(typed).name == "F+guard+call-key"


@pytest.mark.parametrize("body", ["A", "bnVsbA", "W10", "e30", "_w", "W1tb" * 9000])
def test_a_state_that_a_client_made_up_cannot_be_read(body: str) -> None:
    assert readable_state(f"s1.{body}.mac") == UNREADABLE


def timer(seconds: float, function: Callable[[str], None], arguments: list[str]) -> Any:
    """Make a timer that ends when it starts."""
    return SimpleNamespace(start=partial(function, *arguments), cancel=bool)


def test_in_a_pipe_a_step_that_takes_long_is_named_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mrtr_options.review.show.progress.Timer", timer)
    with progress(quiet=False) as bar:
        begin = stepping(bar, bar.add_task("schedules", total=2))
        begin("E: clean-tokyo")
        begin("K: clean-tokyo")
    begin("too late")
    assert capsys.readouterr().err == (
        "schedules, 1 of 2: E: clean-tokyo\nschedules, 2 of 2: K: clean-tokyo\n"
    )


def test_a_command_whose_output_is_closed_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["diff", "B", "J"]) == 0
    sys.stdout.close()


def test_no_color_and_a_pipe_are_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert in_colour(Console(force_terminal=True, color_system="standard"))
    assert not in_colour(Console(force_terminal=False))
    assert not in_colour(Console(force_terminal=True, color_system="standard", no_color=True))


PRINTING: dict[str, list[str]] = {
    "tour": [],
    "check": ["option_z_other.py", "--only", "lost-final,clean-tokyo", "--faults", "1", "--all"],
    "diff": ["F", "F+guard", "--all"],
    "explore": ["E", "F+guard"],
    "matrix": ["--options", "EF", "--only", "lost-final,fork"],
    "new": ["book_table.py"],
    "play": ["E", "F+guard", "--faults", "lost3 crash@audit2"],
    "schedules": ["--run", "F"],
}
"""Every command, with arguments that make it print as much as it can."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    every(
        "widths of commands", {each: each for each in PRINTING}, ("diff", "matrix", "new", "play")
    ),
)
def test_no_command_prints_a_line_wider_than_the_columns_or_with_blanks_at_its_end(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = all_options()["F"].source.replace("await desk.bill", "await desk.audit")
    Path("option_z_other.py").write_text(source, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "60")
    argv = [command, *PRINTING[command]] if command != "tour" else []
    lines = printed(main, *argv).splitlines()
    assert lines
    assert [line for line in lines if len(line) > 60 or line.endswith(" ")] == []


@pytest.mark.parametrize("columns", ["0", "-3", "wide"])
def test_columns_that_are_no_width_count_as_none(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == PIPED_COLUMNS
