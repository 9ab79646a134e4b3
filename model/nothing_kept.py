"""Nothing kept on the server: each round is computed from its request (options E, F, J)."""

from collections.abc import Iterator

from model.mechanism import Mechanism, Outcome, Run
from model.world import Request, World


class NothingKept(Mechanism):
    """A handler that runs for every delivery. E audits in each round; F and J in the first.

    J's idempotency key travels in the state, so it is the same for all rounds of an attempt.
    """

    def __init__(self, *, audit_each_round: bool, keyed: bool) -> None:
        self.audit_each_round = audit_each_round
        self.keyed = keyed
        self.settles_answers = keyed
        self.takes_early = not keyed

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Run the round, whether or not it ran before."""
        each = self.audit_each_round
        steps = self.effects(world, index, request, audit_each_round=each)
        yield Run(request, (*steps, "respond"), world.store)

    def effect_key(self, world: World, request: Request) -> int | None:
        """Return the attempt, if the option makes keys. A first round has no state yet: no key."""
        return request.attempt if self.keyed and request.round > 1 else None
