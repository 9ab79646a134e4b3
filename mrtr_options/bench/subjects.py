"""What is put under review: an option, alone or inside wrappers. Knows `options` and the wrappers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.tool.catalogue import Option, all_options
from mrtr_options.tool.server import Handler

SINGLE_USE, LEGACY_SHIM = "single-use", "legacy-shim"

WRAPPED = {SINGLE_USE: "EFGJ", LEGACY_SHIM: "FGHJ"}
"""The options that each wrapper is shown around."""

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


def make_wrappers(
    names: tuple[str, ...],
    store: Path,
    opened: list[SqliteStore],
    clock: Callable[[], float] = time.time,
) -> list[Callable[[Handler], Handler]]:
    """Wrappers by their names.

    Args:
        names: Innermost first.
        store: The file in which instances share what a guard records.
        opened: Gets each store that was opened, to be closed with the instance.
        clock: Tells the time by which the guard's rounds and states age.
    """
    wrappers: list[Callable[[Handler], Handler]] = []
    for name in names:
        if name == LEGACY_SHIM:
            wrappers.append(legacy_shim)
        elif name == SINGLE_USE:
            opened.append(SqliteStore(store, clock=clock))
            wrappers.append(single_use(opened[-1], wait_seconds=WAIT_SECONDS))
        else:
            raise ValueError(f"there is no wrapper {name!r}")
    return wrappers
