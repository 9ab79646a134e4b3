"""The durable record (options K, L): a crashed round goes on from its last recorded step."""

from collections.abc import Iterator

from model.guard import Guard
from model.mechanism import Mechanism, Outcome, Run
from model.world import Request, World


class Durable(Guard):
    """A guard that takes a broken round up again, with the same idempotency key."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name, keyed=True)

    def at(self, destination: str) -> Mechanism:
        """Return itself: a broken round goes on in any case."""
        return self

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Take up a broken round, else do as the guard does.

        An effect that took place and was not recorded happens again: steps are at least once.
        """
        call = self.call(world, request)
        broken = [round_ for each, round_, how in world.store if (each, how) == (call, "begun")]
        may_take_up = request.round > 1 or bool(self.name)
        if broken and may_take_up and not self.at_work(world, call):
            again = Request(request.attempt, max(broken))
            run: Run = self.run(world, call, again)
            yield run._replace(request=again)
        else:
            yield from super().take(world, index, request)
