"""The subject of a review: an option, alone or inside wrappers, with or without call keys.

Knows the catalogue and the wrappers.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrtr_options.review.bench.messages import Era
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
from mrtr_options.tool.weather import Destination

ATTEMPTS = 2
"""The tries of a round by a guard under review, if a second try does no harm; as `new` says."""


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


def temporal_subjects() -> list[Subject]:
    """Return the subjects that are shown on Temporal, whether it is installed or not."""
    return _shown_in((TEMPORAL,))


def explored_subjects(era: Era = "modern") -> list[Subject]:
    """Return the subjects that are explored for clients of an era.

    A modern client does not notice the shim for old ones. An old client has a whole call in one
    request, so it needs no keys.
    """
    if era == "legacy":
        return all_subjects()
    found = [each for each in all_subjects() if LEGACY_SHIM not in each.wrappers]
    found += _shown_in((SINGLE_USE, CALL_KEY), (CALL_KEY,), (SINGLE_USE, NAMED))
    return found if _missing_for_temporal() else [*found, *temporal_subjects()]


def _missing_for_temporal() -> str:
    """Say what Temporal needs; "" if it is installed."""
    from mrtr_options.review.bench.world import temporal  # only a subject on Temporal needs it

    return "" if temporal.installed() else temporal.MISSING


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
    if TEMPORAL in words and _missing_for_temporal():
        raise CannotLoad(f"{name} {_missing_for_temporal()}")
    return subject
