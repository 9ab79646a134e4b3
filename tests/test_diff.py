"""Diffs between option files: what counts as author code, and that every option is short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrtr_options.__main__ import main
from mrtr_options.demo.diff import MAX_AUTHOR_LINES, author_lines, changed_lines, compare, stat
from mrtr_options.tool.catalogue import all_options, option_named

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
'''


def test_author_code_has_no_docstrings_comments_or_blank_lines() -> None:
    assert [(line.line, line.text) for line in author_lines(SOURCE)] == [
        (4, "import os"),
        (9, "class Holder:"),
        (12, '    name = "# no comment"'),
        (16, 'def f(text: str = "x") -> str:'),
        (18, '    poem = """two'),
        (20, '    lines # kept"""'),
        (21, "    return ("),
        (23, "        poem"),
        (24, "    )"),
    ]


def test_a_file_does_not_differ_from_itself() -> None:
    lines = author_lines(SOURCE)
    assert changed_lines(compare(lines, lines)) == 0


@pytest.mark.parametrize("letter", list(all_options()))
def test_an_option_is_read_in_one_look(letter: str) -> None:
    lines = author_lines(option_named(letter).path.read_text(encoding="utf-8"))
    assert 10 < len(lines) <= MAX_AUTHOR_LINES


def test_stat_counts_every_option_against_e(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "--stat", "--json"]) == 0
    rows = {row["option"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(all_options())
    assert rows["E"]["changed_lines"] == 0
    # A is E, wrapped: an import more, and the server's line.
    assert rows["A"]["changed_lines"] == 3
    assert rows["A"]["author_lines"] == rows["E"]["author_lines"] + 1
    assert list(rows.values()) == stat()
    assert main(["diff", "--stat"]) == 0
    assert "continuation store" in capsys.readouterr().out


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
