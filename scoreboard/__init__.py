"""What others ship, under review: one folder for each kind of it. Knows the package."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from mrtr_options.errors import refuse

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
"""The folder of the repository."""


def chosen(names: str | None, known: Mapping[str, T], what: str) -> list[T]:
    """Those whose names are typed, with commas between them; all of them where none is."""
    for name in (wanted := [*known] if names is None else names.split(",")):
        if name not in known:
            refuse(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return [known[name] for name in wanted]
