"""Delivery: an instance takes any request that was ever sent, works in steps, or crashes."""

from collections.abc import Iterator

from model.actions import Crashes, GoesOn, IsReplaced, KeyAges, StatesAge, Step, Takes, Works
from model.destination import effect
from model.extras import FAIL, FORGETTING, NONE, OLD, REDEPLOY, WHEN_OLD, Extras
from model.mechanism import Mechanism, Outcome, Run
from model.world import (
    RENEWED,
    ROUNDS,
    STRANGER,
    TAKES_OLD,
    TOO_OLD,
    TWIN,
    Instance,
    Request,
    Response,
    Work,
    World,
    put,
    reply,
)


def steps(
    world: World, mechanism: Mechanism, destination: str, extras: Extras = NONE
) -> Iterator[Step]:
    """Yield what the network and the instances may do."""
    for index, instance in enumerate(world.instances):
        if instance.work is None:
            yield from deliver(world, index, mechanism)
            for run in mechanism.goes_on(world, index):
                yield GoesOn(index, run.request), start(world, index, run)
        else:
            yield work(world, index, instance.work, mechanism, destination)
        if FAIL in extras and instance.work is not None:
            yield from effect_fails(world, index, instance.work, mechanism)
        crashed = mechanism.crashed(world, index)
        if crashed != world:
            yield Crashes(index), crashed
        if REDEPLOY in extras and instance.version == 1:
            yield IsReplaced(index), put(world, index, Instance(version=2))
    if extras & {OLD, WHEN_OLD}:
        yield from time_passes(world, mechanism, keys_age=WHEN_OLD in extras)
    for rule in sorted(extras.intersection(FORGETTING)):
        yield from mechanism.forget(world, rule)


def deliver(world: World, index: int, mechanism: Mechanism) -> Iterator[Step]:
    """Deliver a request, perhaps again, to any instance.

    The next request may reach another instance. MRTR: the measures that protect a state "do not by
    themselves guarantee single-use".
    """
    for request in sorted(world.requests):
        for outcome, after in outcomes(world, index, mechanism, request):
            yield Takes(index, request, isinstance(outcome, Response)), after


def outcomes(
    world: World, index: int, mechanism: Mechanism, request: Request
) -> Iterator[tuple[Outcome, World]]:
    """Yield what becomes of a request at an idle instance, with the state after it."""
    is_too_old = mechanism.is_too_old(world, request)
    if is_too_old and mechanism.refuses_old:
        refused = Response(request, 0, TOO_OLD)
        yield refused, reply(world, refused)
        return
    for outcome in mechanism.take(world, index, request):
        if isinstance(outcome, Response):
            yield outcome, reply(world, outcome)
        else:
            after = start(world, index, outcome)
            more = {TAKES_OLD} if is_too_old else set[str]()
            yield outcome, after._replace(noticed=after.noticed | more)


def start(world: World, index: int, run: Run) -> World:
    """Begin a round."""
    instance = world.instances[index]._replace(work=Work(run.request, run.steps))
    return put(world, index, instance)._replace(store=run.store)


def work(world: World, index: int, now: Work, mechanism: Mechanism, kind: str) -> Step:
    """Do the next step of a round: an effect, a record, or the response."""
    step, rest = now.steps[0], now.steps[1:]
    does = Works(index, step, now.request)
    left = Work(now.request, rest) if rest else None
    after = put(world, index, world.instances[index]._replace(work=left))
    if step in {"audit", "bill"}:
        call = mechanism.effect_key(world, now.request)
        is_of_another_place = step == "bill" and now.request.changed
        is_other = now.request.attempt == TWIN and is_of_another_place
        thing = 1 if is_other or now.request.attempt == STRANGER else 0
        done = effect(world.destination, kind, step, call, thing)
        return does, after._replace(destination=done)
    if step == "respond":
        asks = mechanism.asks(world, index, now.request)
        return does, reply(after, Response(now.request, asks))
    return does, mechanism.record(after, index, now.request, step)


def effect_fails(world: World, index: int, now: Work, mechanism: Mechanism) -> Iterator[Step]:
    """Let an effect fail, which ends the round in an error."""
    if now.steps[0] in {"audit", "bill"}:
        after = put(world, index, world.instances[index]._replace(work=None))
        fails = Works(index, now.steps[0], now.request, fails=True)
        yield fails, mechanism.failed(after, index, now.request)


def time_passes(world: World, mechanism: Mechanism, *, keys_age: bool) -> Iterator[Step]:
    """Let the states of an attempt up to a round be too old; and a key, good for longer."""
    for request in sorted(world.requests):
        attempt, last = request.attempt, request.round
        sent = [each for each in world.requests if each.attempt == attempt and each.round <= last]
        renewed = {(attempt, each.state) for each in sent if each.renewed}
        older = {(attempt, each) for each in range(2, last + 1)} | renewed
        if older - world.old:
            yield StatesAge(attempt, last), world._replace(old=world.old | older)
        call = mechanism.call(world, request)
        if keys_age and (call, 0) not in world.old:
            of_call = {
                each.attempt for each in world.requests if mechanism.call(world, each) == call
            }
            states = [*range(2, ROUNDS + 1), *range(2 + RENEWED, ROUNDS + RENEWED + 1)]
            every = {(call, 0), *((each, state) for each in of_call for state in states)}
            yield KeyAges(call), world._replace(old=world.old | every)
