"""States of the model that fit the events of a history so far."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from model.actions import Action
from model.world import Request, Response, World
from mrtr_options.review.bench.history import Sent

Path = tuple[Any, ...]
"""The steps to a state: the last one, and the path before it. Empty texts are no steps."""


class Exchange(NamedTuple):
    """A request on its way, as the model has it.

    Attributes:
        number: Its number in the history.
        place: The bench's instance that it was sent to.
        request: The model's request; None if its process has died.
        at: The model's instance on which its round is at work.
        response: The response to it.
        is_left: Whether nobody waits for its round, which is still at work.
    """

    number: int
    place: int
    request: Request | None
    at: int | None = None
    response: Response | None = None
    is_left: bool = False

    @property
    def waits(self) -> bool:
        """The question whether it was not taken yet."""
        return self.request is not None and self.at is None and self.response is None


class Here(NamedTuple):
    """A state of the model that fits the events so far.

    Attributes:
        world: The state.
        open: The requests on their way.
        sent: The model's request of each round of the bench.
        seen: The responses that reached a client.
        missed: The requests of which a response did not.
    """

    world: World = World()
    open: frozenset[Exchange] = frozenset()
    sent: frozenset[tuple[int, Request]] = frozenset()
    seen: frozenset[Response] = frozenset()
    missed: frozenset[Request] = frozenset()

    def without(self, exchange: Exchange) -> "Here":
        """Return it without an exchange."""
        return self._replace(open=self.open - {exchange})

    def missing(self, exchange: Exchange) -> "Here":
        """Return it with an exchange whose response did not reach its client."""
        missed = set[Request]() if exchange.request is None else {exchange.request}
        return self._replace(missed=self.missed | missed)

    def change(self, exchange: Exchange, world: World, **new: Any) -> "Here":
        """Return it with an exchange that has changed, in another state."""
        after = exchange._replace(**new)
        is_over = after.is_left and after.at is None
        left = self.open - {exchange}
        return self._replace(world=world, open=left if is_over else left | {after})


Ways = dict[Here, Path]

Step = tuple[Action | str, Here]
"""An action of the model, or a text for what is none, and the state after it."""


def spread(
    ways: Ways,
    steps: Callable[[Here], Iterable[Step]],
    most: int | None = None,
) -> Ways:
    """Return the states that some steps lead to, with the shortest path to each."""
    found = dict(ways)
    edge = [*ways]
    depth = 0
    while edge and depth != most:
        following: list[Here] = []
        for here in edge:
            for says, after in steps(here):
                if after not in found:
                    found[after] = (says, found[here])
                    following.append(after)
        edge = following
        depth += 1
    return found


def listed(path: Path) -> list[str]:
    """Return the steps of a path in their order."""
    steps: list[str] = []
    while path:
        says, path = path
        steps.append(str(says))
    return steps[::-1]


def has_lost(here: Here, request: Request) -> bool:
    """Return whether a request was sent and got no response that reached its client."""
    is_sent = any(each == request for _, each in here.sent)
    is_open = any(each.request == request for each in here.open if not each.is_left)
    is_answered = any(each.request == request for each in here.seen)
    return is_sent and not is_open and (request in here.missed or not is_answered)


def without_unread(here: Here) -> Here:
    """Return a state without the responses that no client can still take."""
    clients = [each for each in (here.world.client, here.world.other) if each is not None]
    mine = [each.waits_for for each in clients]
    mine += [each._replace(changed=not each.changed) for each in mine]
    responses = frozenset(each for each in here.world.responses if each.request in mine)
    seen = frozenset(each for each in here.seen if each.request in mine)
    missed = here.missed.intersection(mine)
    world = here.world._replace(responses=responses)
    return here._replace(world=world, seen=seen, missed=missed)


def opened(event: Sent, request: Request, here: Here) -> Here:
    """Return a state with one more request on its way."""
    exchange = Exchange(event.exchange, event.instance, request)
    sent = here.sent | {(event.sending, request)}
    return here._replace(open=here.open | {exchange}, sent=sent)


def go_on_waiting(here: Here, exchanges: Iterable[Exchange]) -> Here:
    """Return a state in which requests wait on, though the round that they waited for broke."""
    for exchange in exchanges:
        dead = exchange._replace(at=None, request=None)
        waiting = exchange._replace(at=None)
        here = here._replace(open=here.open - {dead} | {waiting})
    return here
