"""The least number of faults with which the model shows an anomaly.

A 0-1 search: a step costs one if it stands for a fault of the bench, and nothing if it is what
servers and clients do by themselves. `PRICES` says which step costs what. A fault of the bench that
is several steps of the model is paid with its first one; what it pays for is kept as credit.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from model.anomalies import anomalies
from model.check import MECHANISMS, Cell, steps_of
from model.extras import NONE, Extras
from model.frame import Frame
from model.world import FAILED, SECOND_ERROR, TOO_OLD, Request, World

PRICES = {
    "client loses the response": "lost: one fault; nothing where the round died with its instance",
    "instance takes a request again": "twice, both, old, and lost where the client resends; nothing"
    " after a crash, a failure or a misrouted delivery, when the client sends it again by itself",
    "instance takes a round whose frame is elsewhere": "failover, and misrouted with the delivery"
    " to the right one after it",
    "instance crashes": "crash, crash@, down@, gone@, restart; the other instance's crash at the"
    " same moment is the same restart",
    "instance is replaced by version 2": "redeploy: both are replaced by one fault",
    "effect fails": "fail@",
    "time passes": "expired",
    "user changes the answer": "back",
    "another call begins": "other",
    "client answers before it is asked": "early: tried alone",
    "user wants a second call": "again: tried alone",
}
"""The faults of the bench that a step of the model stands for; every other step costs nothing."""


class Priced(NamedTuple):
    """A state of the model, and what has been paid for.

    Attributes:
        world: The state.
        taken: The requests that an instance has taken.
        credit: The requests that the client may lose or send again for nothing.
        crashed: Whether the last step was a crash.
    """

    world: World = World()
    taken: frozenset[Request] = frozenset()
    credit: frozenset[Request] = frozenset()
    crashed: bool = False


def smallest(
    cell: Cell, most: int, *, wants_second: bool = False, extras: Extras = NONE
) -> dict[str, tuple[int, list[str]]]:
    """Return for each anomaly the least number of faults, at most `most`, and how it happens."""
    search = _Search(cell, wants_second=wants_second, extras=extras)
    return search.run(most)


class _Search:
    """A 0-1 search of one cell."""

    def __init__(self, cell: Cell, *, wants_second: bool, extras: Extras) -> None:
        self.steps = steps_of(cell, wants_second=wants_second, extras=extras)
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
        self.states = 0

    def run(self, most: int) -> dict[str, tuple[int, list[str]]]:
        """Search the states that cost at most `most`."""
        start = Priced()
        cost = {start: 0}
        origin: dict[Priced, tuple[Priced, str] | None] = {start: None}
        first: dict[str, tuple[int, list[str]]] = {}
        queue = deque([start])
        done: set[Priced] = set()
        while queue:
            here = queue.popleft()
            if here in done:
                continue
            done.add(here)
            for name in anomalies(here.world) - first.keys():
                first[name] = cost[here], path(origin, here)
            for says, price, after in self.priced_steps(here):
                paid = cost[here] + price
                if paid <= most and paid < cost.get(after, most + 1):
                    cost[after] = paid
                    origin[after] = here, says
                    if price:
                        queue.append(after)
                    else:
                        queue.appendleft(after)
        self.states = len(done)
        return first

    def priced_steps(self, here: Priced) -> Iterator[tuple[str, int, Priced]]:
        """Yield the steps from a state, with their prices."""
        for says, world in self.steps(here.world):
            price, taken, credit = self.pay(here, says, world)
            crashed = "crashes" in says
            yield says, price, Priced(world, taken, credit, crashed)

    def pay(
        self, here: Priced, says: str, after: World
    ) -> tuple[int, frozenset[Request], frozenset[Request]]:
        """Return the price of a step, the requests taken after it, and the credit that is left."""
        before = here.world
        taken, credit = here.taken, here.credit
        waits_for = before.client.waits_for
        if " takes " in says:
            return self.pay_for_delivery(here, says)
        if says.endswith("crashes"):
            died = requests_at_work(before) - requests_at_work(after)
            return (0 if here.crashed else 1), taken, credit | died
        if "is replaced by" in says:
            is_second = any(each.version > 1 for each in before.instances)
            died = requests_at_work(before) - requests_at_work(after)
            return (0 if is_second else 1), taken, credit | died
        if " fails " in says:
            failed = requests_at_work(before) - requests_at_work(after)
            return 1, taken, credit | failed
        if says.endswith("client loses the response"):
            mine = (
                before.other.waits_for if says.startswith("other") and before.other else waits_for
            )
            return (0 if mine in credit else 1), taken, credit - {mine}
        if says.startswith("client gets error"):
            return 0, taken, credit | {after.client.waits_for}
        is_fault = says.startswith(
            (
                "time passes",
                "user changes",
                "another call begins",
                "client answers before",
                "user wants",
            )
        )
        return (1 if is_fault else 0), taken, credit

    def pay_for_delivery(
        self, here: Priced, says: str
    ) -> tuple[int, frozenset[Request], frozenset[Request]]:
        """Return the price of a delivery."""
        request = delivered(here.world, says)
        index = int(says.removeprefix("instance ")[0])
        credit = here.credit
        price = 0
        if request in here.taken and request in credit:
            credit = credit - {request}
        elif request in here.taken:
            price = 1
        if self.is_elsewhere(here.world, index, request):
            price += 1
            credit = credit | {request}
        return price, here.taken | {request}, credit

    def is_elsewhere(self, world: World, index: int, request: Request) -> bool:
        """Return whether the frame that a round goes on in is on the other instance."""
        if not isinstance(self.mechanism, Frame) or request.round == 1:
            return False
        has_frame = [
            any(attempt == request.attempt for attempt, _ in each.frames)
            for each in world.instances
        ]
        return any(has_frame) and not has_frame[index]


def delivered(world: World, says: str) -> Request:
    """Return the request that an action delivers."""
    from model.network import named

    words = says.split(" takes ")[1].removesuffix(", answers at once")
    return next(each for each in world.requests if named(each) == words)


def requests_at_work(world: World) -> frozenset[Request]:
    """Return the requests whose rounds are at work."""
    return frozenset(each.work.request for each in world.instances if each.work is not None)


def path(origin: dict[Priced, tuple[Priced, str] | None], state: Priced) -> list[str]:
    """Return the steps to a state."""
    steps: list[str] = []
    while (came := origin[state]) is not None:
        state, says = came
        steps.append(says)
    return steps[::-1]
