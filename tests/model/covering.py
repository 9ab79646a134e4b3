"""Which transitions of the model are driven: all, some of the nearest, or those of one path."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from model.actions import Action
from model.world import World
from tests.model.driving import Differs, servers_of
from tests.model.walking import Drive, Graph, Transition


@dataclass
class Driven:
    """The result of driving a graph.

    Attributes:
        transitions: The number of transitions that the model has.
        is_whole: Whether all states were looked at for that.
        done: Those that were driven.
        steps: The number of actions.
        runs: The number of runs from the start.
        differs: The first difference, which ends the driving.
    """

    transitions: int
    is_whole: bool
    done: set[Transition] = field(default_factory=set[Transition])
    steps: int = 0
    runs: int = 0
    differs: str = ""


async def drive(
    graph: Graph, *, nearest: int | None = None, most: int | None = None, seed: int = 0
) -> Driven:
    """Drive every transition of a graph, or a sample of them.

    Args:
        graph: The graph.
        nearest: The number of states that are looked at, the nearest ones first; None for all.
        most: The number of transitions in the sample; None for all.
        seed: Draws the sample.
    """
    explored = graph.explore(nearest)
    found = Driven(len(explored.found), explored.is_whole)
    targets = [*explored.found]
    if most is not None and most < len(targets):
        targets = random.Random(seed).sample(targets, most)
    left = set(targets)
    for target in targets:
        if target in found.done:
            continue
        found.runs += 1
        async with servers_of(graph.cell) as servers:
            here = Drive(graph, servers)
            way = explored.way_to(target)
            try:
                while way:
                    for move in way:
                        found.steps += 1
                        if move.transition is not None:
                            found.done.add(move.transition)
                        await here.go(move)
                    way = graph.way_to_one_of(here.world, left - found.done)
            except Differs as error:
                found.differs = str(error)
                return found
    return found


async def follow(graph: Graph, actions: Sequence[Action]) -> World:
    """Drive one path, and return the state that the servers and the model have reached.

    Raises:
        Differs: The servers do something else than the model.
    """
    async with servers_of(graph.cell) as servers:
        here = Drive(graph, servers)
        for does in actions:
            await here.go(next(each for each in graph.moves(here.world) if each.does == does))
        return here.world
