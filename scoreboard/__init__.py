"""Reviews of what others ship, one folder for each kind. Knows the package."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from mrtr_options.errors import refuse

T = TypeVar("T")

ROOT = Path(__file__).parents[1]
"""The folder of the repository."""


def today() -> str:
    """Return the day, as in "2026-11-27"."""
    return datetime.now(UTC).date().isoformat()


def listed(names: str) -> list[str]:
    """Return the names in a list with commas, each once."""
    return [*dict.fromkeys(names.split(","))]


def chosen(names: str | None, known: Mapping[str, T], what: str) -> list[T]:
    """Return the items with these names, separated by commas; all items without names.

    An unknown name ends the command; `what` is the kind of item in its message, which has the items
    that begin so, or all, but twelve at most.
    """
    wanted = [*known] if names is None else listed(names)
    for name in wanted:
        if name not in known:
            near = [each for each in known if each.startswith(name)] or [*known]
            refuse(f"there is no {what} {name!r}; there are {', '.join(near[:12])}")
    return [known[name] for name in wanted]
