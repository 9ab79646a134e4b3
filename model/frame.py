"""The frame in memory (option H): the handler waits in the instance that began it."""

from collections.abc import Iterator

from model.mechanism import Mechanism, Outcome, Run, effects
from model.world import START_OVER, Request, Response, World


class Frame(Mechanism):
    """A frame that goes on where it waits, and repeats its response to a repeated request.

    A repeated first request begins a frame of its own. The client goes on with one of them, so the
    model decides at the start which one that is: "keep frame" or "begin a frame nobody uses".
    """

    def take(self, world: World, index: int, request: Request) -> Iterator[Outcome]:
        """Begin a frame, go on in it, or refuse: another instance and a restart have none."""
        last = dict(world.instances[index].frames).get(request.attempt, 0)
        steps = effects(request.round, audit_each_round=False)
        if request.round == 1:
            yield Run(request, (*steps, "keep frame"), world.store)
            yield Run(request, (*steps, "begin a frame nobody uses"), world.store)
        elif request.round == last + 1:
            yield Run(request, (*steps, "keep frame"), world.store)
        elif request.round <= last:
            yield Response(request, request.round)
        else:
            yield Response(request, 0, START_OVER)

    def record(self, world: World, index: int, request: Request, step: str) -> World:
        """Keep the frame at its round, and respond."""
        response = Response(request, request.round)
        is_awaited = request == world.client.waits_for and not world.client.told
        is_taken = request.round == 1 and (response in world.responses or not is_awaited)
        if is_taken or step != "keep frame":
            return world
        frames = dict(world.instances[index].frames)
        frames[request.attempt] = request.round
        instances = list(world.instances)
        instances[index] = instances[index]._replace(frames=frozenset(frames.items()))
        responses = world.responses | {response}
        return world._replace(instances=tuple(instances), responses=responses)
