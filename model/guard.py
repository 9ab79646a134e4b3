"""The single-use guard: a round is reserved in a shared store, run once, and recorded.

MRTR, Server Requirements: servers for which a state must be consumed at most once "**MUST**
enforce that invariant server-side".
"""

from collections.abc import Iterator

from model.destination import KINDS
from model.mechanism import Mechanism, Outcome, Run, effects
from model.world import SECOND_ERROR, Request, Response, World

HONOURS = KINDS[1]


class Guard(Mechanism):
    """The guard around F. `name` says which attempts are one call: "", "key" or "argument".

    `repeats` says that a round whose outcome is unknown is run again, as often as it breaks.
    """

    def __init__(self, name: str = "", *, keyed: bool = False, repeats: bool = False) -> None:
        self.name = name
        self.keyed = keyed
        self.repeats = repeats

    @property
    def client_sends_key(self) -> bool:
        """The question whether its client names each call by a key."""
        return self.name == "key"

    def at(self, destination: str) -> Mechanism:
        """Return the guard as it may be for a destination.

        It repeats where the client sends a key, and the destination honours that of each effect.
        """
        repeats = self.name == "key" and self.keyed and destination == HONOURS
        return Guard(self.name, keyed=True, repeats=True) if repeats else self

    def call(self, world: World, request: Request) -> int:
        """Return the call of a request.

        By the client's key a repeated call is one call, and a second wanted call is another. By an
        argument both are one.
        """
        second_is_wanted = world.client.wanted > 1
        if self.name == "argument" or (self.name == "key" and not second_is_wanted):
            return 1
        return request.attempt

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Repeat a recorded response, refuse an unknown outcome, wait, or reserve and run."""
        call = self.call(world, request)
        recorded = [round_ for each, round_, how in world.store if (each, how) == (call, "done")]
        if request.round == 1 and not self.name:
            yield self.run(world, call, request)
            return
        latest = max(recorded, default=0)
        wanted = max(latest, 1) if request.round == 1 else request.round
        is_late = request.round == 1 and bool(recorded)
        is_broken = (call, wanted, "begun") in world.store and not self.repeats
        later_is_begun = request.round == 1 and (call, wanted + 1, "begun") in world.store
        if wanted in recorded and not later_is_begun:
            yield Response(request, wanted)
        elif self.at_work(world, call):
            return
        elif wanted in recorded and self.repeats:  # the question of the broken round is open again
            yield Response(request, wanted)
        elif is_late or is_broken:
            yield Response(request, 0, SECOND_ERROR)
        else:
            yield self.run(world, call, request)

    def at_work(self, world: World, call: int) -> bool:
        """Return whether a round of this call runs on an instance and is not recorded yet.

        An unnamed first request that is repeated is a call of its own.
        """
        works = [each.work for each in world.instances if each.work is not None]
        requests = [work.request for work in works if "record" in work.steps]
        of_calls = [each for each in requests if self.name or each.round > 1]
        return any(self.call(world, each) == call for each in of_calls)

    def run(self, world: World, call: int, request: Request) -> Run:
        """Reserve the round and run it; record it before the response leaves."""
        steps = (*effects(request.round, audit_each_round=False), "record", "respond")
        if request.round == 1 and not self.name:
            return Run(request, steps, world.store)
        return Run(request, steps, world.store | {(call, request.round, "begun")})

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Record the round's response."""
        call = self.call(world, request)
        begun = (call, request.round, "begun")
        return world._replace(store=world.store - {begun} | {(call, request.round, "done")})

    def effect_key(self, world: World, request: Request) -> int | None:
        """Return the call, if the option in the guard makes keys.

        An unnamed first request that is repeated begins another call, whose key is another one.
        """
        is_own_call = request.round == 1 and not self.name
        if is_own_call or not self.keyed:
            return None
        return self.call(world, request)
