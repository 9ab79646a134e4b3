"""The frame in memory (option H): the handler waits in the instance that began it."""

from collections.abc import Iterator

from model.mechanism import Mechanism, Outcome, Run
from model.world import ENDED, SPENT, START_OVER, Instance, Request, Response, World, put

ROUNDS_OF = {1: (1, 2, 3), 2: (1, 2, 12, 13)}
"""The numbers of a version's rounds, in their order."""


class Frame(Mechanism):
    """A frame that goes on where it waits, and repeats its response to a repeated request.

    A repeated first request begins a frame of its own. The client goes on with one of them, so the
    model decides at the start which one that is: "keep frame" or "begin a frame nobody uses".
    """

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Begin a frame, go on in it, or refuse: another instance and a restart have none."""
        instance = world.instances[index]
        last = dict(instance.frames).get(request.attempt, 0)
        steps = self.effects(world, index, request)
        if request.round == 1:
            yield Run(request, (*steps, "keep frame"), world.store)
            yield Run(request, (*steps, "begin a frame nobody uses"), world.store)
        elif request.number == following(instance, last) and request.attempt not in instance.failed:
            yield Run(request, (*steps, "keep frame"), world.store)
        elif last == 0 or request.number not in self.numbers_until(instance, last):
            yield Response(request, 0, START_OVER)
        elif not self.has_taken(instance, request):
            yield Response(request, 0, SPENT)
        elif request.number == last and request.attempt in instance.failed:
            yield Response(request, 0, ENDED)
        else:
            yield Response(request, self.asks(world, index, request))

    def numbers_until(self, instance: Instance, last: int) -> tuple[int, ...]:
        """Return the numbers of the rounds that a frame has taken."""
        return tuple(each for each in ROUNDS_OF[instance.version] if each <= last)

    def has_taken(self, instance: Instance, request: Request) -> bool:
        """Return whether a frame took this round's request with this answer."""
        took_changed = (request.attempt, request.number) in instance.changed
        return request.changed == took_changed

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Keep the frame at its round, and respond."""
        response = Response(request, self.asks(world, index, request))
        clients = (world.client, world.other)
        is_awaited = any(each is not None and each.awaited == request for each in clients)
        is_taken = request.round == 1 and (response in world.responses or not is_awaited)
        if is_taken or step != "keep frame":
            return world
        instance = world.instances[index]
        frames = dict(instance.frames)
        frames[request.attempt] = request.number
        changed = instance.changed
        if request.changed:
            changed |= {(request.attempt, request.number)}
        kept = instance._replace(frames=frozenset(frames.items()), changed=changed)
        return put(world, index, kept)._replace(responses=world.responses | {response})

    def failed(self, world: World, index: int, request: Request) -> World:
        """End the frame in an error, which it repeats; a first round's frame has no name yet."""
        instance = world.instances[index]
        if request.round > 1:
            frames = dict(instance.frames) | {request.attempt: request.number}
            failed = instance.failed | {request.attempt}
            instance = instance._replace(frames=frozenset(frames.items()), failed=failed)
        return super().failed(put(world, index, instance), index, request)


def following(instance: Instance, last: int) -> int | None:
    """Return the number of the round that follows one in a frame; None if no frame waits."""
    if last == 0:
        return None
    rounds = ROUNDS_OF[instance.version]
    after = rounds.index(last) + 1
    return rounds[after] if after < len(rounds) else None
