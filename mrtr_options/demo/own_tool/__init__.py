"""The files that `new` begins a tool with: a tool, written in one of several styles, and its test.

`default.py` is a whole program. The file of another style has what that style writes otherwise, and
`files_of` puts it in its places in the program of another style. One test is for all; it says at
its top what its tool does, and `files_of` changes that where a style does otherwise. The files are
laid out for a folder of their own, where the imports of this package stand among others.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
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
    "f": Style("F, once: a round at a time, no store", (_UNTOLD, _EARLY), base="e"),
    "e": Style("E, MRTR native: a round at a time, no store", (_UNTOLD, _EARLY)),
    "g": Style("G, tool builder: named steps, no store", (_UNTOLD, _EARLY, "CHANGE_IS_ASKED")),
    "h": Style("H, continuation store: waits in its process", (_UNTOLD, "ANY_INSTANCE")),
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
        name: What it defines; else its kind.
        before: The blank lines and comments in front of it.
        text: The statement. A constant has its docstring in it.
    """

    name: str
    before: str
    text: str


def _program_of(style: str) -> str:
    """Return the whole program of a style.

    A definition takes the place of the one with its name in the base's program. A new one stands
    before the next one that does. A constant that nothing uses any more is left out. The imports of
    a style's file are for its reader and for type checkers.
    """
    text = _text_of(f"{style}.py")
    if style == DEFAULT:
        return text
    base = _parts_of(_program_of(STYLES[style].base))
    names = {part.name for part in base}
    own = {part.name: part for part in _parts_of(text) if part.name != ast.ImportFrom.__name__}
    joined: list[_Part] = []
    for part in base:
        if part.name not in own:
            joined.append(part)
            continue
        while (name := next(iter(own))) not in names:
            joined.append(_Part(name, "\n\n", own.pop(name).text))
        joined.append(_Part(part.name, part.before, own.pop(part.name).text))
    return "".join(
        part.before + part.text
        for part in joined
        if not part.name.isupper() or _is_used(part.name, joined)
    )


def _is_used(name: str, parts: list[_Part]) -> bool:
    return any(re.search(rf"\b{name}\b", part.text) for part in parts if part.name != name)


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
            parts.append(_Part(_name_of(node), before, statement))
    return parts


def _name_of(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.Assign(targets=[ast.Name(name)]):
            return name
        case _:
            return type(node).__name__
