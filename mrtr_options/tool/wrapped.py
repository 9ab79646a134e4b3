"""An option file as its author would write it with wrappers around the server.

Reads files as text and runs none of them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mrtr_options.tool.author_code import split_lines
from mrtr_options.tool.catalogue import TAKES_NO_WRAPPERS, CannotLoad, Option
from mrtr_options.tool.notation import ASK_AGAIN, LEGACY_SHIM, NAMED, SINGLE_USE

AROUND = {
    SINGLE_USE: (
        'single_use(SqliteStore("rounds.sqlite"))',
        "single_use import SqliteStore, single_use",
    ),
    LEGACY_SHIM: ("legacy_shim", "legacy_shim import legacy_shim"),
    ASK_AGAIN: ("ask_again", "ask_again import ask_again"),
}
"""For each wrapper what makes it, and what is imported for it from `sdk`."""


def source_of(option: Option, words: Sequence[str]) -> str:
    """Return the text of an option's file, with the wrappers that some words name.

    Args:
        option: The option.
        words: As in a subject's name (see `notation`), innermost first.

    Raises:
        CannotLoad: The file cannot be read, or takes no wrappers.
    """
    try:
        source = option.source
        tree = ast.parse(source, option.path.name)
    except (SyntaxError, ValueError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CannotLoad(f"{option.path} cannot be read as Python: {reason}") from error
    wrappers = [word for word in words if word in AROUND]
    if wrappers:
        source = _in_wrappers(option, tree.body, wrappers)
    if NAMED in words:
        source = source.replace('"rounds.sqlite")', '"rounds.sqlite"), call="location"')
    return source


def _in_wrappers(option: Option, body: Sequence[ast.stmt], wrappers: Sequence[str]) -> str:
    """Return an option's file with wrappers around the server that it builds, innermost first.

    Raises:
        CannotLoad: It does not build the shared server.
    """
    lines = split_lines(option.source)
    all_imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    imports = [node for node in all_imports if node.module != "__future__"]
    built = [node for node in body if isinstance(node, ast.Assign) and "server" in _names(node)]
    if not built or not any(map(_imports_shared, imports)):
        raise CannotLoad(TAKES_NO_WRAPPERS.format(option.path))
    first = built[0].lineno - 1
    last = built[0].end_lineno
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
    begin = imports[0].lineno - 1
    parts = [*lines[:begin], *imported, *lines[begin:first], *around, *lines[last:]]
    return "\n".join([*parts, ""])


def _imports_shared(node: ast.ImportFrom) -> bool:
    """Return whether an import brings the function that builds the shared server."""
    names = {each.name for each in node.names}
    return node.module == "mrtr_options.tool.server" and "build_server" in names


def _names(node: ast.Assign) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)]
