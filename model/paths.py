"""Shortest counterexamples with the instances' own numbers.

The search puts instances in one order, so its actions name an instance by its place at the time.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from model.actions import Action, OfInstance, Step
from model.reading import anomalies
from model.world import World


def unfold(
    actions: list[Action], name: str, steps: Callable[[World], Iterable[Step]]
) -> list[Action]:
    """Return a path of the same length whose actions name one instance by one number."""
    ways: dict[World, list[Action]] = {World(): []}
    for action in actions:
        after: dict[World, list[Action]] = {}
        for world, so_far in ways.items():
            for does, reached in steps(world):
                if nameless(does) == nameless(action):
                    after.setdefault(reached, [*so_far, does])
        ways = after
    shown = (how for world, how in ways.items() if name in anomalies(world))
    return next(shown, actions)


def nameless(action: Action) -> Action:
    """Return an action without the number of its instance."""
    return replace(action, instance=0) if isinstance(action, OfInstance) else action
