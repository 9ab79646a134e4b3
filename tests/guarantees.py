"""What the deck guarantees, as text to be copied or broken."""

import re

from mrtr_options.tool.catalogue import DECK, GUARANTEES


def entry_of(letter: str) -> str:
    """An option's table, as it stands beside a file of its own."""
    deck = (DECK / GUARANTEES).read_text(encoding="utf-8")
    (entry,) = re.findall(rf"^\[{letter}\]\n(.*?\n)(?:\n|\Z)", deck, re.MULTILINE | re.DOTALL)
    return entry
