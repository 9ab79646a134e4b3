"""The diff between two option files, which is the argument.

By default only author code is compared (see `author_code`). Where the handlers are the same, the
stand-ins behind them are shown below. An option in wrappers is the file as
its author would write it, with the wrappers around the server. Reads files as text and runs none of
them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mrtr_options.sdk.handler import JsonObject
from mrtr_options.terminal import console, paged, plural
from mrtr_options.tool.author_code import (
    Hunk,
    Line,
    all_lines,
    author_code,
    changed_lines,
    code_lines,
    compare,
    unified,
)
from mrtr_options.tool.catalogue import DECK, Option
from mrtr_options.tool.notation import option_and_words
from mrtr_options.tool.sizes import BASELINE, modules_of, stat
from mrtr_options.tool.wrapped import AROUND, source_of

WIDE = 140
"""From how many columns on two files are shown side by side."""


@dataclass(frozen=True)
class Written:
    """What an author writes.

    Attributes:
        name: As in "F", "F+guard", "my_option.py".
        file: What the file is called.
        source: Its text.
    """

    name: str
    file: str
    source: str


def written(name: str) -> Written:
    """Return the author code of an option, alone or in wrappers ("F", "F+guard").

    Raises:
        CannotLoad: There is no such option, or its file cannot be read.
    """
    option, words = option_and_words(name)
    wrappers = [word for word in words if word in AROUND]
    around = f" in {', '.join(wrappers)}" if wrappers else ""
    source = source_of(option, words)
    return Written("+".join((option.label, *words)), f"{option.path.name}{around}", source)


@dataclass(frozen=True)
class How:
    """The form in which a diff is printed.

    Attributes:
        everything: The whole files, docstrings and imports too.
        with_sdk: The stand-ins below, also where more than the server line differs.
        is_unified: A unified diff on wide terminals, too.
        as_json: One JSON object with the changed hunks instead.
    """

    everything: bool = False
    with_sdk: bool = False
    is_unified: bool = False
    as_json: bool = False


def print_diff(left: Written, right: Written, how: How) -> None:
    """Print the differences between two files, and between their stand-ins if those say more.

    Args:
        left: The one file.
        right: The other.
        how: How they are printed. Side by side where there is room.
    """
    lines_of = all_lines if how.everything else author_code
    here = lines_of(left.source)
    there = lines_of(right.source)
    hunks = compare(here, there)
    are_options = "+" not in left.name + right.name
    says_more = are_options and is_handler_the_same(hunks)
    below = stand_ins(left, right) if how.with_sdk or says_more else None
    if how.as_json:
        print(json.dumps(_as_json(left, right, hunks, below), indent=2))
        return
    out = console()
    with paged(out):
        of = "" if how.everything else " of author code; --all shows the whole files"
        if changed_lines(hunks):
            _print(out, left, right, (here, there), how)
            out.print(Text(plural(changed_lines(hunks), "changed line") + of))
        else:
            out.print(Text(f"{left.file} and {right.file}: no difference{of}"))
        if below is not None:
            _print_stand_ins(out, *below, how)


def is_handler_the_same(hunks: Sequence[Hunk]) -> bool:
    """Return whether two handlers differ at most in what a client gets that cannot be asked."""
    changed = [hunk for hunk in hunks if hunk.changed]
    return all(_inside(hunk.left) == _inside(hunk.right) for hunk in changed)


def _inside(lines: Sequence[Line]) -> list[str]:
    """Return the lines inside functions and classes, without what an unasked client gets."""
    return [re.sub(r', unasked="\w+"', "", line.text) for line in lines if line.text[:1].isspace()]


def _as_json(
    left: Written, right: Written, hunks: Sequence[Hunk], below: tuple[Written, Written] | None
) -> JsonObject:
    found: JsonObject = {
        "left": {"option": left.name, "file": left.file},
        "right": {"option": right.name, "file": right.file},
        "changed_lines": changed_lines(hunks),
        "hunks": _changed(hunks),
    }
    if below is not None:
        here, there = (code_lines(each.source) for each in below)
        found["sdk"] = {
            "left": below[0].file,
            "right": below[1].file,
            "hunks": _changed(compare(here, there)),
        }
    return found


def _changed(hunks: Sequence[Hunk]) -> list[JsonObject]:
    return [asdict(hunk) for hunk in hunks if hunk.changed]


def _print(
    out: Console,
    left: Written,
    right: Written,
    lines: tuple[Sequence[Line], Sequence[Line]],
    how: How,
) -> None:
    """Print two files side by side, or as a unified diff where there is no room."""
    if not how.is_unified and out.width >= WIDE:
        out.print(_side_by_side(left, right, compare(*lines)))
        return
    is_patch = not out.is_terminal and "COLUMNS" not in os.environ  # whose lines stay whole
    for line in unified(*lines, (left.file, right.file)):
        out.print(Text(line, _STYLES.get(line[0], "")), soft_wrap=is_patch)


# --- stand-ins ------------------------------------------------------------------------------------


def stand_ins(left: Written, right: Written) -> tuple[Written, Written]:
    """Return the stand-ins of two options: the modules of `sdk` that only one of them imports.

    Such a module is what an SDK would have to ship for that option. The source is empty where an
    option imports none that the other does not.
    """
    of_left = _sdk_modules(left.source)
    of_right = _sdk_modules(right.source)
    return _as_one(left.name, of_left - of_right), _as_one(right.name, of_right - of_left)


def _sdk_modules(source: str) -> set[str]:
    """Return the modules and packages of `sdk` that a file imports, by their names there."""
    return {name.split(".")[2] for name in modules_of(source)}


def _as_one(option: str, names: Iterable[str]) -> Written:
    """Return the text of some modules of `sdk`, one after the other."""
    files: list[Path] = []
    for name in sorted(names):
        package = DECK / "sdk" / name
        files += sorted(package.glob("[!_]*.py")) if package.is_dir() else [DECK / f"sdk/{name}.py"]
    paths = ", ".join(str(path.relative_to(DECK)) for path in files)
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return Written(option, paths, source)


def _print_stand_ins(out: Console, left: Written, right: Written, how: How) -> None:
    """Print the stand-ins of two options, without docstrings and comments."""
    here = code_lines(left.source)
    there = code_lines(right.source)
    out.print(Text("\nThe stand-ins: what an SDK would have to ship", "bold"))
    for side, lines in ((left, here), (right, there)):
        what = side.file or "nothing besides what the other one has"
        out.print(Text(f"  {side.name}: {what} ({plural(len(lines), 'line')})"))
    if here or there:
        _print(out, left, right, (here, there), how)


_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def _side_by_side(left: Written, right: Written, hunks: Sequence[Hunk]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), expand=True)
    for each in (left, right):
        table.add_column("", width=3, justify="right", style="dim")
        table.add_column("", width=1)
        table.add_column(each.file, ratio=1, overflow="fold")
    sides = [
        (_highlighted(left.source), "-", "on dark_red"),
        (_highlighted(right.source), "+", "on dark_green"),
    ]
    for hunk in hunks:
        for pair in zip_longest(hunk.left, hunk.right):
            row: list[Text] = []
            for line, (highlighted, mark, style) in zip(pair, sides, strict=True):
                row += _cells(line, highlighted, *((mark, style) if hunk.changed else ("", "")))
            table.add_row(*row)
    return table


def _highlighted(source: str) -> list[Text]:
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    # As a whole: a line inside a string cannot be told from code by itself.
    return list(syntax.highlight(source).split("\n", allow_blank=True))


def _cells(line: Line | None, highlighted: Sequence[Text], mark: str, style: str) -> list[Text]:
    """Return a line's number, its mark, and its code; three empty cells where there is no line."""
    if line is None:
        return [Text(), Text(), Text()]
    text = highlighted[line.line - 1].copy()
    text.truncate(len(line.text))  # the comment at the end is not author code
    text.stylize(style)
    return [Text(str(line.line)), Text(mark, "bold"), text]


def print_stat(options: Iterable[Option], *, as_json: bool) -> None:
    """Print the counts of `sizes.stat`, as a table or as JSON."""
    rows = stat(options)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("option")
    counts = {
        "author_lines": "author lines",
        "changed_lines": f"changed against {BASELINE}",
        "sdk_lines": "SDK lines",
        "shared_sdk_lines": f"shared with {BASELINE}",
    }
    for heading in counts.values():
        table.add_column(heading, justify="right")
    for row in rows:
        name = f"{row['option']} {row['name']}".rstrip()
        table.add_row(name, *(f"{row[count]:,}" for count in counts))
    console().print(table)
