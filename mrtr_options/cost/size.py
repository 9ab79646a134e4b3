"""How much there is to read and to install for each option. Counted, not timed.

Knows the files only as text.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

import mrtr_options
from mrtr_options.cost.timing import Row
from mrtr_options.tool.author_code import BASELINE, Line, author_code, changed_lines, code_lines, compare
from mrtr_options.tool.catalogue import Option, option_named

PACKAGE = Path(mrtr_options.__file__).parent
BASE = {"anyio", "mcp", "mcp_types", "mrtr_options", "pydantic"}
"""What there is already: a server on the SDK has these without choosing an option."""


def sizes(options: Sequence[Option]) -> list[Row]:
    """The size of each option.

    Returns:
        Lines that the author types (see `author_code`), and of those what is added and removed against
        E; lines of code in the stand-in and in what it is made of, which is what an SDK would ship, and
        its modules; and what has to be installed besides the SDK.
    """
    baseline = author_code(option_named(BASELINE).source)
    return [_size(option.letter, option.path, baseline) for option in options]


def _size(letter: str, path: Path, baseline: Sequence[Line]) -> Row:
    lines = author_code(_text(path))
    stand_ins = _stand_ins(path)
    imported = {name.partition(".")[0] for file in stand_ins for name in _imports(file)}
    return Row(
        letter,
        {
            "author_lines": len(lines),
            "changed_lines": changed_lines(compare(baseline, lines)),
            "stand_in_lines": sum(len(code_lines(_text(file))) for file in stand_ins),
            "stand_ins": [
                file.parent.name if file.stem == "__init__" else file.stem for file in stand_ins
            ],
            "dependencies": sorted(imported - BASE - set(sys.stdlib_module_names)),
        },
    )


def _stand_ins(path: Path) -> list[Path]:
    """The modules of `mrtr_options.sdk` that a file imports, and those that they do."""
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
    """What it imports whoever runs it: H asks for trio only where trio runs already."""
    names: set[str] = set()
    body = ast.parse(_text(path)).body
    if path.name == "__init__.py":  # what it hands out it may import on a condition
        body += [each for node in body if isinstance(node, ast.If | ast.Try) for each in node.body]
    for node in body:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
