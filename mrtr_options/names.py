"""Names that people type."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" with the known names close to `name`; "" if there is none."""
    near = get_close_matches(name, list(known), n=3)
    return f"did you mean {', '.join(near)}?" if near else ""
