"""The lines that an author writes for an option, and those that an SDK has to ship for it.

Reads files as text and runs none of them.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mrtr_options.sdk import NAMES
from mrtr_options.tool.author_code import author_code, changed_lines, code_lines, compare
from mrtr_options.tool.catalogue import DECK, Option, option_named
from mrtr_options.tool.wrapped import AROUND, source_of

BASELINE = "E"
"""The option that the others are counted against: what an author writes without help."""

_SDK = "mrtr_options.sdk"


@dataclass(frozen=True)
class Size:
    """The lines of one way to write the tool.

    Attributes:
        author: The lines that the author types; a wrapper is one.
        own: The SDK's lines for it, beside those that E needs as well.
        shared: The SDK's lines that E needs as well.
    """

    author: int
    own: int
    shared: int


def size_of(option: Option, words: Sequence[str] = ()) -> Size:
    """Count the lines of an option, alone or with the wrappers that some words name.

    Raises:
        CannotLoad: The file cannot be read, or takes no wrappers.
    """
    files = {*stand_ins(source_of(option, words))}
    everyones = {*stand_ins(option_named(BASELINE).source)}
    author = len(author_code(option.source)) + len([word for word in words if word in AROUND])
    return Size(author, _count(files - everyones), _count(files & everyones))


def _count(files: Collection[Path]) -> int:
    return sum(_count_lines(file.read_text(encoding="utf-8")) for file in files)


@cache
def _count_lines(source: str) -> int:
    return len(code_lines(source))


def stat(options: Iterable[Option]) -> list[dict[str, Any]]:
    """Return each option's lines of author code and of the SDK, and lines changed against E.

    Raises:
        CannotLoad: A file cannot be read.
    """
    of_baseline = author_code(option_named(BASELINE).source)
    rows: list[dict[str, Any]] = []
    for option in options:
        size = size_of(option)
        changed = changed_lines(compare(of_baseline, author_code(option.source)))
        rows.append(
            {
                "option": option.label,
                "name": "" if option.is_foreign else option.name,
                "author_lines": size.author,
                "changed_lines": changed,
                "sdk_lines": size.own,
                "shared_sdk_lines": size.shared,
            }
        )
    return rows


def stand_ins(source: str) -> list[Path]:
    """Return the files of `mrtr_options.sdk` that a text imports, directly or indirectly."""
    found: list[Path] = []
    waiting = [source]
    while waiting:
        for name in modules_of(waiting.pop()):
            file = _file_of(name)
            if file not in found:
                found.append(file)
                waiting.append(file.read_text(encoding="utf-8"))
    return sorted(found)


def _file_of(module: str) -> Path:
    place = DECK.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def modules_of(source: str) -> frozenset[str]:
    """Return the modules of `sdk` that a text uses, also in functions: L imports its engine there.

    A name of `sdk` itself, as in `from mrtr_options import sdk`, stands for the module it is in.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith(f"{_SDK}."):
                found.add(module)
            case ast.ImportFrom(module=module, names=names) if module == _SDK:
                found |= {f"{_SDK}.{NAMES[each.name]}" for each in names if each.name in NAMES}
            case ast.Attribute(value=ast.Name("sdk"), attr=name) if name in NAMES:
                found.add(f"{_SDK}.{NAMES[name]}")
            case _:
                pass
    return frozenset(found)
