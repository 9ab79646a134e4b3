"""The diff between two option files, which is the argument.

By default only author code is compared (see `author_code`). An option in wrappers is the file as
its author would write it, with the wrappers around the server. Reads files as text and runs none of
them.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mrtr_options.terminal import console, paged, plural
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
from mrtr_options.tool.catalogue import TAKES_NO_WRAPPERS, CannotLoad, Option, option_named

WIDE = 140
"""From how many columns on two files are shown side by side."""


@dataclass(frozen=True)
class Written:
    """What an author writes.

    Attributes:
        name: As in "F", "F+single-use"; "?" for a stranger's file.
        file: What the file is called.
        source: Its text.
    """

    name: str
    file: str
    source: str


AROUND = {
    "single-use": (
        'single_use(SqliteStore("rounds.sqlite"))',
        "single_use import SqliteStore, single_use",
    ),
    "legacy-shim": ("legacy_shim", "legacy_shim import legacy_shim"),
    "ask-again": ("ask_again", "ask_again import ask_again"),
}
"""For each wrapper what makes it, and what is imported for it from `sdk`."""


def written(name: str) -> Written:
    """What the author of an option writes, alone or in wrappers ("F", "F¹", "F+legacy-shim").

    Raises:
        CannotLoad: There is no such option, or its file cannot be read.
    """
    try:
        option, wrappers = option_named(name), ()
    except CannotLoad:
        from mrtr_options.review.bench.subjects import subject_named  # takes a second

        subject = subject_named(name)
        option, wrappers = (
            subject.option,
            tuple(each for each in subject.wrappers if each in AROUND),
        )
    try:
        source = option.source
        ast.parse(source, option.path.name)
        source = in_wrappers(option, wrappers) if wrappers else source
    except (SyntaxError, ValueError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CannotLoad(f"{option.path} cannot be read as Python: {reason}") from error
    around = f" in {', '.join(wrappers)}" if wrappers else ""
    return Written("+".join((option.letter, *wrappers)), f"{option.path.name}{around}", source)


def in_wrappers(option: Option, wrappers: Sequence[str]) -> str:
    """An option's file with wrappers around the server that it builds, innermost first.

    Raises:
        CannotLoad: It does not build the shared server.
    """
    lines, body = option.source.splitlines(), ast.parse(option.source).body
    imports = [node.lineno for node in body if isinstance(node, ast.ImportFrom)]
    built = [node for node in body if isinstance(node, ast.Assign) and "server" in _names(node)]
    shared = [
        node for node in body if isinstance(node, ast.ImportFrom) and _SHARED in _imported(node)
    ]
    if len(imports) < 2 or not built or not shared:
        raise CannotLoad(TAKES_NO_WRAPPERS.format(option.path))
    first, last = built[0].lineno - 1, built[0].end_lineno
    imported = [
        "from dataclasses import replace\n",
        *(f"from mrtr_options.sdk.{AROUND[each][1]}" for each in wrappers),
        "from mrtr_options.tool.settings import configured, settings_in_force",
    ]
    around = [
        f"wrappers = [{', '.join(AROUND[each][0] for each in wrappers)}]",
        "with configured(replace(settings_in_force(), wrappers=wrappers)):",
        *(f"    {line}" for line in lines[first:last]),
    ]
    begin = imports[1] - 1  # the first is of __future__
    parts = [*lines[:begin], *imported, *lines[begin:first], *around, *lines[last:]]
    return "\n".join([*parts, ""])


_SHARED = "mrtr_options.tool.server.build_server"


def _imported(node: ast.ImportFrom) -> list[str]:
    return [f"{node.module}.{each.name}" for each in node.names]


def _names(node: ast.Assign) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)]


def print_diff(
    left: Written, right: Written, *, everything: bool, is_unified: bool, as_json: bool
) -> None:
    """What differs between two files: side by side where there is room, or as a unified diff.

    Args:
        left, right: The files.
        everything: The whole files, docstrings and imports too.
        is_unified: A unified diff in any case.
        as_json: One JSON object with the changed hunks instead.
    """
    lines_of = all_lines if everything else author_code
    here, there = lines_of(left.source), lines_of(right.source)
    hunks = compare(here, there)
    if as_json:
        found = {
            "left": {"option": left.name, "file": left.file},
            "right": {"option": right.name, "file": right.file},
            "changed_lines": changed_lines(hunks),
            "hunks": [asdict(hunk) for hunk in hunks if hunk.changed],
        }
        print(json.dumps(found, indent=2))
        return
    out = console()
    of = "" if everything else " of author code; --all shows the whole files"
    if not changed_lines(hunks):
        out.print(Text(f"{left.file} and {right.file}: no difference{of}"))
        return
    with paged(out):
        if is_unified or out.width < WIDE:
            is_patch = not out.is_terminal and "COLUMNS" not in os.environ  # whose lines stay whole
            for line in unified(here, there, (left.file, right.file)):
                out.print(Text(line, _STYLES.get(line[0], "")), soft_wrap=is_patch)
        else:
            out.print(_side_by_side(left, right, hunks))
        out.print(Text(plural(changed_lines(hunks), "changed line") + of))


_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def _side_by_side(left: Written, right: Written, hunks: Sequence[Hunk]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), expand=True)
    for each in (left, right):
        table.add_column("", width=3, justify="right", style="dim")
        table.add_column("", width=1)
        table.add_column(each.file, ratio=1, overflow="fold")
    highlighted = [_highlighted(each.source) for each in (left, right)]
    for hunk in hunks:
        for index in range(max(len(hunk.left), len(hunk.right))):
            row = [
                *_cells(
                    hunk.left, index, highlighted[0], "-" if hunk.changed else "", "on dark_red"
                ),
                *_cells(
                    hunk.right, index, highlighted[1], "+" if hunk.changed else "", "on dark_green"
                ),
            ]
            table.add_row(*row)
    return table


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
