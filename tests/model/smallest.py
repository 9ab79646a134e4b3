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
from model.extras import BACK, EARLY, FAIL, NONE, OLD, REDEPLOY, SAME_USER, Extras
from model.frame import Frame
from model.network import named
from model.world import SPENT, Request, World

PRICES = {
    "client gets error: the round has another answer": "lost: the response to its first answer, if"
    " it does not go on with that; all other errors cost nothing",
    "client loses the response": "lost: one fault; nothing where the round died with its instance",
    "instance takes a request again": "twice, both, old, and lost where the client resends; nothing"
    " after a crash, a failure or a misrouted delivery, when the client sends it again by itself",
    "instance takes a round whose frame is elsewhere": "failover, and misrouted with the delivery"
    " to the right one after it",
    "instance crashes": "crash, crash@, down@, gone@, restart; the other instance's crash at the"
    " same moment is the same restart",
    "instance is replaced by version 2": "redeploy: one fault replaces both at once, between two"
    " requests; where a round is at work it is a crash, too",
    "effect fails": "fail@",
    "time passes": "expired",
    "user changes the answer": "back",
    "another call begins": "other",
    "client answers before it is asked": "early: tried alone",
    "user wants a second call": "again: tried alone",
}
"""The faults of the bench that a step of the model stands for; every other step costs nothing."""
FAULTS = (
    "time passes",
    "user changes",
    "another call",
    "client answers before",
    "user wants",
)
"""The beginnings of the steps that always cost one."""

TOGETHER: Extras = frozenset({OLD, REDEPLOY, FAIL, BACK, SAME_USER})
"""The extras that the explorer tries with other faults."""


class Priced(NamedTuple):
    """A state of the model, and what has been paid for.

    Attributes:
        world: The state.
        taken: The requests that an instance has taken.
        lost: The requests whose response is lost already.
        again: The requests that are sent again by a client, or by a fault that is paid for.
        crashed: Whether the last step was a crash.
        has_crashed: Whether an instance has crashed, or was replaced.
    """

    world: World = World()
    taken: frozenset[Request] = frozenset()
    lost: frozenset[Request] = frozenset()
    again: frozenset[Request] = frozenset()
    crashed: bool = False
    has_crashed: bool = False


def smallest(cell: Cell, most: int) -> dict[str, tuple[int, list[str]]]:
    """Return for each anomaly the least number of faults, at most `most`, and how it happens.

    Faults that the explorer tries alone are searched alone.
    """
    found: dict[str, tuple[int, list[str]]] = {}
    searches = [
        _Search(cell, wants_second=False, extras=TOGETHER).run(most),
        _Search(cell, wants_second=True, extras=NONE).run(min(most, 1)),
        _Search(cell, wants_second=False, extras=frozenset({EARLY})).run(min(most, 1)),
    ]
    for shown in searches:
        for name, (price, how) in shown.items():
            if name not in found or price < found[name][0]:
                found[name] = price, how
    return found


class _Search:
    """A 0-1 search of one cell."""

    def __init__(self, cell: Cell, *, wants_second: bool, extras: Extras) -> None:
        self.steps = steps_of(cell, wants_second=wants_second, extras=extras)
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)

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
        return first

    def priced_steps(self, here: Priced) -> Iterator[tuple[str, int, Priced]]:
        """Yield the steps from a state, with their prices."""
        is_mixed = len({each.version for each in here.world.instances}) > 1
        for says, world in self.steps(here.world):
            if is_mixed and "is replaced by" not in says:
                continue
            price, after = self.pay(here, says, world)
            yield says, price, after._replace(world=world, crashed="crashes" in says)

    def pay(self, here: Priced, says: str, after: World) -> tuple[int, Priced]:
        """Return the price of a step, and what is paid for after it."""
        if " takes " in says:
            return self.pay_for_delivery(here, says)
        if says.endswith("client loses the response"):
            return self.pay_for_loss(here, says)
        if says.startswith("client gets error"):
            return self.pay_for_error(here, says, after)
        return self.pay_for_failure(here, says, after)

    def pay_for_failure(self, here: Priced, says: str, after: World) -> tuple[int, Priced]:
        """Return the price of the end of an instance or a round, and of every other step."""
        at_work = requests_at_work(here.world)
        ended = at_work - requests_at_work(after)
        broken = here._replace(lost=here.lost | ended, again=here.again | ended)
        if " fails " in says:
            return 1, broken
        broken = broken._replace(has_crashed=True)
        if says.endswith("crashes"):
            return (0 if here.crashed else 1), broken
        if says.endswith("is replaced by version 2"):
            is_second = any(each.version > 1 for each in here.world.instances)
            first = 2 if at_work else 1
            return (0 if is_second else first), broken
        return (1 if says.startswith(FAULTS) else 0), here

    def pay_for_loss(self, here: Priced, says: str) -> tuple[int, Priced]:
        """Return the price of a lost response: nothing if its round broke off."""
        is_other = says.startswith("other") and here.world.other is not None
        caller = here.world.other if is_other else here.world.client
        assert caller is not None
        mine = caller.waits_for
        return (0 if mine in here.lost else 1), here._replace(lost=here.lost - {mine})

    def pay_for_error(self, here: Priced, says: str, after: World) -> tuple[int, Priced]:
        """Return the price of what a client makes of an error: nothing, but for one.

        If it does not go on with its first answer, the response to that was lost.
        """
        is_lost = says.endswith(SPENT) and here.world.client.changes > 0
        sent_again = here.again | {after.client.waits_for}
        return (1 if is_lost else 0), here._replace(again=sent_again)

    def pay_for_delivery(self, here: Priced, says: str) -> tuple[int, Priced]:
        """Return the price of a delivery."""
        request = delivered(here.world, says)
        index = int(says.removeprefix("instance ")[0])
        again = here.again
        price = 0
        if request in here.taken and request in again:
            again = again - {request}
        elif request in here.taken:
            price = 1
        if self.is_elsewhere(here, index, request):
            price += 1
            again = again | {request}
        return price, here._replace(taken=here.taken | {request}, again=again)

    def is_elsewhere(self, here: Priced, index: int, request: Request) -> bool:
        """Return whether the frame that a round goes on in is on the other instance.

        A frame that nobody asks any more is not in the state, though it is still on its instance.
        """
        if not isinstance(self.mechanism, Frame) or request.round == 1:
            return False
        has_frame = [
            any(attempt == request.attempt for attempt, _ in each.frames)
            for each in here.world.instances
        ]
        return not has_frame[index] and (any(has_frame) or not here.has_crashed)


def delivered(world: World, says: str) -> Request:
    """Return the request that an action delivers."""
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
