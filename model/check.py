"""Which mechanisms there are, and the check of one with a client and a destination."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from model import client, destination, network
from model.anomalies import anomalies
from model.durable import Durable
from model.frame import Frame
from model.guard import Guard
from model.mechanism import Mechanism
from model.nothing_kept import NothingKept
from model.search import Found, search
from model.world import Instance, Step, World

MOST = 400_000
MECHANISMS: dict[str, Mechanism] = {
    "nothing kept (E)": NothingKept(audit_each_round=True, keyed=False),
    "nothing kept (F)": NothingKept(audit_each_round=False, keyed=False),
    "nothing kept (J)": NothingKept(audit_each_round=False, keyed=True),
    "frame in memory (H)": Frame(),
    "guard (F)": Guard(),
    "guard, named by key (J)": Guard("key", keyed=True),
    "guard, named by argument (J)": Guard("argument", keyed=True),
    "durable record (L, K)": Durable(),
    "durable record, named by key": Durable("key"),
}


class Cell(NamedTuple):
    """A mechanism with a client and a destination."""

    mechanism: str
    policy: str
    destination: str


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    for mechanism in MECHANISMS:
        for policy in client.POLICIES:
            for kind in destination.KINDS:
                yield Cell(mechanism, policy, kind)


def steps_of(cell: Cell, *, wants_second: bool = True) -> Callable[[World], Iterator[Step]]:
    """Return the next-state function of a cell."""
    mechanism = MECHANISMS[cell.mechanism]

    def steps(world: World) -> Iterator[Step]:
        for says, after in client.steps(world, cell.policy, wants_second):
            yield says, alike(after)
        for says, after in network.steps(world, mechanism, cell.destination):
            yield says, alike(after)

    return steps


def check(cell: Cell, *, wants_second: bool = True, most: int = MOST) -> Found[World]:
    """Search all states of a cell."""
    steps = steps_of(cell, wants_second=wants_second)
    return search(World(), steps, anomalies, lambda world: bool(world.client.told), most)


def alike(world: World) -> World:
    """Return the representative of the states that differ in the instances' order only."""
    first, second = world.instances
    if order(first) <= order(second):
        return world
    return world._replace(instances=(second, first))


def order(instance: Instance) -> tuple[tuple[int, int], tuple[str, ...], list[tuple[int, int]]]:
    """Return what an instance is sorted by."""
    frames = sorted(instance.frames)
    if instance.work is None:
        return (0, 0), (), frames
    return instance.work.request, instance.work.steps, frames
