"""What a mechanism is: how a request is taken, and what its steps record."""

from collections.abc import Iterator
from typing import NamedTuple

from model.actions import Step
from model.world import (
    CONSENT,
    CONSENT_LAST,
    FAILED,
    ROUNDS,
    Instance,
    Request,
    Response,
    World,
    put,
    reply,
)


class Run(NamedTuple):
    """A decision to run a round: its steps, and the store after the reservation."""

    request: Request
    steps: tuple[str, ...]
    store: frozenset[tuple[int, int, str]]


Outcome = Response | Run


class Mechanism:
    """A way to write the server. A request that gets no outcome waits."""

    settles_answers = False
    """The question whether the state keeps an answer to a later question than the open one."""
    takes_early = False
    """The question whether it takes answers to questions that it has not asked."""
    refuses_old = True
    """The question whether it refuses states that are too old."""

    @property
    def client_sends_key(self) -> bool:
        """The question whether its client names each call by a key."""
        return False

    def at(self, destination: str) -> "Mechanism":
        """Return the mechanism as it is set up for a destination."""
        return self

    def call(self, world: World, request: Request) -> int:
        """Return the call that a request belongs to, as the server tells calls apart."""
        return request.attempt

    def is_same_call(self, world: World, attempt: int) -> bool:
        """Return whether the server takes another attempt for one at the client's call."""
        mine = self.call(world, world.client.waits_for)
        return self.call(world, Request(attempt, 1)) == mine

    def is_too_old(self, world: World, request: Request) -> bool:
        """Return whether a request's state, or the key of a first request, is too old."""
        if request.round == 1:
            return self.client_sends_key and (self.call(world, request), 0) in world.old
        return (request.attempt, request.state) in world.old

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Yield what becomes of a request."""
        raise NotImplementedError

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Do a step that is no effect and no response."""
        raise NotImplementedError(step)

    def crashed(self, world: World, index: int) -> World:
        """End an instance, with all that it has in memory; another takes its place."""
        return put(world, index, Instance(version=world.instances[index].version))

    def goes_on(self, world: World, index: int) -> Iterator[Run]:
        """Yield the broken rounds that an idle instance goes on with by itself."""
        return iter(())

    def failed(self, world: World, index: int, request: Request) -> World:
        """Respond that an effect of a round failed."""
        return reply(world, Response(request, 0, FAILED))

    def forget(self, world: World, rule: str) -> Iterator[Step]:
        """Yield the calls that a rule lets the server forget; none without a record."""
        return iter(())

    def asks(self, world: World, index: int, request: Request) -> int:
        """Return the question that a round ends with, or that it ends with the result."""
        if request.early and self.takes_early:
            return ROUNDS
        lacks_consent = world.instances[index].version > 1 and not request.consented
        if lacks_consent and request.round == 2:
            return CONSENT
        if lacks_consent and request.round == ROUNDS:
            return CONSENT_LAST if self.settles_answers else CONSENT
        return request.round

    def effects(
        self, world: World, index: int, request: Request, *, audit_each_round: bool = False
    ) -> tuple[str, ...]:
        """Return a round's effects: the audit above the questions, the bill below them."""
        audit = ("audit",) if request.round == 1 or audit_each_round else ()
        bill = ("bill",) if self.asks(world, index, request) == ROUNDS else ()
        return audit + bill

    def effect_key(self, world: World, request: Request) -> int | None:
        """Return the call in an effect's idempotency key; None where effects have no key."""
        return None
