"""The single-use guard: a round is reserved in a shared store, run once, and recorded.

MRTR, Server Requirements: servers for which a state must be consumed at most once "**MUST**
enforce that invariant server-side".
"""

from collections.abc import Iterator

from model.actions import Forgets, Step
from model.destination import KINDS
from model.extras import ANY_TIME, BELOW_MARK, WHEN_OLD
from model.mechanism import Mechanism, Outcome, Run
from model.world import (
    ROUNDS,
    SECOND_ERROR,
    SPENT,
    START_OVER,
    STRANGER,
    TWIN,
    WITH_CONSENT,
    Request,
    Response,
    World,
)

HONOURS, REFUSES = KINDS[1:]
CLOSED = (0, "closed")
"""The round and the state of the mark that stays of a call that is forgotten."""


class Guard(Mechanism):
    """The guard around F. `name` says which attempts are one call: "", "key" or "argument".

    `repeats` says that a round whose outcome is unknown is run again, as often as it breaks.
    """

    def __init__(self, name: str = "", *, keyed: bool = False, repeats: bool = False) -> None:
        self.name = name
        self.keyed = keyed
        self.repeats = repeats
        self.settles_answers = keyed

    @property
    def client_sends_key(self) -> bool:
        """The question whether its client names each call by a key."""
        return self.name == "key"

    def at(self, destination: str) -> Mechanism:
        """Return the guard as it may be for a destination.

        It repeats where calls have names and the destination absorbs what it has seen: by the key
        of each effect, or by what the effect is about.
        """
        absorbs = destination == REFUSES or (self.keyed and destination == HONOURS)
        repeats = bool(self.name) and absorbs
        return Guard(self.name, keyed=self.keyed, repeats=True) if repeats else self

    def call(self, world: World, request: Request) -> int:
        """Return the call of a request.

        By the client's key a repeated call is one call, and a second wanted call is another. By an
        argument both are one. Names of two users never meet.
        """
        second_is_wanted = world.client.wanted > 1
        if request.attempt == STRANGER or (request.attempt == TWIN and self.name != "argument"):
            return request.attempt
        if self.name == "argument" or (self.name == "key" and not second_is_wanted):
            return 1
        return request.attempt

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Repeat a recorded response, refuse an unknown outcome, wait, or reserve and run."""
        call = self.call(world, request)
        recorded = [round_ for each, round_, how in world.store if (each, how) == (call, "done")]
        if request.round == 1 and not self.name:
            yield self.run(world, index, call, request)
            return
        latest = max(recorded, default=0)
        wanted = max(latest, 1) if request.round == 1 else request.number
        is_late = request.round == 1 and bool(recorded)
        is_broken = (call, wanted, "begun") in world.store and not self.repeats
        later_is_begun = self.later_is_begun(world, call, request, wanted)
        if (call, *CLOSED) in world.store:
            yield Response(request, 0, START_OVER)
        elif wanted in recorded and not later_is_begun:
            yield self.recorded(world, call, request, wanted)
        elif self.at_work(world, call):
            return
        elif wanted in recorded and self.repeats:  # the question of the broken round is open again
            yield self.recorded(world, call, request, wanted)
        elif (call, wanted, "failed") in world.store and self.is_spent(world, call, request):
            yield Response(request, 0, SPENT)
        elif is_late or is_broken:
            yield Response(request, 0, SECOND_ERROR)
        elif self.is_spent(world, call, request):
            yield Response(request, 0, SPENT)
        else:
            yield self.run(world, index, call, request)

    def recorded(self, world: World, call: int, request: Request, number: int) -> Response:
        """Return the recorded response of a round, which took one answer."""
        if self.is_spent(world, call, request):
            return Response(request, 0, SPENT)
        marks = [how for each, round_, how in world.store if (each, round_) == (call, number)]
        asks = [int(how.removeprefix("asks ")) for how in marks if how.startswith("asks ")]
        question = asks[0] if asks else number % 10
        has_consent = request.round == 1 and number > WITH_CONSENT and question < ROUNDS
        return Response(request, question + WITH_CONSENT if has_consent else question)

    def is_spent(self, world: World, call: int, request: Request) -> bool:
        """Return whether the round was taken with another answer."""
        number = request.number
        is_taken = {(call, number, how) for how in ("begun", "done", "failed")} & world.store
        took_changed = (call, number, "changed") in world.store
        return request.round > 1 and bool(is_taken) and took_changed != request.changed

    def later_is_begun(self, world: World, call: int, request: Request, latest: int) -> bool:
        """Return whether a repeated first request finds a later round reserved and not recorded."""
        begun = [round_ for each, round_, how in world.store if (each, how) == (call, "begun")]
        return request.round == 1 and max(begun, default=0) > latest

    def at_work(self, world: World, call: int) -> bool:
        """Return whether a round of this call runs on an instance and is not recorded yet.

        An unnamed first request that is repeated is a call of its own.
        """
        works = [each.work for each in world.instances if each.work is not None]
        requests = [work.request for work in works if "record" in work.steps]
        of_calls = [each for each in requests if self.name or each.round > 1]
        return any(self.call(world, each) == call for each in of_calls)

    def run(self, world: World, index: int, call: int, request: Request) -> Run:
        """Reserve the round and run it; record it before the response leaves."""
        steps = (*self.effects(world, index, request), "record", "respond")
        if request.round == 1 and not self.name:
            return Run(request, steps, world.store)
        reserved = {(call, request.number, "begun")}
        if request.changed:
            reserved.add((call, request.number, "changed"))
        return Run(request, steps, world.store | reserved)

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Record the round's response."""
        call = self.call(world, request)
        asks = self.asks(world, index, request)
        done = {(call, request.number, "done")}
        is_of_version_2 = asks > ROUNDS
        if is_of_version_2:
            done.add((call, request.number, f"asks {asks}"))
        begun = (call, request.number, "begun")
        return world._replace(store=world.store - {begun} | done)

    def failed(self, world: World, index: int, request: Request) -> World:
        """Record that the outcome is unknown, with the answer; a repeated round stays open."""
        is_unnamed = request.round == 1 and not self.name
        if not is_unnamed and not self.repeats:
            failed = (self.call(world, request), request.number, "failed")
            world = world._replace(store=world.store | {failed})
        return super().failed(world, index, request)

    def effect_key(self, world: World, request: Request) -> int | None:
        """Return the call, if the option in the guard makes keys.

        A first round has no state yet that could keep a key. The store keeps it for a call that has
        a name; without one each run of the round has another key.
        """
        is_own_call = request.round == 1 and not self.name
        if is_own_call or not self.keyed:
            return None
        return self.call(world, request)

    def forget(self, world: World, rule: str) -> Iterator[Step]:
        """Forget a call with nothing at work, when the rule lets it."""
        for call in sorted({each for each, round_, _ in world.store if round_ != CLOSED[0]}):
            is_told = call in world.confirmed
            is_too_old = (call, 0) in world.old
            may_forget = {ANY_TIME: True, WHEN_OLD: is_too_old}.get(rule, is_told)
            if may_forget and not self.at_work(world, call):
                left = frozenset(each for each in world.store if each[0] != call)
                mark = {(call, *CLOSED)} if rule == BELOW_MARK else set[tuple[int, int, str]]()
                yield Forgets(call), world._replace(store=left | mark)
