"""The durable record (options K, L): a crashed round goes on from its last recorded step."""

from collections.abc import Iterator

from model.guard import Guard
from model.mechanism import Mechanism, Outcome, Run
from model.world import ENDED, SPENT, START_OVER, Request, Response, World

BROKEN = ("broken", "broken, too")
"""The marks of a first round without a name that a crash of either instance has left behind."""


class Durable(Guard):
    """A guard that takes a broken round up again, with the same idempotency key.

    An instance does so by itself, or at the next request.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__(name, keyed=True)

    def at(self, destination: str) -> Mechanism:
        """Return itself: a broken round goes on in any case."""
        return self

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Take up a broken round, else do as the guard does.

        An effect that took place and was not recorded happens again: steps are at least once. A
        call whose effect failed has ended, and another version does not take up a call.
        """
        call = self.call(world, request)
        broken = [round_ for each, round_, how in world.store if (each, how) == (call, "begun")]
        is_named = request.round > 1 or bool(self.name)
        failed = [round_ for each, round_, how in world.store if (each, how) == (call, "failed")]
        is_of_failed = bool(failed) and (request.round == 1 or request.number in failed)
        if is_named and is_of_failed:
            is_spent = self.is_spent(world, call, request)
            yield Response(request, 0, SPENT if is_spent else ENDED)
        elif is_named and self.is_of_another_version(world, index, call, request):
            yield Response(request, 0, START_OVER)
        elif broken and is_named and not self.at_work(world, call):
            again = self.taken_up(world, call, request, max(broken))
            run: Run = self.run(world, index, call, again)
            yield run._replace(request=again)
        else:
            yield from super().take(world, index, request)

    def taken_up(self, world: World, call: int, request: Request, number: int) -> Request:
        """Return the request whose round goes on: with its own answer, or with the new one."""
        took_changed = (call, number, "changed") in world.store
        changed = request.changed if request.number == number else took_changed
        return request._replace(round=number % 10, consented=number > 10, changed=changed)

    def is_of_another_version(self, world: World, index: int, call: int, request: Request) -> bool:
        """Return whether a call that is not over was begun by another version."""
        mine = world.instances[index].version
        begun_by = [round_ for each, round_, how in world.store if (each, how) == (call, "version")]
        is_new = all(each != call for each, _, _ in world.store)
        has_ended = (call, 3, "done") in world.store or (call, 13, "done") in world.store
        version = 1 + bool(begun_by)
        return not is_new and not has_ended and version != mine

    def run(self, world: World, index: int, call: int, request: Request) -> Run:
        """Run the round, and note the version that began its call."""
        run = super().run(world, index, call, request)
        if world.instances[index].version > 1 and request.round == 1:
            return run._replace(store=run.store | {(call, 0, "version")})
        return run

    def crashed(self, world: World, index: int) -> World:
        """End an instance; note a first round without a name, which can be gone on with."""
        work = world.instances[index].work
        after = super().crashed(world, index)
        is_unnamed = work is not None and work.request.round == 1 and not self.name
        if work is None or not is_unnamed or "record" not in work.steps:
            return after
        return after._replace(store=after.store | {(work.request.attempt, 1, BROKEN[index])})

    def goes_on(self, world: World, index: int) -> Iterator[Run]:
        """Go on with a broken round, for no client: an instance looks for them when it starts."""
        for call, number, how in sorted(world.store):
            is_broken = how in BROKEN or (how == "begun" and not self.at_work(world, call))
            changed = (call, number, "changed") in world.store
            request = Request(call, number % 10, changed, consented=number > 10)
            if is_broken and not self.is_of_another_version(world, index, call, request):
                steps = (*self.effects(world, index, request), "record")
                mark = {(call, number, how)} if how in BROKEN else set[tuple[int, int, str]]()
                yield Run(request, steps, world.store - mark)

    def failed(self, world: World, index: int, request: Request) -> World:
        """Record that the call has ended in an error."""
        call = self.call(world, request)
        is_named = request.round > 1 or bool(self.name)
        if is_named:
            begun = (call, request.number, "begun")
            world = world._replace(store=world.store - {begun})
        return super().failed(world, index, request)
