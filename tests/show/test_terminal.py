"""Tests of commands' output: progress, no colours, and help."""

import json
import pkgutil
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from mrtr_options.__main__ import main
from mrtr_options.demo import tour
from mrtr_options.review import cli
from mrtr_options.review.bench.history import UNREADABLE, readable_state
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.show.progress import AtWork, progress, stepping
from mrtr_options.terminal import PIPED_COLUMNS, in_colour, interpreter
from mrtr_options.tool.catalogue import all_options
from tests.commands import printed


def test_a_step_is_named_once_it_takes_more_than_two_seconds() -> None:
    now = 0.0
    bar = progress(quiet=True, clock=lambda: now)
    column = AtWork()
    begin = stepping(bar, bar.add_task("schedules", total=2))
    begin("E: clean-tokyo")
    now = 1.9
    assert column.render(bar.tasks[0]).plain == ""
    now = 2.1
    assert column.render(bar.tasks[0]).plain == "E: clean-tokyo"
    begin("K: clean-tokyo")
    assert column.render(bar.tasks[0]).plain == ""
    now = 4.2
    assert column.render(bar.tasks[0]).plain == "K: clean-tokyo"
    assert bar.tasks[0].completed == 2


class AtOnce:
    """A timer that ends when it starts."""

    def __init__(
        self, seconds: float, function: Callable[[str], None], arguments: list[str]
    ) -> None:
        self.start = partial(function, *arguments)
        self.cancel = bool


def test_in_a_pipe_a_step_that_takes_long_is_named_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mrtr_options.review.show.progress.Timer", AtOnce)
    with progress(quiet=False) as bar:
        begin = stepping(bar, bar.add_task("schedules", total=2))
        begin("E: clean-tokyo")
        begin("K: clean-tokyo")
    begin("too late")
    assert capsys.readouterr().err == (
        "schedules, 1 of 2: E: clean-tokyo\nschedules, 2 of 2: K: clean-tokyo\n"
    )


def test_no_color_and_a_pipe_are_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert in_colour(Console(force_terminal=True, color_system="standard"))
    assert not in_colour(Console(force_terminal=False))
    assert not in_colour(Console(force_terminal=True, color_system="standard", no_color=True))


PRINTING = {
    "tour": [],
    "check": ["option_z_other.py", "--only", "lost-final,clean-tokyo", "--faults", "1"],
    "diff": ["F", "F+guard", "--all"],
    "explore": ["E", "F+guard"],
    "matrix": ["--options", "EF", "--only", "lost-final,fork"],
    "new": ["book_table.py"],
    "play": ["E", "F+guard", "--faults", "lost3 crash@audit2"],
    "schedules": ["--run", "F"],
}
"""Every command, with arguments that make it print as much as it can."""

NOT_PRINTING = {"serve"}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize("command", PRINTING)
def test_no_command_prints_a_line_wider_than_the_columns_or_with_blanks_at_its_end(
    command: str, columns: int, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = all_options()["F"].source.replace("await desk.bill", "await desk.audit")
    (elsewhere / "option_z_other.py").write_text(source, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", str(columns))
    argv = [command, *PRINTING[command]] if command != "tour" else []
    lines = printed(main, *argv).splitlines()
    assert lines
    assert [line for line in lines if len(line) > columns or line.endswith(" ")] == []


def test_the_help_of_every_command_is_at_most_100_columns_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = {each.name for each in pkgutil.iter_modules(cli.__path__) if each.name[0] != "_"}
    assert names == {*PRINTING} - {"tour"} | NOT_PRINTING
    for name in names:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > 100 or line.endswith(" ")] == []


def test_a_subject_is_typed_as_well_as_a_keyboard_can() -> None:
    for typed in ("F1k", "f^1k", "F¹ᵏ", "F+guard+key", "F+single-use+call-key"):
        assert subject_named(typed).name == "F+guard+call-key"


def test_a_strangers_file_is_shown_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    assert subject_named(f"{tmp_path / 'mine.py'}+guard").title == "mine, guarded"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_interpreter_of_this_folder_is_typed_by_its_path_and_another_by_its_name(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(elsewhere / ".venv/bin/python"))
    assert interpreter() == ".venv/bin/python"
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert interpreter() == "python"


def test_what_to_read_next_can_be_run(elsewhere: Path) -> None:
    root = Path(tour.__file__).parent.parent
    for what in tour.NEXT:
        command, *options = what.split()
        if options:
            assert main([command, *options]) == 0
        else:
            assert root.joinpath(*command.split(".")).with_suffix(".py").is_file()


@pytest.mark.parametrize("body", ["A", "bnVsbA", "W10", "e30", "_w", "W1tb" * 9000])
def test_a_state_that_a_client_made_up_cannot_be_read(body: str) -> None:
    assert readable_state(f"s1.{body}.mac") == UNREADABLE


def test_a_strangers_state_of_json_and_a_signature_is_signed_and_not_sealed() -> None:
    said = b'{"place": "Tokyo"}'
    assert (
        readable_state(urlsafe_b64encode(said + bytes(range(200, 232))).decode()) == said.decode()
    )
    assert readable_state(urlsafe_b64encode(bytes(range(200, 232))).decode()) is None


def test_what_a_state_reads_is_cut_to_the_columns_but_in_json() -> None:
    said = printed(main, "play", "F+guard", "--faults", "lost1", "--client", "resends")
    lines = [line for line in said.splitlines() if "signed, reads" in line]
    assert lines
    assert all(
        PIPED_COLUMNS - 4 < len(line) <= PIPED_COLUMNS and line.endswith("…") for line in lines
    )
    (call,) = json.loads(
        printed(main, "play", "F+guard", "--faults", "lost1", "--client", "resends", "--json")
    )
    read = [event["readable"] for event in call["events"] if event.get("readable")]
    assert "state" in json.loads(read[-1])
