"""A key means one thing in a round.

Keys name questions and effects across rounds and across versions of the code. Within one round, and
in H within one call, a key belongs to one question (its message and its form) or to one effect. A
second use for something else would get the first one's answer, or would not run at all; it is an
error that names both places.

Knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import currentframe
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from pydantic import BaseModel

_BETWEEN = ("mrtr_options.sdk.", "contextlib")
_LOOPS = ("anyio", "asyncio", "trio")


class KeyUsedTwice(ValueError):
    """A key is used for two things in one run of a handler."""


class _Line(NamedTuple):
    """A line of the author's code. It is put into words when it is told."""

    module: str
    code: CodeType
    number: int

    def __str__(self) -> str:
        if self.module.partition(".")[0] in _LOOPS:
            return "in a task"
        return f"in {self.code.co_qualname} at {Path(self.code.co_filename).name}:{self.number}"


class _Use(NamedTuple):
    meaning: object
    place: _Line | str


class Uses:
    """The keys that one round has used, with the purpose and the place of each use."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str], _Use] = {}

    def take(
        self,
        kind: str,
        key: str,
        meaning: object = None,
        are_same: Callable[[Any, Any], bool] | None = None,
        *,
        place: str | None = None,
    ) -> None:
        """Use a key.

        Args:
            kind: What it names: a "question", an "effect", ... Keys of two kinds are two.
            key: The key.
            meaning: What it is used for.
            are_same: Whether two meanings are one; None if no two are.
            place: Where it is used; None for the author's line.

        Raises:
            TypeError: The key is not a text.
            ValueError: It is a text that no state can hold.
            KeyUsedTwice: It means something else in this round.
        """
        check_key(kind, key)
        earlier = self._uses.get((kind, key))
        if earlier is None:
            self._uses[kind, key] = _Use(meaning, place or _line_here())
        elif are_same is None or not are_same(earlier.meaning, meaning):
            raise KeyUsedTwice(
                f"the key {key!r} is used for two {kind}s: {earlier.place} and"
                f" {place or _line_here()}; give each a key of its own"
            )

    @contextmanager
    def taken(self, kind: str, key: str) -> Generator[None]:
        """Use a key in this block; where it fails, the key may be used again."""
        self.take(kind, key)
        try:
            yield
        except BaseException:
            self.give_back(kind, key)
            raise

    def give_back(self, kind: str, key: str) -> None:
        """Use a key no longer: what it was used for has failed."""
        del self._uses[kind, key]


def check_key(kind: str, key: object) -> None:
    """Check that a state can hold a key, before its effect has happened.

    Raises:
        TypeError: It is not a text.
        ValueError: It has half of a surrogate pair.
    """
    if not isinstance(key, str):
        raise TypeError(f"the key of the {kind} is {key!r}, and no text")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the key {key!r} of the {kind} is cut within a character") from None


def _line_here() -> _Line | str:
    """Return where the author's code uses a key: the innermost line that is not of this package."""
    frame = currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(_BETWEEN):
            return _Line(module, frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return "in a task"


# --- rounds by hand -----------------------------------------------------------------------------


@dataclass
class ByHand:
    """One run of a handler that reads its answers by hand.

    Attributes:
        params: The round's parameters.
        uses: The keys of its questions.
        answers: The answers that it read, by their questions' keys.
    """

    params: object
    uses: Uses = field(default_factory=Uses)
    answers: dict[str, BaseModel] = field(default_factory=dict[str, BaseModel])
