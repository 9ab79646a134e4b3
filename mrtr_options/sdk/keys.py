"""A key means one thing in a round.

Keys name questions and effects across rounds and across versions of the code. Within one round a
key belongs to one question (its message and its form) or to one effect. A second use for something
else would get the first one's answer, or would not run at all; it is an error that names both
places.

Knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from inspect import currentframe
from pathlib import Path
from types import FrameType
from typing import Any

_BETWEEN = ("mrtr_options.sdk.", "contextlib")
_LOOPS = ("anyio", "asyncio", "trio")


class KeyUsedTwice(ValueError):
    """A key is used for two things in one round."""


@dataclass(frozen=True, slots=True)
class _Use:
    meaning: object
    place: str


def _never(one: Any, other: Any) -> bool:
    return False


class Uses:
    """The keys that one round has used, each with what for and where."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, str], _Use] = {}

    def take(
        self,
        kind: str,
        key: str,
        meaning: object = None,
        are_same: Callable[[Any, Any], bool] = _never,
        *,
        place: str | None = None,
    ) -> None:
        """Use a key.

        Args:
            kind: What it names: a "question", an "effect", ... Keys of two kinds are two.
            key: The key.
            meaning: What it is used for.
            are_same: Whether two meanings are one; by default no two are.
            place: Where it is used; None for the author's line.

        Raises:
            TypeError: The key is not a text.
            ValueError: It is a text that no state can hold.
            KeyUsedTwice: It means something else in this round.
        """
        check_key(kind, key)
        earlier = self._uses.get((kind, key))
        if earlier is None:
            self._uses[kind, key] = _Use(meaning, place or _place())
        elif not are_same(earlier.meaning, meaning):
            raise KeyUsedTwice(
                f"the key {key!r} is used for two {kind}s in one round: {earlier.place} and"
                f" {place or _place()}; give each a key of its own"
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


def _place() -> str:
    """Where the author's code uses a key: the innermost line that is not of this package."""
    frame = currentframe()
    while frame is not None and _module_of(frame).startswith(_BETWEEN):
        frame = frame.f_back
    if frame is None or _module_of(frame).partition(".")[0] in _LOOPS:
        return "in a task"
    code = frame.f_code
    return f"in {code.co_qualname} at {Path(code.co_filename).name}:{frame.f_lineno}"


def _module_of(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "")


# --- rounds by hand -----------------------------------------------------------------------------


@dataclass
class ByHand:
    """One run of a handler that reads its answers by hand.

    Attributes:
        params: The round's parameters.
        uses: The keys of its questions.
        lengths: How long each answer is that it read, by its question's key.
    """

    params: object
    uses: Uses = field(default_factory=Uses)
    lengths: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class _Request:
    """A request. It may run its handler several times, one after the other."""

    latest: ByHand | None = None


_request: ContextVar[_Request | None] = ContextVar("request", default=None)


@contextmanager
def request_begun() -> Generator[None]:
    """Have the tasks of this block share the rounds of one request."""
    token = _request.set(_Request())
    try:
        yield
    finally:
        _request.reset(token)


def by_hand(params: object) -> ByHand:
    """Return the run of a handler with these parameters."""
    request = _request.get()
    if request is None:
        request = _Request()
        _request.set(request)
    if request.latest is None or request.latest.params is not params:
        request.latest = ByHand(params)
    return request.latest


def latest_by_hand() -> ByHand | None:
    """Return the run that last read an answer in this request; None if none did."""
    request = _request.get()
    return None if request is None else request.latest
