"""Delivery: an instance takes any request that was ever sent, works in steps, or crashes."""

from collections.abc import Iterator

from model.destination import effect
from model.mechanism import Mechanism, Run
from model.world import Instance, Response, Step, Work, World


def steps(world: World, mechanism: Mechanism, destination: str) -> Iterator[Step]:
    """Yield what the network and the instances may do."""
    for index, instance in enumerate(world.instances):
        if instance.work is None:
            yield from deliver(world, index, mechanism)
        else:
            yield work(world, index, instance.work, mechanism, destination)
        if instance != Instance():
            yield f"instance {index} crashes", put(world, index, Instance())


def deliver(world: World, index: int, mechanism: Mechanism) -> Iterator[Step]:
    """Deliver a request, perhaps again, to any instance.

    The next request may reach another instance. MRTR: the measures that protect a state "do not by
    themselves guarantee single-use".
    """
    for request in sorted(world.requests):
        says = f"instance {index} takes attempt {request.attempt} round {request.round}"
        for outcome in mechanism.take(world, index, request):
            if isinstance(outcome, Response):
                yield f"{says}, answers at once", reply(world, outcome)
            else:
                yield says, start(world, index, outcome)


def start(world: World, index: int, run: Run) -> World:
    """Begin a round."""
    instance = world.instances[index]._replace(work=Work(run.request, run.steps))
    return put(world, index, instance)._replace(store=run.store)


def work(world: World, index: int, now: Work, mechanism: Mechanism, kind: str) -> Step:
    """Do the next step of a round: an effect, a record, or the response."""
    step, rest = now.steps[0], now.steps[1:]
    says = f"instance {index}: {step} (attempt {now.request.attempt} round {now.request.round})"
    left = Work(now.request, rest) if rest else None
    after = put(world, index, world.instances[index]._replace(work=left))
    if step in {"audit", "bill"}:
        call = mechanism.effect_key(world, now.request)
        done = effect(world.destination, kind, step, call)
        return says, after._replace(destination=done)
    if step == "respond":
        return says, reply(after, Response(now.request, now.request.round))
    return says, mechanism.record(after, index, now.request, step)


def reply(world: World, response: Response) -> World:
    """Put a response into the set of messages."""
    return world._replace(responses=world.responses | {response})


def put(world: World, index: int, instance: Instance) -> World:
    """Replace one instance."""
    instances = list(world.instances)
    instances[index] = instance
    return world._replace(instances=tuple(instances))
