"""What is under review: an option, alone or inside wrappers. Knows the catalogue and the wrappers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options, option_named, runnable
from mrtr_options.tool.server import Handler

if TYPE_CHECKING:
    from mrtr_options.sdk.single_use.postgres import PostgresStore

SINGLE_USE, LEGACY_SHIM = "single-use", "legacy-shim"

WRAPPED = {SINGLE_USE: "EFGJ", LEGACY_SHIM: "FGHJ"}
"""The options that each wrapper is shown around."""

OpenStore: TypeAlias = "SqliteStore | PostgresStore"
"""What a guard records in, while its instance runs."""

WAIT_SECONDS = 0.5
"""How long a guarded round waits for another delivery of itself, under review."""


@dataclass(frozen=True)
class Column:
    """One option inside some wrappers.

    Attributes:
        option: The option.
        wrappers: Names of wrappers, innermost first.
    """

    option: Option
    wrappers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The letter, and what it is put into: "E", "E+single-use"."""
        return "+".join((self.option.letter, *self.wrappers))


def all_columns() -> list[Column]:
    """Every option alone, then every wrapped one."""
    options = all_options()
    plain = [Column(option) for option in options.values()]
    wrapped = [
        Column(options[letter], (wrapper,)) for wrapper, letters in WRAPPED.items() for letter in letters
    ]
    return plain + wrapped


def column_named(name: str) -> Column:
    """A subject by its name: an option ("E", "option_e_mrtr_native", a file), or one in wrappers, as in
    "F+single-use"; "F¹" for short.

    Raises:
        CannotLoad: There is none.
    """
    option, *wrappers = name.replace("¹", f"+{SINGLE_USE}").split("+")
    for wrapper in wrappers:
        if wrapper not in WRAPPED:
            raise CannotLoad(f"there is no wrapper {wrapper!r}; there are {', '.join(WRAPPED)}")
    return Column(runnable(option_named(option)), tuple(wrappers))


def make_wrappers(
    names: tuple[str, ...], store: OpenStore, wait_seconds: float = WAIT_SECONDS
) -> list[Callable[[Handler], Handler]]:
    """Wrappers by their names.

    Args:
        names: Innermost first.
        store: Where instances share what a guard records.
        wait_seconds: How long a guarded round waits for another delivery of itself.
    """
    wrappers: list[Callable[[Handler], Handler]] = []
    for name in names:
        if name == LEGACY_SHIM:
            wrappers.append(legacy_shim)
        elif name == SINGLE_USE:
            wrappers.append(single_use(store, wait_seconds=wait_seconds))
        else:
            raise ValueError(f"there is no wrapper {name!r}")
    return wrappers


def open_store(where: Path | str, clock: Callable[[], float] = time.time) -> OpenStore:
    """The store in a SQLite file, or in the PostgreSQL database at a URL.

    Args:
        where: The file or the URL.
        clock: Tells the time by which the rounds of a guard on SQLite age.
    """
    if isinstance(where, Path):
        return SqliteStore(where, clock=clock)
    from mrtr_options.sdk.single_use.postgres import PostgresStore  # needs the extra `durable`

    return PostgresStore(where)
