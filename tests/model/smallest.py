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
    "instance is replaced by version 2": "redeploy: both are replaced by one fault",
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


class Priced(NamedTuple):
    """A state of the model, and what has been paid for.

    Attributes:
        world: The state.
        taken: The requests that an instance has taken.
        lost: The requests whose response is lost already.
        again: The requests that are sent again by a client, or by a fault that is paid for.
        crashed: Whether the last step was a crash.
    """

    world: World = World()
    taken: frozenset[Request] = frozenset()
    lost: frozenset[Request] = frozenset()
    again: frozenset[Request] = frozenset()
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
            price, after = self.pay(here, says, world)
            yield says, price, after._replace(world=world, crashed="crashes" in says)

    def pay(self, here: Priced, says: str, after: World) -> tuple[int, Priced]:
        """Return the price of a step, and what is paid for after it."""
        before = here.world
        ended = requests_at_work(before) - requests_at_work(after)
        broken = here._replace(lost=here.lost | ended, again=here.again | ended)
        if " takes " in says:
            return self.pay_for_delivery(here, says)
        is_second_redeploy = any(each.version > 1 for each in before.instances)
        is_paid = here.crashed if says.endswith("crashes") else is_second_redeploy
        if says.endswith(("crashes", "is replaced by version 2")):
            return (0 if is_paid else 1), broken
        if " fails " in says:
            return 1, broken
        if says.endswith("client loses the response"):
            is_other = says.startswith("other")
            caller = before.other if is_other and before.other else before.client
            mine = caller.waits_for
            return (0 if mine in here.lost else 1), here._replace(lost=here.lost - {mine})
        if says.startswith("client gets error"):
            return self.pay_for_error(here, says, after)
        return (1 if says.startswith(FAULTS) else 0), here

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
        if self.is_elsewhere(here.world, index, request):
            price += 1
            again = again | {request}
        return price, here._replace(taken=here.taken | {request}, again=again)

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
