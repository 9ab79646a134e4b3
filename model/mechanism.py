"""What a mechanism is: how a request is taken, and what its steps record."""

from collections.abc import Iterator
from typing import NamedTuple

from model.world import Request, Response, World


class Run(NamedTuple):
    """A decision to run a round: its steps, and the store after the reservation."""

    request: Request
    steps: tuple[str, ...]
    store: frozenset[tuple[int, int, str]]


Outcome = Response | Run


class Mechanism:
    """A way to write the server. A request that gets no outcome waits."""

    @property
    def client_sends_key(self) -> bool:
        """The question whether its client names each call by a key."""
        return False

    def at(self, destination: str) -> "Mechanism":
        """Return the mechanism as it is set up for a destination."""
        return self

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Yield what becomes of a request."""
        raise NotImplementedError

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Do a step that is no effect and no response."""
        raise NotImplementedError(step)

    def effect_key(self, world: World, request: Request) -> int | None:
        """Return the call in an effect's idempotency key; None where effects have no key."""
        return None


def effects(round_: int, *, audit_each_round: bool) -> tuple[str, ...]:
    """Return a round's effects: the audit above the questions, the bill below them."""
    audit = ("audit",) if round_ == 1 or audit_each_round else ()
    bill = ("bill",) if round_ == 3 else ()
    return audit + bill
