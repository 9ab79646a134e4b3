"""Diffs between option files: what counts as author code, and that every option is short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrtr_options.__main__ import main
from mrtr_options.cost import report
from mrtr_options.cost.size import sizes
from mrtr_options.show.pictures import tables
from mrtr_options.tool import catalogue
from mrtr_options.tool.author_code import (
    MAX_AUTHOR_LINES,
    author_code,
    changed_lines,
    code_lines,
    compare,
    stat,
)
from mrtr_options.tool.catalogue import all_options, option_named, whole_deck

SOURCE = '''"""The module's
docstring."""

import os  # trailing

# a comment alone


class Holder:
    """Of one thing."""

    name = "# no comment"
    """What it is called."""


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


def test_author_code_is_what_is_left_without_docstrings_comments_imports_and_the_server() -> None:
    assert [(line.line, line.text) for line in author_code(SOURCE)] == [
        (9, "class Holder:"),
        (12, '    name = "# no comment"'),
        (16, 'def f(text: str = "x") -> str:'),
        (18, '    poem = """two'),
        (20, '    lines # kept"""'),
        (21, "    return ("),
        (23, "        poem"),
        (24, "    )"),
    ]


def test_code_lines_have_no_docstrings_comments_or_blank_lines() -> None:
    lines = [line.text for line in code_lines(SOURCE)]
    assert (lines[0], lines[-1], len(lines)) == ("import os", '    print("it runs")', 14)


def test_a_line_that_is_only_indented_otherwise_is_the_same() -> None:
    left, right = author_code("if x:\n    f()\n"), author_code("if x:\n    if y:\n        f()\n")
    assert changed_lines(compare(left, right)) == 1


def test_a_file_does_not_differ_from_itself() -> None:
    lines = author_code(SOURCE)
    assert changed_lines(compare(lines, lines)) == 0


@pytest.mark.parametrize("letter", list(whole_deck()))
def test_an_option_is_read_in_one_look(letter: str) -> None:
    lines = author_code(option_named(letter).source)
    assert 10 < len(lines) <= MAX_AUTHOR_LINES


def test_stat_counts_every_option_against_e(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--stat", "--json"]) == 0
    rows = {row["option"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(whole_deck())
    changed = {letter: row["changed_lines"] for letter, row in rows.items()}
    # A is E's code to the letter; F writes `once` twice and another base of the state.
    assert (changed["A"], changed["E"], changed["F"]) == (0, 0, 6)
    assert rows["A"]["author_lines"] == rows["E"]["author_lines"]
    assert list(rows.values()) == stat()
    assert main(["diff", "--stat"]) == 0
    assert "continuation store" in capsys.readouterr().out


def test_every_count_of_author_code_is_the_same_one() -> None:
    counted = {row["option"]: (row["author_lines"], row["changed_lines"]) for row in stat()}
    for found in (sizes(list(whole_deck().values())), report.read().rows["sizes"]):
        assert {row.subject: (row["author_lines"], row["changed_lines"]) for row in found} == counted
    assert "| F once | 21 | 6 |" in tables.sizes()


def test_what_needs_an_extra_is_text_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def installed(extra: str) -> bool:
        return False

    monkeypatch.setattr(catalogue, "installed", installed)
    assert not {"K", "L"} & set(all_options())
    assert main(["diff", "E", "L", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed_lines"] == 23
    assert {"K", "L"} <= {row["option"] for row in stat()}


@pytest.mark.parametrize("name", ["f", "once", "option_f_once", "option_f_once.py", "a file"])
def test_diff_takes_letters_names_and_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(option_named("F").path) if name == "a file" else name
    assert main(["diff", "E", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["right"]["option"] == "F"


def test_diff_takes_a_strangers_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def tool():\n    return 1\n", encoding="utf-8")
    assert main(["diff", str(file), str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == {"option": "?", "file": "mine.py"}


def test_hunks_name_the_lines_of_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "e", "f", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sides: tuple[dict[str, str], ...] = (found["left"], found["right"])
    assert [side["option"] for side in sides] == ["E", "F"]
    added: list[str] = []
    for hunk in found["hunks"]:
        assert hunk["left"] or hunk["right"]
        for side, lines in zip(sides, (hunk["left"], hunk["right"]), strict=True):
            file = option_named(side["option"]).path.with_name(side["file"])
            text: list[str] = file.read_text(encoding="utf-8").splitlines()
            for line in lines:
                assert text[int(line["line"]) - 1].startswith(line["text"])
        added += [line["text"].strip() for line in hunk["right"]]
    assert 'await state.once("bill", lambda: desk.bill(place))' in added
    assert found["changed_lines"] == sum(
        len(hunk["left"]) + len(hunk["right"]) for hunk in found["hunks"]
    )


def test_the_diff_marks_changed_lines_and_leaves_docstrings_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff", "B", "H"]) == 0
    said = capsys.readouterr().out
    assert "option_b_exception_shim.py" in said
    assert "option_h_continuation_store.py" in said
    assert "Option B," not in said
    marked = [line for line in said.splitlines() if " + " in line]
    assert any("store = ContinuationStore()" in line for line in marked)
    assert not any("units = await" in line for line in marked)
    assert max(len(line) for line in said.splitlines()) <= 100


def test_all_shows_docstrings_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "B", "H", "--all"]) == 0
    assert "Option B," in capsys.readouterr().out


def test_a_diff_runs_neither_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mrtr_options.demo.diff import print_diff
    from mrtr_options.tool.catalogue import option_at

    left, right = tmp_path / "left.py", tmp_path / "right.py"
    left.write_text("raise SystemExit(3)\n", encoding="utf-8")
    right.write_text("raise SystemExit(4)\n", encoding="utf-8")
    print_diff(option_at(left), option_at(right), everything=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["changed_lines"] == 2
