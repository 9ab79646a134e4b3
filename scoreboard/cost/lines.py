"""The number of lines that each option's author writes, and that an SDK has to ship.

They are counted in the files as text.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import mrtr_options
from mrtr_options.tool.author_code import author_code, code_lines
from mrtr_options.tool.catalogue import Option, all_options, option_named
from scoreboard.cost.report import DEFAULT, Lines, Report

PACKAGE = Path(mrtr_options.__file__).parent
GUARD = PACKAGE / "sdk" / "single_use" / "__init__.py"
GUARDED = {"F+guard": "F", DEFAULT: "J"}
"""The guarded subjects whose lines are counted, and the option in each."""
LINES_OF_THE_GUARD = 1
"""What the author types to put the guard around a tool: `sdk.single_use(store, call=...)`."""


@dataclass(frozen=True)
class Size:
    """The lines of one way to write the tool.

    Attributes:
        author: The lines that the author types.
        own: The SDK's lines for it, beside those that E needs as well.
        shared: The SDK's lines that E needs as well.
    """

    author: int
    own: int
    shared: int


def size_of(option: Option) -> Size:
    """Count the lines of an option."""
    return _size(len(author_code(option.source)), {*stand_ins(option.path)})


def size_of_default() -> Size:
    """Count the lines of the default."""
    option = option_named(GUARDED[DEFAULT])
    return _size(len(author_code(option.source)) + LINES_OF_THE_GUARD, _guarded_files(option))


def _size(author: int, files: Collection[Path]) -> Size:
    everyones = {*stand_ins(option_named("E").path)}
    own = _code_lines({*files} - everyones)
    return Size(author, own, _code_lines({*files} & everyones))


def count_lines(options: Sequence[Option]) -> list[Lines]:
    """Count the lines of each option, and those of the guarded ones."""
    found = [
        Lines(
            subject=option.letter,
            author=len(author_code(option.source)),
            sdk=_code_lines(stand_ins(option.path)),
        )
        for option in options
    ]
    return [*found, *(_guarded(name, option_named(letter)) for name, letter in GUARDED.items())]


def _guarded(name: str, option: Option) -> Lines:
    author = len(author_code(option.source)) + LINES_OF_THE_GUARD
    return Lines(subject=name, author=author, sdk=_code_lines(_guarded_files(option)))


def _guarded_files(option: Option) -> set[Path]:
    return {*stand_ins(option.path), GUARD, *stand_ins(GUARD)}


def _code_lines(files: Collection[Path]) -> int:
    return sum(len(code_lines(_text(file))) for file in files)


def count_again(report: Report) -> Report:
    """Return a report with the present numbers of lines, whenever its times were measured."""
    return report.model_copy(update={"lines": count_lines(list(all_options().values()))})


def stand_ins(path: Path) -> list[Path]:
    """Return the modules of `mrtr_options.sdk` that a file imports, directly or indirectly."""
    found: list[Path] = []
    waiting = [path]
    while waiting:
        for name in _imports(waiting.pop()):
            file = _file_of(name)
            if name.startswith("mrtr_options.sdk.") and file not in found:
                found.append(file)
                waiting.append(file)
    return sorted(found)


def _file_of(module: str) -> Path:
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _imports(path: Path) -> set[str]:
    """Return the imports of a file, also in functions: L imports the engine that it needs."""
    nodes = ast.walk(ast.parse(_text(path)))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
