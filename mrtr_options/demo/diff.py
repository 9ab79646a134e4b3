"""Option files side by side: the diff between two of them is the argument.

By default only the author's code is compared: the lines that are left when docstrings, comments and
blank lines are gone. Reads the files as text and runs none of them.
"""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from rich import box
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mrtr_options.show.terminal import console, plural
from mrtr_options.tool.catalogue import Option, all_options

MAX_AUTHOR_LINES = 60
"""An option is read in one look: it may not have more lines of author code than this."""

BASELINE = "E"
"""The option that the others are counted against: what an author writes without help."""

_NO_CODE = {
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class Line:
    """One line of a file; `line` counts from 1."""

    line: int
    text: str


@dataclass(frozen=True)
class Hunk:
    """Neighbouring lines of two files: the same in both (`changed` is false), or one for the other."""

    changed: bool
    left: list[Line]
    right: list[Line]


def all_lines(source: str) -> list[Line]:
    """Every line of a Python file."""
    return [Line(number, text) for number, text in enumerate(source.splitlines(), start=1)]


def author_lines(source: str) -> list[Line]:
    """The lines of a Python file that hold code, without the comments at their ends."""
    docstrings = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = source.splitlines()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            lines[first - 1] = lines[first - 1][:column]
        elif token.type not in _NO_CODE and not (token.type == tokenize.STRING and first in docstrings):
            code.update(range(first, last + 1))
    kept = (Line(number, lines[number - 1].rstrip()) for number in sorted(code))
    return [line for line in kept if line.text]


def compare(left: Sequence[Line], right: Sequence[Line]) -> list[Hunk]:
    """Both files from top to bottom in hunks."""
    matcher = SequenceMatcher(None, [line.text for line in left], [line.text for line in right])
    return [
        Hunk(tag != "equal", list(left[i1:i2]), list(right[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
    ]


def changed_lines(hunks: Sequence[Hunk]) -> int:
    """Lines removed plus lines added, as a unified diff counts them."""
    return sum(len(hunk.left) + len(hunk.right) for hunk in hunks if hunk.changed)


def print_diff(left: Option, right: Option, *, everything: bool, as_json: bool) -> None:
    """Two option files side by side.

    Args:
        left: One option.
        right: The other.
        everything: Docstrings, comments and blank lines too.
        as_json: One JSON object with the changed hunks instead.
    """
    lines_of = all_lines if everything else author_lines
    sources = [option.path.read_text(encoding="utf-8") for option in (left, right)]
    hunks = compare(*(lines_of(source) for source in sources))
    if as_json:
        found = {
            "left": {"option": left.letter, "file": left.path.name},
            "right": {"option": right.letter, "file": right.path.name},
            "changed_lines": changed_lines(hunks),
            "hunks": [asdict(hunk) for hunk in hunks if hunk.changed],
        }
        print(json.dumps(found, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), expand=True)
    for option in (left, right):
        table.add_column("", width=3, justify="right", style="dim")
        table.add_column("", width=1)
        table.add_column(option.path.name, ratio=1, overflow="fold")
    highlighted = [_highlighted(source) for source in sources]
    for hunk in hunks:
        for index in range(max(len(hunk.left), len(hunk.right))):
            row = [
                *_cells(hunk.left, index, highlighted[0], "-" if hunk.changed else "", "on dark_red"),
                *_cells(hunk.right, index, highlighted[1], "+" if hunk.changed else "", "on dark_green"),
            ]
            table.add_row(*row)
    out = console()
    out.print(table)
    out.print(Text(plural(changed_lines(hunks), "changed line")))


def _highlighted(source: str) -> list[Text]:
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    # As a whole: a line inside a string cannot be told from code by itself.
    return list(syntax.highlight(source).split("\n", allow_blank=True))


def _cells(
    lines: Sequence[Line], index: int, highlighted: Sequence[Text], mark: str, style: str
) -> tuple[Text, Text, Text]:
    if index >= len(lines):
        return Text(), Text(), Text()
    line = lines[index]
    text = highlighted[line.line - 1].copy()
    text.truncate(len(line.text))  # the comment at the end is not author code
    if mark:
        text.stylize(style)
    return Text(str(line.line)), Text(mark, "bold"), text


def stat() -> list[dict[str, Any]]:
    """For each option: its letter, name, lines of author code, and lines changed against E."""
    options = all_options()
    lines = {
        letter: author_lines(option.path.read_text(encoding="utf-8"))
        for letter, option in options.items()
    }
    return [
        {
            "option": letter,
            "name": option.name,
            "author_lines": len(lines[letter]),
            "changed_lines": changed_lines(compare(lines[BASELINE], lines[letter])),
        }
        for letter, option in options.items()
    ]


def print_stat(*, as_json: bool) -> None:
    """What `stat` finds, as a table or as JSON."""
    rows = stat()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("option")
    table.add_column("author lines", justify="right")
    table.add_column(f"changed against {BASELINE}", justify="right")
    for row in rows:
        table.add_row(
            f"{row['option']} {row['name']}", str(row["author_lines"]), str(row["changed_lines"])
        )
    console().print(table)
