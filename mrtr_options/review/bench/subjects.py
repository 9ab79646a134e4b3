"""What is under review: an option, alone or inside wrappers, called by a client with or without
call keys. Knows the catalogue and the wrappers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mrtr_options.names import nearest
from mrtr_options.review.bench import temporal
from mrtr_options.sdk.ask_again import ask_again
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.single_use.store import Store
from mrtr_options.tool.catalogue import CannotLoad, Option, all_options, option_named, runnable
from mrtr_options.tool.server import Handler

if TYPE_CHECKING:
    from mrtr_options.sdk.single_use.postgres import PostgresStore

SINGLE_USE, LEGACY_SHIM, ASK_AGAIN = "single-use", "legacy-shim", "ask-again"
CALL_KEY = "call-key"
"""No wrapper: the client sends a call key, for an option or a guard that honours it."""
TEMPORAL = "temporal"
"""No wrapper: the calls of a durable option are kept by Temporal."""
MARKS = {SINGLE_USE: "¹", LEGACY_SHIM: "²", CALL_KEY: "ᵏ", TEMPORAL: "ᵀ"}

WRAPPED = {SINGLE_USE: "EFGJ", LEGACY_SHIM: "FGHJ", ASK_AGAIN: ""}
"""The options that each wrapper is shown around."""

KEYED = (
    *(f"{letter}+{SINGLE_USE}+{CALL_KEY}" for letter in "FGHJ"),
    *(f"{letter}+{CALL_KEY}" for letter in "JKL"),
)
"""What is shown with call keys."""

ON_TEMPORAL = "KL"
"""The options that are shown on Temporal, too."""

KEYED_EFFECTS = "J"
"""The options that give every effect an idempotency key, and run a round from its first line: where
the destination honours keys, a guard may run their rounds again.
"""
ATTEMPTS = 3
KEEP_SECONDS = 24 * 3600.0
"""How long a guard under review remembers rounds: longer than a state is valid for, so that a
client can still ask under its call key what became of a call.
"""

OpenStore: TypeAlias = "SqliteStore | PostgresStore"
"""What a guard records in, while its instance runs."""

WAIT_SECONDS = 0.5
"""How long a guarded round waits for another delivery of itself, under review."""
ROUND_SECONDS = 60.0
"""How long a guarded round may take; the guard's own default."""


@dataclass(frozen=True)
class Subject:
    """One option inside some wrappers.

    Attributes:
        option: The option.
        wrappers: Names of wrappers, innermost first; and last what the client does, and the engine.
    """

    option: Option
    wrappers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The letter, and what it is put into: "E", "E+single-use"."""
        return "+".join((self.option.letter, *self.wrappers))

    @property
    def title(self) -> str:
        """The name, with that of the file where it is a stranger's."""
        return self.name.replace("?", self.option.path.stem, 1)

    @property
    def on_temporal(self) -> bool:
        """Whether Temporal keeps its calls."""
        return TEMPORAL in self.wrappers

    @property
    def keyed(self) -> bool:
        """Whether its client sends a call key."""
        return CALL_KEY in self.wrappers

    def attempts(self, honours_keys: bool) -> int:
        """How often its guard tries a round that fails; effects honour keys or not."""
        again = self.keyed and honours_keys and self.option.letter in KEYED_EFFECTS
        return ATTEMPTS if again else 1


def all_subjects() -> list[Subject]:
    """Every option alone, then every wrapped one."""
    options = all_options()
    plain = [Subject(option) for option in options.values()]
    wrapped = [
        Subject(options[letter], (wrapper,))
        for wrapper, letters in WRAPPED.items()
        for letter in letters
    ]
    return plain + wrapped


def keyed_subjects() -> list[Subject]:
    """What there is of `KEYED`."""
    letters = all_options().keys()
    return [subject_named(name) for name in KEYED if name[0] in letters]


def fleet_subjects() -> list[Subject]:
    """What there is on Temporal; nothing where that is not installed."""
    found = all_options() if temporal.installed() else {}
    return [Subject(found[letter], (TEMPORAL,)) for letter in ON_TEMPORAL if letter in found]


def subject_named(name: str) -> Subject:
    """A subject by its name: an option ("E", "option_e_mrtr_native", a file), or one in wrappers,
    as in "F+single-use"; "F¹" (or "F1") for short, "F²" for "F+legacy-shim", "F¹ᵏ" with a call key,
    "Lᵀ" on Temporal.

    Raises:
        CannotLoad: There is none.
    """
    short = {mark: name for name, mark in MARKS.items()}
    if typed := re.fullmatch(r"([A-Za-z])\^?([12kt]+)", name):  # as well as a keyboard can
        name = typed[1] + typed[2].translate(str.maketrans("12kt", "¹²ᵏᵀ"))
    option, *wrappers = "".join(
        f"+{short[each]}" if each in short else each for each in name
    ).split("+")
    if wrappers and not option:
        raise CannotLoad(f"{name!r} names no option; put one before it, as in F¹ or F+single-use")
    if len(set(wrappers)) < len(wrappers):
        raise CannotLoad(f"{name!r} names a wrapper twice; name each once")
    known = (*WRAPPED, CALL_KEY, TEMPORAL)
    for wrapper in wrappers:
        if wrapper not in known:
            near = nearest(wrapper, known) or f"there are {', '.join(known)}"
            raise CannotLoad(f"there is no wrapper {wrapper!r}; {near}")
    subject = Subject(runnable(option_named(option)), tuple(wrappers))
    if TEMPORAL in wrappers and subject.option.letter not in ON_TEMPORAL:
        raise CannotLoad(f"{name!r} keeps no calls that Temporal could keep; K and L do")
    if TEMPORAL in wrappers and not temporal.installed():
        raise CannotLoad(f"{name} {temporal.MISSING}")
    return subject


def make_wrappers(
    names: tuple[str, ...],
    store: Store,
    wait_seconds: float = WAIT_SECONDS,
    attempts: int = 1,
    round_seconds: float = ROUND_SECONDS,
) -> list[Callable[[Handler], Handler]]:
    """Wrappers by their names, innermost first; instances share a guard's store. The rest is as for
    `single_use`.
    """
    wrappers: list[Callable[[Handler], Handler]] = []
    for name in names:
        if name == LEGACY_SHIM:
            wrappers.append(legacy_shim)
        elif name == ASK_AGAIN:
            wrappers.append(ask_again)
        elif name == SINGLE_USE:
            guard = single_use(
                store, wait_seconds=wait_seconds, round_seconds=round_seconds, attempts=attempts
            )
            wrappers.append(guard)
        elif name not in (CALL_KEY, TEMPORAL):
            raise ValueError(f"there is no wrapper {name!r}")
    return wrappers


def open_store(where: Path | str, clock: Callable[[], float] = time.time) -> OpenStore:
    """The store in a SQLite file, whose rounds age by the clock, or in a PostgreSQL database."""
    if isinstance(where, Path):
        return SqliteStore(where, keep_seconds=KEEP_SECONDS, clock=clock)
    from mrtr_options.sdk.single_use.postgres import PostgresStore  # needs the extra `durable`

    return PostgresStore(where, keep_seconds=KEEP_SECONDS)
