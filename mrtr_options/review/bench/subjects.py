"""The subject of a review: an option, alone or inside wrappers, with or without call keys.

Knows the catalogue and the wrappers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mrtr_options.review.bench import temporal
from mrtr_options.sdk.ask_again import ask_again
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.single_use import SqliteStore, single_use
from mrtr_options.sdk.single_use.reservations import Store
from mrtr_options.tool.catalogue import DURABLE, CannotLoad, Option, all_options, runnable
from mrtr_options.tool.notation import (
    ASK_AGAIN,
    CALL_KEY,
    LEGACY_SHIM,
    NAMED,
    SINGLE_USE,
    TEMPORAL,
    in_text,
    option_and_words,
)
from mrtr_options.tool.server import Handler
from mrtr_options.tool.weather import Destination

if TYPE_CHECKING:
    from mrtr_options.sdk.single_use.postgres import PostgresStore

ATTEMPTS = 2
"""The tries of a round by a guard under review, if a second try does no harm; as `new` says."""

KEEP_SECONDS = 24 * 3600.0
"""The time for which a guard under review remembers rounds.

It is longer than a state is valid for, so that a client can still ask under its call key what
became of a call.
"""

OpenStore: TypeAlias = "SqliteStore | PostgresStore"
"""The store of a guard, while its instance runs."""

WAIT_SECONDS = 0.5
"""The time for which a guarded round under review waits for another delivery of itself."""
ROUND_SECONDS = 60.0
"""The longest time for a guarded round; the guard's own default."""


@dataclass(frozen=True)
class Subject:
    """One option inside some wrappers.

    Attributes:
        option: The option.
        wrappers: The names of wrappers, innermost first; then the words for the client's call key
            and for the engine.
    """

    option: Option
    wrappers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The option and the wrappers: "E", "E+guard", "my_option.py+guard"."""
        return "+".join((self.option.label, *self.wrappers))

    @property
    def title(self) -> str:
        """The name as texts have it."""
        return in_text(self.name)

    @property
    def on_temporal(self) -> bool:
        """Return whether Temporal keeps its calls."""
        return TEMPORAL in self.wrappers

    @property
    def keyed(self) -> bool:
        """Return whether its client sends a call key."""
        return CALL_KEY in self.wrappers

    @property
    def is_one_call(self) -> bool:
        """Return whether its guard recognizes a call that is made again, by a key or a name."""
        return self.keyed or self.is_named

    @property
    def is_named(self) -> bool:
        """Return whether its guard names calls."""
        return NAMED in self.wrappers

    def attempts(self, destination: Destination) -> int:
        """Return how often its guard tries a round that fails.

        A guard may run a round again where the destination absorbs every effect that it has seen:
        by an idempotency key that every effect has, or by what it is about.
        """
        own = self.option.guarantees
        has_keys = own is not None and own.keyed_effects
        is_absorbed = destination == "business key" or (has_keys and destination == "honours keys")
        return ATTEMPTS if is_absorbed and self.is_one_call else 1


def all_subjects() -> list[Subject]:
    """Return every option alone, then the options in the one wrapper that they are shown in."""
    plain = [Subject(option) for option in all_options().values()]
    return [*plain, *_shown_in((SINGLE_USE,), (LEGACY_SHIM,), (ASK_AGAIN,))]


def keyed_subjects() -> list[Subject]:
    """Return the subjects that are shown with a client that sends call keys."""
    return _shown_in((SINGLE_USE, CALL_KEY), (CALL_KEY,))


def named_subjects() -> list[Subject]:
    """Return the subjects that are shown in a guard that names their calls."""
    return _shown_in((SINGLE_USE, NAMED))


def temporal_subjects() -> list[Subject]:
    """Return the subjects that are shown on Temporal, whether it is installed or not."""
    return _shown_in((TEMPORAL,))


def fleet_subjects() -> list[Subject]:
    """Return the subjects that are shown on Temporal; none where it is not installed."""
    return temporal_subjects() if temporal.installed() else []


def is_shown_in(option: Option, *words: str) -> bool:
    """Return whether tables show an option in these wrappers, as its guarantees say."""
    return option.guarantees is not None and "+".join(words) in option.guarantees.shown_in


def _shown_in(*ways: tuple[str, ...]) -> list[Subject]:
    """Return the options that are shown in these wrappers."""
    return [
        Subject(option, words)
        for words in ways
        for option in all_options().values()
        if is_shown_in(option, *words)
    ]


def subject_named(name: str) -> Subject:
    """Return a subject by its name (see `tool.notation`).

    Raises:
        CannotLoad: There is none, or what it needs is not installed.
    """
    option, words = option_and_words(name)
    subject = Subject(runnable(option), words)
    if TEMPORAL in words and option.extra != DURABLE:
        raise CannotLoad(f"{name!r} keeps no calls that Temporal could keep; K and L do")
    if TEMPORAL in words and not temporal.installed():
        raise CannotLoad(f"{name} {temporal.MISSING}")
    return subject


def make_wrappers(
    names: tuple[str, ...],
    store: Store,
    wait_seconds: float = WAIT_SECONDS,
    attempts: int = 1,
    round_seconds: float = ROUND_SECONDS,
) -> list[Callable[[Handler], Handler]]:
    """Make wrappers by their names, innermost first. Instances share a guard's store.

    The other arguments are those of `single_use`.
    """
    wrappers: list[Callable[[Handler], Handler]] = []
    for name in names:
        if name == LEGACY_SHIM:
            wrappers.append(legacy_shim)
        elif name == ASK_AGAIN:
            wrappers.append(ask_again)
        elif name == SINGLE_USE:
            guard = single_use(
                store,
                call="location" if NAMED in names else None,
                wait_seconds=wait_seconds,
                round_seconds=round_seconds,
                attempts=attempts,
            )
            wrappers.append(guard)
        elif name not in (NAMED, CALL_KEY, TEMPORAL):
            raise ValueError(f"there is no wrapper {name!r}")
    return wrappers


def open_store(where: Path | str, clock: Callable[[], float] = time.time) -> OpenStore:
    """Open a store: in a SQLite file, by this clock, or in a PostgreSQL database."""
    if isinstance(where, Path):
        return SqliteStore(where, keep_seconds=KEEP_SECONDS, clock=clock)
    from mrtr_options.sdk.single_use.postgres import PostgresStore  # needs the extra `durable`

    return PostgresStore(where, keep_seconds=KEEP_SECONDS)
