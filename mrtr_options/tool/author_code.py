"""Author code: the lines of an option file that a tool author writes because of the option.

The line that builds the server belongs to it: a wrapper or a store stands there.

Reads files as text and runs none of them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

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
    """Neighbouring lines of two files: the same in both, or changed from left to right."""

    changed: bool
    left: list[Line]
    right: list[Line]


def split_lines(source: str) -> list[str]:
    """Return the lines of a Python file as Python counts them: a form feed ends none."""
    return [line.rstrip("\n") for line in io.StringIO(source)]


def all_lines(source: str) -> list[Line]:
    """Return every line of a Python file."""
    return [Line(number, text) for number, text in enumerate(split_lines(source), start=1)]


def code_lines(source: str) -> list[Line]:
    """Return the lines that hold code: no docstrings, comments or blank lines."""
    docstrings = _lines_of(
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    lines = split_lines(source)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        first, column = token.start
        last, _ = token.end
        if token.type == tokenize.COMMENT:
            lines[first - 1] = lines[first - 1][:column]
        elif token.type not in _NO_CODE and not (
            token.type == tokenize.STRING and first in docstrings
        ):
            code.update(range(first, last + 1))
    kept = (Line(number, lines[number - 1].rstrip()) for number in sorted(code))
    return [line for line in kept if line.text]


def author_code(source: str) -> list[Line]:
    """Return the author code of an option file.

    That is its code without the imports and the `if` at the end that runs the file.
    """
    frame = _lines_of(node for node in ast.parse(source).body if _is_frame(node))
    return [line for line in code_lines(source) if line.line not in frame]


def _is_frame(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Compare(left=ast.Name("__name__"))):
            return True
        case _:
            return False


def _lines_of(nodes: Iterable[ast.stmt]) -> set[int]:
    return {
        number
        for node in nodes
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def compare(left: Sequence[Line], right: Sequence[Line]) -> list[Hunk]:
    """Compare two files, and return them from top to bottom in hunks.

    A line that is only indented otherwise is the same, and so is one with another server's name.
    """
    return [
        Hunk(tag != "equal", list(left[i1:i2]), list(right[j1:j2]))
        for tag, i1, i2, j1, j2 in _matcher(left, right).get_opcodes()
    ]


_SERVER_NAME = re.compile(r'"weather-\w+"')


def _compared(line: Line) -> str:
    """Return a line as it is compared: without indentation, and with one name for all servers."""
    return _SERVER_NAME.sub('"weather"', line.text.strip())


def _matcher(left: Sequence[Line], right: Sequence[Line]) -> SequenceMatcher[str]:
    return SequenceMatcher(
        None, [_compared(line) for line in left], [_compared(line) for line in right]
    )


CONTEXT_LINES = 2


def unified(left: Sequence[Line], right: Sequence[Line], names: tuple[str, str]) -> list[str]:
    """Return two files as the lines of a unified diff.

    Args:
        left: Lines of the one file.
        right: Lines of the other. Lines that are the same are shown as they are here.
        names: The files' names.
    """
    lines: list[str] = []
    for group in _matcher(left, right).get_grouped_opcodes(CONTEXT_LINES):
        _, i1, _, j1, _ = group[0]
        _, _, i2, _, j2 = group[-1]
        lines.append(f"@@ -{i1 + 1},{i2 - i1} +{j1 + 1},{j2 - j1} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line.text}" for line in right[j1:j2]]
            else:
                lines += [f"-{line.text}" for line in left[i1:i2]]
                lines += [f"+{line.text}" for line in right[j1:j2]]
    return [f"--- {names[0]}", f"+++ {names[1]}", *lines] if lines else []


def changed_lines(hunks: Iterable[Hunk]) -> int:
    """Count the lines removed and added, as a unified diff counts them."""
    return sum(len(hunk.left) + len(hunk.right) for hunk in hunks if hunk.changed)
