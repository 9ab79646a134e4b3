"""The files that `new` begins a tool with: a tool, written in one of several styles, and its test.

`default.py` is a whole program. The file of another style has what that style writes otherwise, and
`files_of` puts it in its places in the program of another style. One test is for all; it says at
its top what its tool does, and `files_of` changes that where a style does otherwise. The files are
laid out for a folder of their own, where the imports of this package stand among others.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from importlib.resources import files

NAME = "own_tool"
"""The tool's name in the files of this folder."""

DEFAULT = "default"


@dataclass(frozen=True)
class Style:
    """A way to write the tool.

    Attributes:
        title: Its name, and what it needs.
        otherwise: The lines at the top of the test that are not so for this style.
        base: The style in whose program its file changes something.
    """

    title: str
    otherwise: tuple[str, ...] = ()
    base: str = DEFAULT


_UNTOLD, _EARLY = "REPEAT_IS_TOLD", "EARLY_IS_ASKED"

STYLES = {
    DEFAULT: Style("J in the guard, call named: a store that all instances share"),
    "j": Style("J, keyed replay: no store", (_UNTOLD,)),
    "f": Style("F, once: a round at a time, no store", (_UNTOLD, _EARLY), "e"),
    "e": Style("E, MRTR native: a round at a time, no store", (_UNTOLD, _EARLY), "j"),
    "g": Style("G, tool builder: named steps, no store", (_UNTOLD, _EARLY, "CHANGE_IS_ASKED"), "j"),
    "h": Style("H, continuation store: waits in its process", (_UNTOLD, "ANY_INSTANCE"), "j"),
}


def files_of(style: str, name: str) -> tuple[str, str]:
    """Return the text of a tool and of its test.

    Args:
        style: A key of `STYLES`.
        name: The tool's name; its file is called after it.
    """
    tool, test = _program_of(style), _text_of(f"test_{NAME}.py")
    for line in STYLES[style].otherwise:
        test = test.replace(f"{line} = True", f"{line} = False")
    test = test.replace(f"{__name__}.{DEFAULT}", name)
    return tool.replace(NAME, name), test.replace(NAME, name)


def _text_of(file: str) -> str:
    return (files(__name__) / file).read_text(encoding="utf-8")


# --- joining ------------------------------------------------------------------------------------


@dataclass
class _Part:
    """A statement at the top of a file.

    Attributes:
        name: What it defines, or the module that it imports from; else its kind.
        before: The blank lines and comments in front of it.
        text: The statement. A constant has its docstring in it.
        defines: Whether it is a definition.
        imports: The names that it imports from a module.
    """

    name: str
    before: str
    text: str
    defines: bool = False
    imports: set[str] = field(default_factory=set[str])


def _program_of(style: str) -> str:
    """Return the whole program of a style.

    A definition takes the place of the one with its name in the base's program. A new one follows
    the one before it; the first ones stand before the first that has a place. What nothing uses
    any more is left out. Imports of this package are for the file's reader and for type checkers.
    """
    text = _text_of(f"{style}.py")
    if style == DEFAULT:
        return text
    program = _parts_of(_program_of(STYLES[style].base))
    docstring, *parts = _parts_of(text)
    program[0] = docstring
    first: list[_Part] = []
    last: int | None = None
    for part in parts:
        place = next((at for at, each in enumerate(program) if each.name == part.name), None)
        if part.imports:
            if place is not None:
                program[place].imports |= part.imports
        elif place is not None:
            program[place] = replace(part, before=program[place].before)
            program[place:place] = first
            last = place + len(first)
            first = []
        elif last is None:
            first.append(part)
        else:
            last += 1
            program.insert(last, part)
    return "".join(part.before + part.text for part in _used(program))


def _used(parts: list[_Part]) -> list[_Part]:
    """Return the parts without definitions and imports that nothing uses."""
    kept = [part for part in parts if not part.defines or _is_used(part.name, parts)]
    if len(kept) < len(parts):
        return _used(kept)
    for part in kept:
        if part.imports and part.name != "__future__":
            names = sorted(filter(lambda name: _is_used(name, kept), part.imports))
            part.text = f"from {part.name} import {', '.join(names)}\n"
    return kept


def _is_used(name: str, parts: list[_Part]) -> bool:
    others = (part.text for part in parts if part.name != name and not part.imports)
    return any(re.search(rf"\b{name}\b", text) for text in others)


def _parts_of(text: str) -> list[_Part]:
    lines = text.splitlines(keepends=True)
    parts: list[_Part] = []
    end = 0
    for node in ast.parse(text).body:
        first: list[ast.expr] = getattr(node, "decorator_list", [])
        begin = min(each.lineno for each in (node, *first)) - 1
        before, statement = "".join(lines[end:begin]), "".join(lines[begin : node.end_lineno])
        end = node.end_lineno or begin
        if isinstance(node, ast.Expr) and parts:  # the docstring of a constant
            parts[-1].text += before + statement
        else:
            parts.append(_part(node, before, statement))
    return parts


def _part(node: ast.stmt, before: str, text: str) -> _Part:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return _Part(node.name, before, text, defines=True)
        case ast.Assign(targets=[ast.Name(name)]):
            return _Part(name, before, text, defines=True)
        case ast.ImportFrom(module=str(module)):
            return _Part(module, before, text, imports={each.name for each in node.names})
        case _:
            return _Part(type(node).__name__, before, text)
