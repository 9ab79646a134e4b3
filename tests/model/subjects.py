"""The subjects of the bench that play the model's mechanisms, and the whole search of a cell."""

from model.actions import Action
from model.check import MOST, Cell, check
from model.search import Found
from model.world import World

SUBJECTS = {
    "nothing kept (E)": "E",
    "nothing kept (F)": "F",
    "nothing kept (J)": "J",
    "frame in memory (H)": "H",
    "guard (F)": "F+guard",
    "guard, named by key (J)": "J+guard+call-key",
    "durable record (L, K)": "L",
    "durable record, named by key": "L+call-key",
}
"""The subjects that play the model's mechanisms on the bench."""

DURABLE = "durable record (L, K)"
OPEN = (DURABLE, "calls again")
"""A mechanism and a client that have more states than a search looks at."""

FEW = 50_000
"""The states that are searched of that: its shortest counterexamples are among them."""


def search(cell: Cell) -> Found[World, Action]:
    """Search a cell whole, if that can be done."""
    is_open = (cell.mechanism, cell.policy) == OPEN
    found = check(cell, most=FEW if is_open else MOST)
    assert found.closed is not is_open
    return found
