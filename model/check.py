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
from model.paths import unfold
from model.search import Found, search
from model.world import Instance, Request, Step, World

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


LeaveOut = Callable[[World, str], bool]
"""Whether a step from a state, with this description, is left out of a search."""


def nothing(world: World, says: str) -> bool:
    """Leave nothing out."""
    return False


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


def steps_of(
    cell: Cell, *, wants_second: bool = True, leave_out: LeaveOut = nothing
) -> Callable[[World], Iterator[Step]]:
    """Return the next-state function of a cell."""

    def steps(world: World) -> Iterator[Step]:
        for says, after in all_steps(world, cell, wants_second=wants_second):
            if not leave_out(world, says):
                yield says, alike(after)

    return steps


def all_steps(world: World, cell: Cell, *, wants_second: bool) -> Iterator[Step]:
    """Yield every step, with the instances in their own places."""
    mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
    keyed = mechanism.client_sends_key
    yield from client.steps(world, cell.policy, wants_second, keyed=keyed)
    yield from network.steps(world, mechanism, cell.destination)


def check(
    cell: Cell, *, wants_second: bool = True, most: int = MOST, leave_out: LeaveOut = nothing
) -> Found[World]:
    """Search all states of a cell, without the steps that `leave_out` names."""
    steps = steps_of(cell, wants_second=wants_second, leave_out=leave_out)
    found = search(World(), steps, anomalies, lambda world: bool(world.client.told), most)
    shown = {
        name: unfold(how, name, lambda world: all_steps(world, cell, wants_second=wants_second))
        for name, how in found.counterexamples.items()
    }
    return found._replace(counterexamples=shown)


def alike(world: World) -> World:
    """Return the representative of the states that differ in nothing that can still be seen.

    A response that the client does not wait for is never read, and a frame of an abandoned attempt
    whose next request was never sent goes on no more.
    """
    instances = tuple(live(world, each) for each in world.instances)
    return in_order(without_unread_responses(world._replace(instances=instances)))


def in_order(world: World) -> World:
    """Return a state with its instances in one order."""
    if is_swapped(world):
        first, second = world.instances
        return world._replace(instances=(second, first))
    return world


def is_swapped(world: World) -> bool:
    """Return whether the instances of a state are in the other order."""
    first, second = world.instances
    return order(first) > order(second)


def without_unread_responses(world: World) -> World:
    """Return a state with no other responses than those that the client waits for."""
    awaited = world.client.waits_for
    waits = not world.client.told
    responses = frozenset(each for each in world.responses if waits and each.request == awaited)
    return world._replace(responses=responses)


def live(world: World, instance: Instance) -> Instance:
    """Return an instance with the frames that can still go on or be asked."""
    client = world.client
    if not instance.frames:
        return instance
    frames = {
        (attempt, last)
        for attempt, last in instance.frames
        if Request(attempt, last + 1) in world.requests
        or (attempt == client.waits_for.attempt and not client.told)
    }
    return instance._replace(frames=frozenset(frames))


def order(instance: Instance) -> tuple[tuple[int, int], tuple[str, ...], list[tuple[int, int]]]:
    """Return what an instance is sorted by."""
    frames = sorted(instance.frames)
    if instance.work is None:
        return (0, 0), (), frames
    return instance.work.request, instance.work.steps, frames
