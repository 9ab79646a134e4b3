"""A look inside an instance: handlers entered, lines reached, and database writes.

A file's syntax tree gets a call at the top of each handler, and one before each statement if asked
for. A guard's store and the tables of the durable engine are watched, too. Only the review does
this; a program that is started runs as it stands in its file.

Knows the catalogue, the guard's store and the tables of the durable engine; nothing of deployments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, cast

from mcp.server import MCPServer, Server

from mrtr_options.tool.catalogue import load, require_file, source_of
from mrtr_options.tool.settings import Settings

Report = Callable[[str], None]


class Watch(Protocol):
    """An observer. `events` is the number of events of the history so far."""

    def note_line(
        self, events: int, path: Path, instance: int, sending: int | None, line: int
    ) -> None:
        """Note a statement of the author's before it runs: its file, and its first line."""
        ...

    def note_stored(
        self, events: int, instance: int | None, sending: int | None, what: str
    ) -> None:
        """Note a read or write of a database, in two or three words."""
        ...


# --- the author's code --------------------------------------------------------------------------

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
    tree = ast.parse(source_of(path), str(path))
    if lines:
        _Lines().visit(tree)
    for node in tree.body:
        if not isinstance(node, _FUNCTIONS):
            continue
        first_parameter = [parameter.arg for parameter in node.args.args[:1]]
        if first_parameter == ["ctx"]:
            first = node.body[0]
            place = 1 if _is_docstring(first) else 0
            node.body.insert(place, _call(_ENTERED, node.name, first))
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


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


# --- databases ----------------------------------------------------------------------------------


_KEPT = re.compile(r"\s*INSERT INTO \S*\boperation_outputs\b", re.IGNORECASE)
_NAMES = {
    "mrtr.asked": "the question",
    "mrtr.answered": "the answer",
    "mrtr.again": "that a step begins again",
    "mrtr.task": "that it is a task",
}


@contextmanager
def watching_the_engine(report: Report) -> Generator[None]:
    """Report each step that a durable engine of this process records meanwhile."""
    import sqlalchemy  # comes with the extra
    import sqlalchemy.event

    def done(connection: Any, cursor: Any, statement: str, parameters: Any, *others: Any) -> None:
        if _KEPT.match(statement):
            _, _, name, *_ = parameters
            report(f"keeps {_NAMES.get(name) or f'step {name}'}")

    sqlalchemy.event.listen(sqlalchemy.Engine, "after_cursor_execute", done)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "after_cursor_execute", done)
