"""The diff between two option files, which is the argument.

By default only author code is compared (see `author_code`). Reads the files as text and runs none of
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich import box
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mrtr_options.show.terminal import console, paged, plural
from mrtr_options.tool.author_code import (
    BASELINE,
    Hunk,
    Line,
    all_lines,
    author_code,
    changed_lines,
    compare,
    stat,
    unified,
)
from mrtr_options.tool.catalogue import CannotLoad, Option

WIDE = 140
"""From how many columns on two files are shown side by side."""


def print_diff(
    left: Option, right: Option, *, everything: bool, is_unified: bool, as_json: bool
) -> None:
    """What differs between two option files: side by side where there is room, or as a unified diff.

    Args:
        left: One option.
        right: The other.
        everything: The whole files, docstrings and imports too.
        is_unified: A unified diff in any case.
        as_json: One JSON object with the changed hunks instead.

    Raises:
        CannotLoad: A file is not Python.
    """
    lines_of = all_lines if everything else author_code
    here, there = (_read(option, lines_of) for option in (left, right))
    hunks = compare(here, there)
    if as_json:
        found = {
            "left": {"option": left.letter, "file": left.path.name},
            "right": {"option": right.letter, "file": right.path.name},
            "changed_lines": changed_lines(hunks),
            "hunks": [asdict(hunk) for hunk in hunks if hunk.changed],
        }
        print(json.dumps(found, indent=2))
        return
    out = console()
    of = "" if everything else " of author code; --all shows the whole files"
    if not changed_lines(hunks):
        out.print(Text(f"{left.path.name} and {right.path.name}: no difference{of}"), soft_wrap=True)
        return
    with paged(out):
        if is_unified or out.width < WIDE:
            for line in unified(here, there, (left.path.name, right.path.name)):
                out.print(Text(line, _STYLES.get(line[0], "")), soft_wrap=True)
        else:
            out.print(_side_by_side(left, right, hunks))
        out.print(Text(plural(changed_lines(hunks), "changed line") + of), soft_wrap=True)


_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def _side_by_side(left: Option, right: Option, hunks: Sequence[Hunk]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), expand=True)
    for option in (left, right):
        table.add_column("", width=3, justify="right", style="dim")
        table.add_column("", width=1)
        table.add_column(option.path.name, ratio=1, overflow="fold")
    highlighted = [_highlighted(option.source) for option in (left, right)]
    for hunk in hunks:
        for index in range(max(len(hunk.left), len(hunk.right))):
            row = [
                *_cells(hunk.left, index, highlighted[0], "-" if hunk.changed else "", "on dark_red"),
                *_cells(hunk.right, index, highlighted[1], "+" if hunk.changed else "", "on dark_green"),
            ]
            table.add_row(*row)
    return table


def _read(option: Option, lines_of: Callable[[str], list[Line]]) -> list[Line]:
    try:
        return lines_of(option.source)
    except (SyntaxError, ValueError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CannotLoad(f"{option.path} cannot be read as Python: {reason}") from error


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


def print_stat(*, as_json: bool) -> None:
    """The counts of `author_code.stat`, as a table or as JSON."""
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
