"""Finding option files and loading one as a fresh instance of its server.

An option is a file `option_<letter>_<slug>.py` in this package; there is no list. Its
guarantees are in `guarantees.toml` beside it. A stranger's proposal is any Python file of the same
shape, and `my_option.toml` beside `my_option.py`, if there is one, has its guarantees. Each load
executes the file under given settings, so two loads share nothing, as two processes would not.
Knows `server` and `guarantees`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.util import decode_source, find_spec
from inspect import iscoroutine
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from mrtr_options.tool.guarantees import (
    CannotLoad,
    Guarantees,
    guarantees_by_letter,
    guarantees_of,
)

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    from mrtr_options.tool.settings import Handler, Settings

DURABLE = "durable"
_EXTRAS = {DURABLE: "dbos"}
"""The package's extras, and what each brings."""

DECK = Path(__file__).parents[1]
"""The folder of the option files."""

GUARANTEES = "guarantees.toml"
"""The name of the file with their guarantees, beside them."""

_FILE_NAME = re.compile(r"option_(?P<letter>[a-z])_(?P<slug>\w+)\.py")


BEGIN = (
    "check --init my_option.py writes the tool that check judges (docs/CONTRACT.md); "
    "for a tool of your own, new writes a test"
)
"""The advice about a file that cannot be judged."""


TAKES_NO_WRAPPERS = "{} takes no wrapper: that needs the build_server of mrtr_options.tool.server"
"""The message about a file that builds a server of its own."""


@dataclass(frozen=True)
class Option:
    """One way to write the tool.

    Attributes:
        letter: "A" to "Z"; "?" for a stranger's proposal.
        name: The slug in words, e.g. "mrtr native".
        path: The file.
        guarantees: What it guarantees besides the contract; None for nothing.
    """

    letter: str
    name: str
    path: Path
    guarantees: Guarantees | None = None

    @property
    def is_foreign(self) -> bool:
        """Return whether it is a stranger's proposal, which may build its server as it likes."""
        return self.letter == "?"

    @property
    def label(self) -> str:
        """The letter; of a stranger's proposal the name of its file, or its URL."""
        if not self.is_foreign:
            return self.letter
        return self.path.name if self.path.suffix == ".py" else self.name

    @property
    def source(self) -> str:
        """The text of the file."""
        return source_of(self.path)

    @cached_property
    def title(self) -> str:
        """The first line of the file's docstring."""
        match = re.match(r'\s*"""(.*)', self.source)
        return match[1].strip() if match else self.path.stem

    @property
    def extra(self) -> str | None:
        """The extra of this package that it needs, if any."""
        return self.guarantees.needs if self.guarantees else None

    @property
    def lack(self) -> str | None:
        """A line about the extra that it needs and that is not installed; None if nothing lacks."""
        if self.extra is None or find_spec(_EXTRAS[self.extra]) is not None:
            return None
        return f"option {self.letter} {_needs(self.extra)}"

    @property
    def takes_tasks(self) -> bool:
        """Return whether it hands tasks to clients that take them."""
        return self.guarantees is not None and self.guarantees.task


def option_at(path: Path) -> Option:
    """Return the option in a file, whatever the file is called.

    Raises:
        CannotLoad: There are guarantees beside it that cannot be read.
    """
    deck = {option.path: option for option in whole_deck().values()}
    if path.resolve() in deck:
        return deck[path.resolve()]
    beside = path.with_suffix(".toml")
    return _option(path, guarantees_of(beside) if beside.is_file() else None)


def _option(path: Path, guarantees: Guarantees | None) -> Option:
    match = _FILE_NAME.fullmatch(path.name)
    letter, slug = ("?", path.stem) if match is None else match.groups()
    return Option(letter.upper(), slug.replace("_", " "), path, guarantees)


def whole_deck() -> dict[str, Option]:
    """Return every option of this package by its letter, in order.

    Raises:
        CannotLoad: `guarantees.toml` cannot be read.
    """
    file = DECK / GUARANTEES
    guarantees = guarantees_by_letter(file) if file.is_file() else {}
    paths: dict[str, Path] = {}
    for path in sorted(DECK.glob("option_?_*.py")):
        letter = path.name.split("_")[1].upper()
        if letter in paths:
            raise CannotLoad(f"{paths[letter].name} and {path.name} have one letter; rename one")
        paths[letter] = path
    return {letter: _option(path, guarantees.get(letter)) for letter, path in paths.items()}


def all_options() -> dict[str, Option]:
    """Return the options of this package whose extra is installed, by letter and in order."""
    options = whole_deck().items()
    return {letter: each for letter, each in options if each.lack is None}


def runnable(option: Option) -> Option:
    """Return the option, if what it needs is installed.

    Raises:
        CannotLoad: It needs an extra.
    """
    if option.lack is not None:
        raise CannotLoad(option.lack)
    return option


def lacking() -> list[str]:
    """Return a line for each option that cannot be run here, with the extra that it needs."""
    return [each.lack for each in whole_deck().values() if each.lack is not None]


def _needs(extra: str) -> str:
    return f"needs the extra {extra!r}: pip install '.[{extra}]' in a checkout"


def option_named(name: str) -> Option:
    """Return the option that somebody means: by its letter, its name, or a file.

    Args:
        name: As in "F", "once", "option_f_once", "option_f_once.py"; in either case. Or the path of
            any Python file.

    Raises:
        CannotLoad: There is none.
    """
    options = whole_deck()
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    for letter, option in options.items():
        names = (letter, option.name.replace(" ", "_"), option.path.stem, option.path.name)
        if wanted in map(str.lower, names):
            return option
    if name.endswith(".py") and Path(name).is_file():
        return option_at(Path(name))
    if "://" in name:
        raise CannotLoad(
            f"{name} is a URL, which only check takes; name a Python file or an option"
        )
    if name and Path(name).is_dir():
        raise CannotLoad(f"{name} is a folder; name a Python file or an option")
    if name.endswith(".py") or os.sep in name:
        raise CannotLoad(f"there is no file {name}; name a Python file or an option")
    from mrtr_options.names import nearest  # an option that is found needs no other names

    names = {option.name.replace(" ", "_"): letter for letter, option in options.items()}
    near = nearest(wanted, names) or f"there are {', '.join(options)}"
    raise CannotLoad(f"there is no option {name!r}; {near}")


def require_file(path: Path) -> None:
    """Look whether a proposal is there.

    Raises:
        CannotLoad: It is not, or it is a folder.
    """
    if not path.is_file():
        what = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        raise CannotLoad(f"{what}; name a Python file with a `server` in it")


def load(
    path: Path,
    settings: Settings,
    *,
    code: CodeType | None = None,
    names: Mapping[str, Any] | None = None,
) -> Server[Any] | MCPServer[Any]:
    """Load a fresh instance of the option in a file: its server, of either tier, not yet serving.

    Args:
        path: The file.
        settings: The settings that the instance runs with.
        code: The file's code if it was compiled before; None to compile it.
        names: Further global names that the code uses.

    Raises:
        CannotLoad: The file cannot be read, does not import, has neither a `server` nor a
            `build_server()` of its own, or takes no wrappers, and the settings have some.
    """
    from mcp.server import MCPServer, Server  # takes seconds, and finding options does not need it

    from mrtr_options.tool.settings import configured

    require_file(path)
    module = ModuleType(f"mrtr_options_loaded_{path.stem}")
    module.__file__ = str(path)
    module.__package__ = _package_of(path)
    module.__dict__.update(names or {})
    sys.modules[module.__name__] = module  # pydantic looks annotations up here
    wrapped: list[Handler] = []

    def wrap(handler: Handler) -> Handler:
        wrapped.append(handler)
        return handler

    from mrtr_options.tool.beside import importing_from  # an option that runs itself needs none

    if settings.wrappers:
        settings = replace(settings, wrappers=[*settings.wrappers, wrap])
    try:
        with configured(settings), importing_from(*_folders_of(path)):
            exec(code or compile_file(path), module.__dict__)
            server = _server_of(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == _EXTRAS[DURABLE]:
            raise CannotLoad(f"{path.name} {_needs(DURABLE)}") from error
        why = f"does not import: {type(error).__name__}: {error}"
        raise CannotLoad(f"{path} {why}") from error
    if server is None:
        raise CannotLoad(f"{path} has no `server`; {BEGIN}")
    if not isinstance(server, Server | MCPServer):
        not_a_server = "is not an option: its `server` is not a Server of the package mcp"
        raise CannotLoad(f"{path} {not_a_server}; {BEGIN}")
    if settings.wrappers and not wrapped:
        raise CannotLoad(TAKES_NO_WRAPPERS.format(path))
    return cast("Server[Any] | MCPServer[Any]", server)


def compile_file(path: Path) -> CodeType:
    """Compile a Python file as `python FILE` does, once for each of its versions."""
    return _compiled(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _compiled(path: Path, _changed: int) -> CodeType:
    # Without `dont_inherit`, the file's annotations would be texts, as this module's are.
    return compile(source_of(path), str(path), "exec", dont_inherit=True)


def source_of(path: Path) -> str:
    """Return the text of a Python file, in the encoding that it declares."""
    return decode_source(path.read_bytes())


def _server_of(module: ModuleType) -> object:
    from mcp.server import MCPServer, Server

    server: object = getattr(module, "server", None)
    build: object = getattr(module, "build_server", None)
    if server is None and callable(build) and getattr(build, "__module__", "") == module.__name__:
        built: object = build()
        if iscoroutine(built):
            built.close()
        if not isinstance(built, Server | MCPServer):
            raise TypeError(f"build_server() gives a {type(built).__name__}, and no mcp Server")
        return cast(object, built)
    return server


@lru_cache(maxsize=64)
def _package_of(path: Path) -> str:
    """Return the package that a file is in, for its relative imports; "" if it is in none."""
    root = _root_of(path)
    return ".".join(path.absolute().parent.relative_to(root).parts)


@lru_cache(maxsize=64)
def _folders_of(path: Path) -> tuple[Path, ...]:
    """Return where a stranger's file finds the modules beside it: its folder, and its package's."""
    folder = path.absolute().parent
    return () if folder == DECK else tuple(dict.fromkeys((folder, _root_of(path))))


def _root_of(path: Path) -> Path:
    """Return the folder of the topmost package that a file is in; of the file if it is in none."""
    folder = path.absolute().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder
