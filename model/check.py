"""Which mechanisms there are, and the check of one with a client and a destination."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from model import client, destination, network, other
from model.actions import Action, Confirms, Step
from model.durable import Durable
from model.extras import (
    EXTRAS,
    FORGETTING,
    NONE,
    OF_ANY_CLIENT,
    OTHER_USER,
    SAME_USER,
    Extras,
)
from model.frame import Frame, following
from model.guard import Guard
from model.mechanism import Mechanism
from model.nothing_kept import NothingKept
from model.paths import unfold
from model.reading import anomalies
from model.search import Found, search
from model.world import STRANGER, TWIN, Client, Instance, World

MOST = 400_000
MOST_WITH_EXTRAS = 100_000
BY_KEY = "guard, named by key (J)"
RECORDS = ("guard (F)", BY_KEY)
"""The mechanisms that are searched with each rule of forgetting."""
MECHANISMS: dict[str, Mechanism] = {
    "nothing kept (E)": NothingKept(audit_each_round=True, keyed=False),
    "nothing kept (F)": NothingKept(audit_each_round=False, keyed=False),
    "nothing kept (J)": NothingKept(audit_each_round=False, keyed=True),
    "frame in memory (H)": Frame(),
    "guard (F)": Guard(),
    BY_KEY: Guard("key", keyed=True),
    "guard, named by argument (J)": Guard("argument", keyed=True),
    "durable record (L, K)": Durable(),
    "durable record, named by key": Durable("key"),
}
FOR_EVERY_CLIENT = ("guard (F)", BY_KEY, "guard, named by argument (J)")
"""The mechanisms whose extras are searched for each client."""


LeaveOut = Callable[[World, Action], bool]
"""Whether an action in a state is left out of a search."""


def nothing(world: World, does: Action) -> bool:
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


def with_extras() -> Iterator[tuple[Cell, Extras]]:
    """Yield the cells that are searched with an extra, each alone: for a client that resends.

    With the guards most extras are searched for the other clients, too, and with the guard that has
    a key also where the destination honours keys. A rule of forgetting comes with either kind.
    """
    ignores, honours = destination.KINDS[:2]
    for mechanism, extra in product(MECHANISMS, EXTRAS):
        yield Cell(mechanism, "resends", ignores), frozenset({extra})
    others = [policy for policy in client.POLICIES if policy != "resends"]
    for mechanism, policy, extra in product(FOR_EVERY_CLIENT, others, OF_ANY_CLIENT):
        yield Cell(mechanism, policy, ignores), frozenset({extra})
    for policy, extra in product(client.POLICIES, OF_ANY_CLIENT):
        yield Cell(BY_KEY, policy, honours), frozenset({extra})
    for mechanism, rule, kind in product(RECORDS, FORGETTING, (ignores, honours)):
        yield Cell(mechanism, "resends", kind), frozenset({rule})


def steps_of(
    cell: Cell,
    *,
    wants_second: bool = True,
    leave_out: LeaveOut = nothing,
    extras: Extras = NONE,
) -> Callable[[World], Iterator[Step]]:
    """Return the next-state function of a cell."""

    def steps(world: World) -> Iterator[Step]:
        for does, after in all_steps(world, cell, wants_second=wants_second, extras=extras):
            if not leave_out(world, does):
                yield does, alike(after)

    return steps


def all_steps(
    world: World, cell: Cell, *, wants_second: bool, extras: Extras = NONE
) -> Iterator[Step]:
    """Yield every step, with the instances in their own places."""
    mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
    keyed = mechanism.client_sends_key
    one_call = {SAME_USER, OTHER_USER, *FORGETTING}
    again = wants_second and not extras & one_call
    manner = client.Manner(cell.policy, keyed)
    yield from client.steps(world, manner, again, extras)
    yield from network.steps(world, mechanism, cell.destination, extras)
    for extra, attempt in ((SAME_USER, TWIN), (OTHER_USER, STRANGER)):
        if extra in extras:
            is_same_call = mechanism.is_same_call(world, attempt)
            yield from other.steps(world, attempt, keyed=keyed, is_same_call=is_same_call)
    if extras.intersection(FORGETTING):
        yield from confirm(world, mechanism)


def confirm(world: World, mechanism: Mechanism) -> Iterator[Step]:
    """Let the client say that it has the result. No sentence has such a message: see CALL_KEY."""
    call = mechanism.call(world, world.client.waits_for)
    if world.client.told == "result" and call not in world.confirmed:
        yield Confirms(call), world._replace(confirmed=world.confirmed | {call})


def check(
    cell: Cell,
    *,
    wants_second: bool = True,
    most: int = MOST,
    leave_out: LeaveOut = nothing,
    extras: Extras = NONE,
) -> Found[World, Action]:
    """Search all states of a cell, without the steps that `leave_out` names."""
    steps = steps_of(cell, wants_second=wants_second, leave_out=leave_out, extras=extras)
    found = search(World(), steps, anomalies, lambda world: bool(world.client.told), most)

    def unreduced(world: World) -> Iterator[Step]:
        return all_steps(world, cell, wants_second=wants_second, extras=extras)

    shown = {name: unfold(how, name, unreduced) for name, how in found.counterexamples.items()}
    return found._replace(counterexamples=shown)


def alike(world: World) -> World:
    """Return the representative of the states that differ in nothing that can still be seen.

    A response that the client does not wait for is never read, and a frame of an abandoned attempt
    whose next request was never sent goes on no more.
    """
    instances = tuple(live(world, each) for each in world.instances)
    if instances != world.instances:
        world = world._replace(instances=instances)
    return in_order(without_unread_responses(world))


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
    """Return a state with no other responses than those that a client waits for."""
    awaited = [each.awaited for each in callers(world)]
    responses = frozenset(each for each in world.responses if each.request in awaited)
    if len(responses) == len(world.responses):
        return world
    return world._replace(responses=responses)


def callers(world: World) -> list[Client]:
    """Return the clients."""
    return [world.client] if world.other is None else [world.client, world.other]


def live(world: World, instance: Instance) -> Instance:
    """Return an instance with the frames that can still go on or be asked."""
    if not instance.frames:
        return instance._replace(changed=frozenset(), failed=frozenset())
    waiting = [each.waits_for.attempt for each in callers(world) if not each.told]
    sent = {(each.attempt, each.number) for each in world.requests}
    frames = {
        (attempt, last)
        for attempt, last in instance.frames
        if attempt in waiting or (attempt, following(instance, last)) in sent
    }
    attempts = {attempt for attempt, _ in frames}
    return instance._replace(
        frames=frozenset(frames),
        changed=frozenset(each for each in instance.changed if each[0] in attempts),
        failed=instance.failed & attempts,
    )


def order(instance: Instance) -> tuple[object, ...]:
    """Return what an instance is sorted by."""
    frames = sorted(instance.frames)
    more = instance.version, sorted(instance.changed), sorted(instance.failed)
    if instance.work is None:
        return (), (), frames, *more
    return instance.work.request, instance.work.steps, frames, *more
