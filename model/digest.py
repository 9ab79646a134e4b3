"""Digests that say whether kept verdicts are still those of the model."""

from collections.abc import Hashable
from hashlib import blake2b, sha256
from inspect import getsource
from pathlib import Path
from typing import cast

from model.actions import Action
from model.world import World
from mrtr_options.review.judge.anomalies import ANOMALIES

PRINTING = ("__main__.py", "digest.py", "drawing.py", "kept.py")
"""The modules that change no search."""


def of_code() -> str:
    """Return a digest of the modules that a search runs, and of the definitions of anomalies."""
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in PRINTING:
            digest.update(path.read_bytes())
    for each in ANOMALIES:
        _, _, definition = getsource(each.shows).partition("\ndef ")
        digest.update(f"{each.name}: {definition}".encode())
    return digest.hexdigest()[:16]


class GraphDigest:
    """The sum of the hashes of every state with each of its actions.

    Pass it as `leave_out` of a search: it takes note of each step and leaves none out.
    """

    def __init__(self) -> None:
        self._sum = 0
        self._texts: dict[Hashable, str] = {}
        self._last: tuple[World | None, str] = (None, "")

    def __call__(self, world: World, does: Action) -> bool:
        """Take note of a step."""
        if self._last[0] is not world:
            self._last = world, " ".join(map(self._text, world))
        noted = f"{self._last[1]}: {does}".encode()
        self._sum += int.from_bytes(blake2b(noted, digest_size=8).digest())
        return False

    @property
    def hex(self) -> str:
        """The digest."""
        return f"{self._sum % 2**64:016x}"

    def _text(self, part: object) -> str:
        """Return the same text for the same part in each process."""
        if isinstance(part, tuple | frozenset):
            parts = cast("tuple[object, ...] | frozenset[object]", part)
            if parts not in self._texts:
                self._texts[parts] = self._of_many(parts)
            return self._texts[parts]
        return str(int(part)) if isinstance(part, int) else repr(part)

    def _of_many(self, parts: tuple[object, ...] | frozenset[object]) -> str:
        texts = map(self._text, parts)
        if isinstance(parts, frozenset):
            return "{" + " ".join(sorted(texts)) + "}"
        return "(" + " ".join(texts) + ")"
