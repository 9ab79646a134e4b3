"""Tests of diffs between option files: the rules for author code, and the options' lengths."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from documents.tables import diff_of_e_and_f
from mrtr_options import terminal
from mrtr_options.__main__ import main
from mrtr_options.demo import diff
from mrtr_options.tool.author_code import author_code
from mrtr_options.tool.catalogue import load, option_named, whole_deck
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.sizes import stand_ins
from mrtr_options.tool.weather import MemoryLedger
from tests.commands import printed

SOURCE = '''"""The module's
docstring."""

import os  # trailing

# a comment alone
\f

class Holder:
    """Of one thing."""

    name = "# no comment"
    """What it is called."""
    line = "a\u2028b"

def f(text: str = "x") -> str:
    """One line."""
    poem = """two

    lines # kept"""
    return (
        # inside
        poem
    )


server = build_server(
    "weather", f
)

if __name__ == "__main__":
    print("it runs")
'''


def diffed(*argv: str) -> Any:
    """Run the command and return its JSON output."""
    return json.loads(printed(main, "diff", *argv, "--json"))


def shown(*argv: str) -> list[str]:
    """Run the command and return the lines that it prints."""
    return printed(main, "diff", *argv).splitlines()


def test_author_code_is_what_is_left_without_docstrings_comments_and_imports() -> None:
    assert [(line.line, line.text) for line in author_code(SOURCE)] == [
        (9, "class Holder:"),
        (12, '    name = "# no comment"'),
        (14, '    line = "a\u2028b"'),
        (16, 'def f(text: str = "x") -> str:'),
        (18, '    poem = """two'),
        (20, '    lines # kept"""'),
        (21, "    return ("),
        (23, "        poem"),
        (24, "    )"),
        (27, "server = build_server("),
        (28, '    "weather", f'),
        (29, ")"),
    ]


@pytest.mark.parametrize("letter", list(whole_deck()))
def test_an_option_is_read_in_one_look(letter: str) -> None:
    lines = author_code(option_named(letter).source)
    assert 10 < len(lines) <= 50


@pytest.mark.parametrize(
    "uses",
    [
        "from mrtr_options.sdk.single_use import single_use",
        "from mrtr_options.sdk import single_use",
        "from mrtr_options import sdk\nguard = sdk.single_use(store)",
    ],
)
def test_the_lines_of_the_sdk_are_counted_however_a_file_names_it(uses: str) -> None:
    assert stand_ins(uses) == stand_ins("from mrtr_options.sdk.single_use import SqliteStore")
    assert stand_ins(uses)
    mine = diff.Written("mine", "mine.py", uses)
    shown, _ = diff.stand_ins(mine, diff.written("E"))
    assert "class SqliteStore" in shown.source


def test_diff_runs_no_file_of_a_stranger(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("left.py", "right.py")]
    for code, file in enumerate(files):
        file.write_text(f"raise SystemExit({code})\n", encoding="utf-8")
    found = diffed(*map(str, files))
    assert found["left"] == {"option": "left.py", "file": "left.py"}
    assert found["changed_lines"] == 2


def test_hunks_name_the_lines_of_the_files() -> None:
    found = diffed("e", "f")
    for side, letter in (("left", "E"), ("right", "F")):
        assert found[side]["option"] == letter
        source: list[str] = option_named(letter).source.splitlines()
        for hunk in found["hunks"]:
            for line in hunk[side]:
                assert source[int(line["line"]) - 1].startswith(line["text"])


@pytest.mark.parametrize(("columns", "options"), [(139, []), (140, ["--unified"])])
def test_the_diff_is_the_one_of_the_documents(
    columns: int, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PIPED_COLUMNS", columns)
    *said, _ = shown("E", "F", *options)
    assert diff_of_e_and_f() == "\n".join(["```diff", *said, "```"])


def test_a_diff_with_an_option_in_wrappers_shows_what_an_author_adds_and_it_runs(
    tmp_path: Path,
) -> None:
    said = shown("F", "F+guard")
    assert '+wrappers = [single_use(SqliteStore("rounds.sqlite"))]' in said
    assert '     server = build_server("weather-f", call_weather)' in said  # only indented
    assert said[-1].startswith("2 changed lines of author code")
    of_one_import = tmp_path / "one.py"
    of_one_import.write_text(
        "from mrtr_options.tool.server import build_server, text\n"
        "async def tell(ctx, params): return text('sunny')\n"
        "server = build_server('weather-one', tell)\n",
        encoding="utf-8",
    )
    file = tmp_path / "guarded.py"
    for name in ("F", str(of_one_import)):
        file.write_text(diff.written(f"{name}+legacy-shim").source, encoding="utf-8")
        load(file, Settings(MemoryLedger()))


def test_two_files_stand_side_by_side_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PIPED_COLUMNS", 140)
    lines = shown("B", "H")
    assert any("option_b_exception_shim.py" in line and "option_h_" in line for line in lines)
    marked = [line for line in lines if " + " in line]
    assert any("store = ContinuationStore()" in line for line in marked)
    assert not any("desk.bill" in line for line in marked)
    assert max(map(len, lines)) <= 140


def test_a_diff_on_a_terminal_goes_through_a_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setenv("LESS", "")  # so that monkeypatch restores it after the command has set it
    monkeypatch.delenv("LESS")
    monkeypatch.setattr("pydoc.pager", shown.append)
    out = Console(force_terminal=True, width=100, file=io.StringIO())
    monkeypatch.setattr("mrtr_options.demo.diff.console", lambda: out)
    assert main(["diff", "E", "F"]) == 0
    (text,) = shown
    assert "+++ option_f_once.py" in text
    assert os.environ["LESS"] == "FRX"
