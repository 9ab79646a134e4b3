"""A shortest counterexample of the model, played on the real servers.

A round that takes several steps in the model becomes one delivery, at its last step. A round that
is still at work at the end of a counterexample ends by itself afterwards, which undoes no effect.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from model.check import MOST, Cell, LeaveOut, check, nothing
from model.search import Found
from model.world import World
from mrtr_options.review.bench.acts import BACK_OFF_SECONDS
from mrtr_options.review.bench.answers import AGREE, Accept
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.player import Player
from mrtr_options.review.bench.run import in_memory, run
from mrtr_options.review.bench.scenario import Caller, Scenario
from mrtr_options.review.bench.sender import on_the_wire
from mrtr_options.review.bench.setup import POLICIES, Setup
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.tool.weather import Destination
from tests.model.actions import CRASHES, TAKES, WORKS, request_of

SUBJECTS = {
    "nothing kept (E)": "E",
    "nothing kept (F)": "F",
    "nothing kept (J)": "J",
    "frame in memory (H)": "H",
    "guard (F)": "F+guard",
    "guard, named by key (J)": "J+guard+call-key",
    "durable record (L, K)": "L",
    "durable record, named by key": "L+call-key",
}
"""The subjects that play the model's mechanisms on the bench."""

DURABLE = "durable record (L, K)"
OPEN = (DURABLE, "calls again")
"""A mechanism and a client that have more states than a search looks at."""

FEW = 50_000
"""The states that are searched of that: its shortest counterexamples are among them."""


def search(cell: Cell, leave_out: LeaveOut = nothing) -> Found[World]:
    """Search a cell whole, if that can be done."""
    is_open = (cell.mechanism, cell.policy) == OPEN
    found = check(cell, leave_out=leave_out, most=FEW if is_open else MOST)
    assert found.closed is not is_open
    return found


DESTINATIONS: dict[str, Destination] = {
    "ignores keys": "ignores keys",
    "honours idempotency keys": "honours keys",
}
"""The bench's names of the model's destinations that are played."""

EFFECTS = {1: "audit", 3: "bill"}
"""The effects of rounds. Option E's later rounds audit, too."""
RESPONDS = ("respond", "keep frame")


def cannot_be_made(world: World, says: str) -> bool:
    """Return whether a step is a crash within a round that has no effect.

    The bench ends an instance at an effect or between requests.
    """
    crashes = CRASHES.fullmatch(says)
    if crashes is None:
        return False
    work = world.instances[int(crashes[1])].work
    return work is not None and work.request.round not in EFFECTS


@dataclass
class Delivery:
    """A request that reaches an instance.

    Attributes:
        instance: The instance that it reaches.
        attempt, round: The request.
        last: The number of its last action in the counterexample.
        effects: The effects that it did.
        crashed: Whether the instance died during it.
        responds: Whether its response was sent.
        is_seen: Whether the client takes the response.
    """

    instance: int
    attempt: int
    round: int
    last: int
    effects: tuple[str, ...] = ()
    crashed: bool = False
    responds: bool = False
    is_seen: bool = False


def deliveries_of(actions: list[str]) -> dict[int, Delivery]:
    """Return the deliveries of a counterexample by the number of their last action."""
    found: list[Delivery] = []
    at_work: dict[int, Delivery] = {}
    for number, action in enumerate(actions):
        takes = TAKES.fullmatch(action)
        works = WORKS.fullmatch(action)
        crashes = CRASHES.fullmatch(action)
        if takes:
            instance = int(takes[1])
            request = request_of(takes[2])
            answers = bool(takes[3])
            delivery = Delivery(instance, request.attempt, request.round, number, responds=answers)
            found.append(delivery)
            if not delivery.responds:
                at_work[instance] = delivery
        elif works:
            delivery = at_work[int(works[1])]
            delivery.last = number
            delivery.responds = works[2] in RESPONDS
            if works[2] in ("audit", "bill"):
                delivery.effects = (*delivery.effects, works[2])
            if delivery.responds:
                del at_work[delivery.instance]
        elif crashes:
            delivery = at_work.pop(int(crashes[1]), None)
            if delivery is not None:
                delivery.last = number
                delivery.crashed = True
    _see(actions, found)
    return {each.last: each for each in found}


def _see(actions: list[str], found: list[Delivery]) -> None:
    """Mark the deliveries whose response the client takes."""
    attempt = 1
    round_ = 1
    for number, action in enumerate(actions):
        takes_response = action.startswith(("user answers", "client gets"))
        if takes_response:
            mine = [
                each
                for each in found
                if (each.attempt, each.round) == (attempt, round_)
                if each.responds and each.last < number
            ]
            mine[-1].is_seen = True
        if action.startswith("user answers"):
            round_ += 1
        elif action.startswith(("client gets error", "client loses", "user wants")):
            attempt += 1
            round_ = 1


def player_of(actions: list[str], *, keyed: bool) -> Callable[[Player], Awaitable[None]]:
    """Return the client that plays a counterexample."""
    due = deliveries_of(actions)

    async def play(player: Player) -> None:
        first = Request("Springfield", key=new_call_key() if keyed else None)
        attempt = 1
        round_ = 1
        call = 1
        requests = {(1, 1): (call, first)}
        reply = Reply()
        for number, action in enumerate(actions):
            if action.startswith("user answers"):
                (key,) = reply.questions
                name = reply.name_of(key)
                answer = on_the_wire(Accept({name: AGREE[name]}))
                player.answer(call, name, answer)
                before = requests[attempt, round_][1]
                round_ += 1
                after = replace(before, answers={key: answer}, state=reply.state)
                requests[attempt, round_] = call, after
            elif action.startswith(("client gets error", "client loses", "user wants")):
                if action.startswith("user wants"):
                    call += 1
                    first = replace(first, key=new_call_key() if keyed else None)
                attempt += 1
                round_ = 1
                requests[attempt, 1] = call, first
            crashes = CRASHES.fullmatch(action)
            if number in due:
                delivery = due[number]
                mine = requests[delivery.attempt, delivery.round]
                got = await deliver(player, delivery, *mine)
                reply = got if delivery.is_seen else reply
            elif crashes:
                await player.instances.crash(int(crashes[1]))

    return play


async def deliver(player: Player, delivery: Delivery, call: int, request: Request) -> Reply:
    """Deliver a request; if the instance has to die, it dies around its effect."""
    ahead = EFFECTS.get(delivery.round)
    if delivery.crashed and delivery.effects:
        await player.instances.arm(f"crash@{delivery.effects[-1]}")
    elif delivery.crashed and ahead is not None:
        await player.instances.arm(f"down@{ahead}")
    lost = not delivery.is_seen
    reply = await player.play_round(request, [delivery.instance], call=call, lost=lost)
    await player.instances.arm(None)
    if delivery.crashed:
        if ahead is None:
            await player.instances.crash(delivery.instance)
        await player.wait(BACK_OFF_SECONDS)
    return reply


async def play(cell: Cell, actions: list[str]) -> History:
    """Play a counterexample of a cell on the real servers."""
    subject = subject_named(SUBJECTS[cell.mechanism])
    policy = POLICIES[[*POLICIES].index(cell.policy)]
    setup = Setup(fleet="free", policy=policy, destination=DESTINATIONS[cell.destination])
    calls = 1 + len([action for action in actions if action.startswith("user wants")])
    callers = (Caller("Springfield"),) * calls
    scenario = Scenario("model", "A counterexample of the model.", setup, callers)
    client = player_of(actions, keyed=subject.keyed)
    async with in_memory([subject]) as here:
        return await run(subject, scenario, here, client=client)
