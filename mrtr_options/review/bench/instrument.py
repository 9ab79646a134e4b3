"""A loader of options that lets the bench see their handlers entered, and their lines reached.

The file's syntax tree gets a call at the top of each handler, and one before each statement
if asked for.
Only the review does this; a program that is started runs as it stands in its file.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, cast

from mcp.server import MCPServer, Server

from mrtr_options.tool.catalogue import load, require_file
from mrtr_options.tool.settings import Settings

_ENTERED = "__entered__"
_REACHED = "__reached__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody")


def load_watched(
    path: Path,
    settings: Settings,
    *,
    on_entry: Callable[[str], None],
    on_line: Callable[[int], None] | None = None,
) -> Server[Any] | MCPServer[Any]:
    """Load a fresh instance of the option in a file, and watch its handlers.

    Args:
        path: The file.
        settings: The settings that the instance runs with.
        on_entry: Called with the name of each of the author's handlers as it is entered: every
            function at the top level of the file whose first parameter is `ctx`.
        on_line: Called with the first line of each statement of the author's functions before it
            runs.

    Raises:
        CannotLoad: As `load`.
    """
    require_file(path)
    try:
        code = _compiled(path, path.stat().st_mtime_ns, on_line is not None)
    except (OSError, SyntaxError, ValueError):
        return load(path, settings)  # which says what is wrong with the file
    return load(path, settings, code=code, names={_ENTERED: on_entry, _REACHED: on_line})


@lru_cache(maxsize=64)
def _compiled(path: Path, _changed: int, lines: bool) -> CodeType:
    """Compile a file with the calls in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    if lines:
        _Lines().visit(tree)
    for node in tree.body:
        if not isinstance(node, _FUNCTIONS):
            continue
        first_parameter = [parameter.arg for parameter in node.args.args[:1]]
        if first_parameter == ["ctx"]:
            node.body.insert(0, _call(_ENTERED, node.name, node.body[0]))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


class _Lines(ast.NodeTransformer):
    """A transformer that puts a call before each statement of every function."""

    _inside = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit the parts of a node."""
        outside = self._inside
        self._inside = self._inside or isinstance(node, _FUNCTIONS)
        super().generic_visit(node)
        if self._inside:
            for name in _BLOCKS:
                block: object = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, _with_lines(cast("list[ast.stmt]", block)))
        self._inside = outside
        return node


def _with_lines(block: list[ast.stmt]) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for statement in block:
        if not _is_docstring(statement):
            statements.append(_call(_REACHED, statement.lineno, statement))
        statements.append(statement)
    return statements


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _call(function: str, argument: str | int, place: ast.stmt) -> ast.stmt:
    """Return the statement that calls a function, at the place of another statement."""
    return ast.copy_location(ast.parse(f"{function}({argument!r})").body[0], place)
