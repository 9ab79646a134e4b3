"""Digests that say whether kept verdicts are still those of the model."""

import ast
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

_ANNOTATIONS = {"annotation", "returns", "type_comment", "type_params"}
"""The fields of a syntax tree that say types."""


def of_code() -> str:
    """Return a digest of the modules that a search runs, and of the definitions of anomalies.

    Comments, docstrings, annotations and the layout of the code do not change it.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in PRINTING:
            digest.update(what_runs(path.read_text(encoding="utf-8")).encode())
    for each in ANOMALIES:
        _, _, definition = getsource(each.shows).partition("\ndef ")
        digest.update(f"{each.name}: {what_runs(f'def {definition}')}".encode())
    return digest.hexdigest()[:16]


def what_runs(source: str) -> str:
    """Return the syntax tree of a program as text, without what changes no result."""
    return _text_of(ast.parse(source))


def _text_of(node: object) -> str:
    """Return a part of a syntax tree as text, in the same words for each version of Python."""
    if isinstance(node, list):
        parts = cast("list[object]", node)
        return " ".join(_text_of(each) for each in parts if not _is_docstring(each))
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={_text_of(value)}"
        for name, value in ast.iter_fields(node)
        if name not in _ANNOTATIONS and value not in (None, [])
    )
    return f"{type(node).__name__}({' '.join(fields)})"


def _is_docstring(node: object) -> bool:
    """Return whether a statement is a string alone, as docstrings are."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


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
