"""Names that people type."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Protocol, TypeVar


class Named(Protocol):
    """A thing with a name."""

    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=Named)


def by_name(things: Iterable[NamedT], noun: str) -> dict[str, NamedT]:
    """Return things by their names.

    Args:
        things: The things; one may come more than once.
        noun: The word for several of them.

    Raises:
        ValueError: Two have one name.
    """
    found: dict[str, NamedT] = {}
    for each in things:
        if found.setdefault(each.name, each) is not each:
            raise ValueError(f"there are two {noun} {each.name!r}; give one of them another name")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" with the known names close to `name`; "" if there is none."""
    near = get_close_matches(name, list(known), n=3)
    return f"did you mean {', '.join(near)}?" if near else ""
