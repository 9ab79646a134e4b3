"""A breadth-first search of all states: shortest counterexamples, and states that cannot end."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)
A = TypeVar("A")


class Found(NamedTuple, Generic[S, A]):
    """Results of a search. `closed` is false where the bound on states ended it."""

    states: int
    transitions: int
    depth: int
    closed: bool
    counterexamples: dict[str, list[A]]

    @property
    def in_words(self) -> dict[str, list[str]]:
        """The counterexamples, each action in words."""
        return {name: [str(each) for each in how] for name, how in self.counterexamples.items()}


def search(
    start: S,
    steps: Callable[[S], Iterable[tuple[A, S]]],
    wrong: Callable[[S], Iterable[str]],
    ended: Callable[[S], bool],
    most: int,
) -> Found[S, A]:
    """Search all states from `start`, at most `most` of them."""
    origin: dict[S, tuple[S, A] | None] = {start: None}
    depth = {start: 0}
    before: dict[S, list[S]] = {}
    first: dict[str, S] = {}
    queue, transitions = deque([start]), 0
    while queue and len(origin) <= most:
        state = queue.popleft()
        for name in wrong(state):
            first.setdefault(name, state)
        for action, after in steps(state):
            transitions += 1
            before.setdefault(after, []).append(state)
            if after not in origin:
                origin[after] = (state, action)
                depth[after] = depth[state] + 1
                queue.append(after)
    closed = not queue
    if closed:
        live = reaching([each for each in origin if ended(each)], before)
        stuck = next((each for each in origin if each not in live), None)
        if stuck is not None:
            first["never ends"] = stuck
    shown = {name: path(origin, state) for name, state in first.items()}
    return Found(len(origin), transitions, max(depth.values()), closed, shown)


def reaching(ends: Iterable[S], before: dict[S, list[S]]) -> set[S]:
    """Return the states from which one of `ends` can be reached."""
    seen = set(ends)
    left = list(seen)
    while left:
        fresh = [each for each in before.get(left.pop(), []) if each not in seen]
        seen.update(fresh)
        left.extend(fresh)
    return seen


def path(origin: dict[S, tuple[S, A] | None], state: S) -> list[A]:
    """Return the actions of the shortest way to a state."""
    actions: list[A] = []
    while (came := origin[state]) is not None:
        state, action = came
        actions.append(action)
    return actions[::-1]
