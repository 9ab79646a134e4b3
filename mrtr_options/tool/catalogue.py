"""Finding option files and loading one as a fresh instance of its server.

An option is a file `option_<letter>_<slug>.py` in this package; there is no list. Loading executes
the file anew under given settings, so two loads share nothing, as two processes would not. A
stranger's proposal is any Python file of the same shape. Knows `server` and `promises`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from mrtr_options.tool.promises import Promises

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    from mrtr_options.tool.server import Settings

DURABLE = "durable"
_EXTRAS = {DURABLE: "dbos"}
"""The package's extras, each named after the stand-in that needs it, and what each brings."""

DECK = Path(__file__).parents[1]
"""Where the option files are."""

_FILE_NAME = re.compile(r"option_(?P<letter>[a-z])_(?P<slug>\w+)\.py")


class CannotLoad(Exception):
    """A file is not an option that can be run. The text is one line that says what to do."""


@dataclass(frozen=True)
class Option:
    """One way to write the tool.

    Attributes:
        letter: "A" to "Z"; "?" for a stranger's proposal.
        name: The slug in words, e.g. "mrtr native".
        path: The file.
    """

    letter: str
    name: str
    path: Path

    @cached_property
    def title(self) -> str:
        """The first line of the file's docstring."""
        match = re.match(r'\s*"""(.*)', self.path.read_text(encoding="utf-8"))
        return match[1].strip() if match else self.path.stem

    @cached_property
    def extra(self) -> str | None:
        """The extra of this package that it needs: the one whose stand-in it imports, if any."""
        source = self.path.read_text(encoding="utf-8")
        return next(
            (extra for extra in _EXTRAS if f"from mrtr_options.sdk.{extra} import" in source), None
        )

    @cached_property
    def takes_tasks(self) -> bool:
        """Whether it hands tasks to clients that take them."""
        return "from mrtr_options.sdk.tasks import" in self.path.read_text(encoding="utf-8")

    @property
    def module(self) -> str:
        """What to give `python -m`."""
        return f"mrtr_options.{self.path.stem}"


@dataclass(frozen=True)
class Loaded:
    """One instance of an option.

    Attributes:
        server: The server, of either tier, not yet serving.
        promises: What the file promises, or None if it says nothing.
    """

    server: Server[Any] | MCPServer[Any]
    promises: Promises | None


def option_at(path: Path) -> Option:
    """The option in a file, whatever the file is called."""
    match = _FILE_NAME.fullmatch(path.name)
    if match is None:
        return Option("?", path.stem.replace("_", " "), path)
    return Option(match["letter"].upper(), match["slug"].replace("_", " "), path)


def installed(extra: str) -> bool:
    """Whether what an extra of this package brings is there."""
    return importlib.util.find_spec(_EXTRAS[extra]) is not None


def _every_option() -> dict[str, Option]:
    found = [option_at(path) for path in DECK.glob("option_?_*.py")]
    return {option.letter: option for option in sorted(found, key=lambda option: option.letter)}


def all_options() -> dict[str, Option]:
    """Every option of this package by its letter, in order, whose extra is installed."""
    options = _every_option()
    return {
        letter: option
        for letter, option in options.items()
        if option.extra is None or installed(option.extra)
    }


def option_named(letter: str) -> Option:
    """The option with this letter, in either case.

    Raises:
        CannotLoad: There is none.
    """
    options = all_options()
    option = options.get(letter.upper())
    if option is None and (lacking := _every_option().get(letter.upper())):
        raise CannotLoad(
            f"option {lacking.letter} needs the extra {lacking.extra!r}:"
            f" pip install 'mrtr-options[{lacking.extra}]'"
        )
    if option is None:
        raise CannotLoad(f"there is no option {letter!r}; there are {', '.join(options)}")
    return option


def load(path: Path, settings: Settings, *, on_entry: Callable[[str], None] | None = None) -> Loaded:
    """A fresh instance of the option in a file.

    Args:
        path: The file.
        settings: What the instance is run with.
        on_entry: Told the name of each of the author's handlers as it is entered: every function at
            the top level of the file whose first parameter is `ctx`.

    Raises:
        CannotLoad: The file cannot be read, does not import, or has neither a `server` nor a
            `build_server()` of its own.
    """
    from mcp.server import MCPServer, Server  # takes seconds, and finding options does not need it

    from mrtr_options.tool.server import configured

    if not path.is_file():
        raise CannotLoad(f"there is no file {path}; name a Python file with a `server` in it")
    module = ModuleType(f"mrtr_options_loaded_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # pydantic looks annotations up here
    try:
        with configured(settings):
            module.__dict__[_ENTERED] = on_entry or _ignore
            exec(_compiled(path, path.stat().st_mtime_ns), module.__dict__)
            server = _server_of(module)
    except (Exception, SystemExit) as error:
        raise CannotLoad(f"{path} does not import: {type(error).__name__}: {error}") from error
    if not isinstance(server, Server | MCPServer):
        raise CannotLoad(f"{path} has no `server`; end it with server = build_server(name, handler)")
    promises: object = getattr(module, "promises", None)
    return Loaded(
        cast("Server[Any] | MCPServer[Any]", server),
        promises if isinstance(promises, Promises) else None,
    )


def _server_of(module: ModuleType) -> object:
    server: object = getattr(module, "server", None)
    build: object = getattr(module, "build_server", None)
    if server is None and callable(build) and getattr(build, "__module__", "") == module.__name__:
        return build()
    return server


_ENTERED = "__entered__"


def _ignore(function: str) -> None:
    return


@cache
def _compiled(path: Path, _changed: int) -> CodeType:
    """The file's code, with a call at the top of each handler that tells who is entered."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if [parameter.arg for parameter in node.args.args[:1]] == ["ctx"]:
            told = ast.parse(f"{_ENTERED}({node.name!r})").body[0]
            node.body.insert(0, ast.copy_location(told, node.body[0]))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")
