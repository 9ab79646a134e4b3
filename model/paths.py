"""Shortest counterexamples with the instances' own numbers.

The search puts instances in one order, so its actions name an instance by its place at the time.
"""

import re
from collections.abc import Callable, Iterable

from model.reading import anomalies
from model.world import Step, World


def unfold(actions: list[str], name: str, steps: Callable[[World], Iterable[Step]]) -> list[str]:
    """Return a path of the same length whose actions name one instance by one number."""
    ways: dict[World, list[str]] = {World(): []}
    for action in actions:
        after: dict[World, list[str]] = {}
        for world, so_far in ways.items():
            for says, reached in steps(world):
                if nameless(says) == nameless(action):
                    after.setdefault(reached, [*so_far, says])
        ways = after
    shown = (how for world, how in ways.items() if name in anomalies(world))
    return next(shown, actions)


def nameless(action: str) -> str:
    """Return an action without the number of its instance."""
    return re.sub(r"instance \d", "instance", action)
