"""Walks through the model's graph that take every transition, each one driven on the servers."""

import math
import random
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from model.check import MECHANISMS, Cell, all_steps, in_order, is_swapped, without_unread_responses
from model.frame import Frame
from model.guard import Guard
from model.mechanism import Mechanism
from model.world import Request, Response, World
from tests.model.driving import REASONS, Differs, Gate, Servers, kind_of, servers_of
from tests.model.playing import CRASHES, TAKES, WORKS

WAITS = re.compile(r"instance (\d) lets attempt (\d) round (\d) wait")

EFFECTS = ("audit", "bill")
FAR = 4
"""How far a walk looks for a transition that is left before it begins again."""


class Transition(NamedTuple):
    """A transition of the servers, up to the names of the instances.

    Attributes:
        before: What the servers can see of the state: all but the client's own memory.
        says: The action.
    """

    before: tuple[object, ...]
    says: str


class Move(NamedTuple):
    """An action from a state, and the state after it. `transition` is None for the client's own."""

    says: str
    after: World
    transition: Transition | None


def is_of_servers(says: str) -> bool:
    """Return whether an action is one of the servers, and not of the client."""
    return says.startswith("instance ")


def seen_by_servers(world: World, mechanism: Mechanism) -> tuple[object, ...]:
    """Return what decides how the servers answer."""
    same = in_order(world)
    seen: tuple[object, ...] = (same.instances, same.store, same.destination)
    if isinstance(mechanism, Guard):
        return (*seen, same.client.wanted)
    if isinstance(mechanism, Frame):
        return (*seen, same.client.waits_for, bool(same.client.told), same.responses)
    return seen


class Graph:
    """The model's graph of a cell, with the moves in which a request has to wait."""

    def __init__(self, cell: Cell, *, wants_second: bool = True) -> None:
        self.cell = cell
        self.wants_second = wants_second
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
        self.moves = lru_cache(maxsize=200_000)(self._moves)

    def _moves(self, world: World) -> tuple[Move, ...]:
        moves = [
            Move(says, without_unread_responses(after), self.transition(world, says))
            for says, after in all_steps(world, self.cell, wants_second=self.wants_second)
        ]
        moves += [Move(says, world, self.transition(world, says)) for says in self.waits(world)]
        return tuple(moves)

    def waits(self, world: World) -> Iterator[str]:
        """Yield the deliveries that get no response yet, since their call is at work."""
        for index, instance in enumerate(world.instances):
            if instance.work is None:
                for request in sorted(world.requests):
                    if not [*self.mechanism.take(world, index, request)]:
                        yield (
                            f"instance {index} lets attempt {request.attempt}"
                            f" round {request.round} wait"
                        )

    def transition(self, world: World, says: str) -> Transition | None:
        """Return the transition that an action is; None for one of the client."""
        if not is_of_servers(says):
            return None
        name = says
        if is_swapped(world):
            name = re.sub(r"instance (\d)", lambda found: f"instance {1 - int(found[1])}", says)
        first, second = in_order(world).instances
        if first == second:
            name = re.sub(r"instance \d", "instance 0", name)
        return Transition(seen_by_servers(world, self.mechanism), name)

    def transitions(self) -> dict[Transition, int]:
        """Return every transition that can be reached, with its distance from the start."""
        start = World()
        depth = {start: 0}
        queue = deque([start])
        found: dict[Transition, int] = {}
        while queue:
            world = queue.popleft()
            for move in self.moves(world):
                if move.transition is not None:
                    found.setdefault(move.transition, depth[world])
                after = in_order(move.after)
                if after not in depth:
                    depth[after] = depth[world] + 1
                    queue.append(after)
        return found

    def way_to_one_of(self, start: World, left: set[Transition], far: int | None) -> list[Move]:
        """Return the moves to the nearest transition that is left, with it; none if it is too far.

        Args:
            start: The state to begin in.
            left: The transitions that are left.
            far: The most moves; None for any number.
        """
        origin: dict[World, tuple[World, Move] | None] = {start: None}
        queue = deque([(start, 1)])
        while queue:
            world, length = queue.popleft()
            for move in self.moves(world):
                if move.transition in left:
                    return [*_way(origin, world), move]
                is_near = far is None or length < far
                if is_near and move.after not in origin:
                    origin[move.after] = (world, move)
                    queue.append((move.after, length + 1))
        return []


def _way(origin: dict[World, tuple[World, Move] | None], world: World) -> list[Move]:
    moves: list[Move] = []
    step = origin[world]
    while step is not None:
        world, move = step
        moves.append(move)
        step = origin[world]
    return moves[::-1]


@dataclass
class Drive:
    """A path of the model, as far as it has been driven on the servers.

    Attributes:
        graph: The model.
        servers: The servers.
        world: The model's state.
        actions: The actions so far.
    """

    graph: Graph
    servers: Servers
    world: World = field(default_factory=World)
    actions: list[str] = field(default_factory=list[str])

    async def go(self, move: Move) -> None:
        """Do an action on both sides, and compare them.

        Raises:
            Differs: The servers do something else than the model. The text has the whole path.
        """
        self.actions.append(move.says)
        takes = TAKES.fullmatch(move.says)
        works = WORKS.fullmatch(move.says)
        crashes = CRASHES.fullmatch(move.says)
        waits = WAITS.fullmatch(move.says)
        if takes:
            await self.take(int(takes[1]), Request(int(takes[2]), int(takes[3])), move.after)
        elif works:
            await self.work(int(works[1]), works[2], move.after)
        elif crashes:
            self.servers.crash(int(crashes[1]))
        elif waits:
            await self.wait(int(waits[1]), Request(int(waits[2]), int(waits[3])))
        else:
            await self.act(move)
        self.world = move.after
        done = self.world.destination
        self.compare("the effects", (done.audits, done.bills), await self.servers.effects())

    async def take(self, index: int, request: Request, after: World) -> None:
        """Deliver a request to an instance that is idle."""
        late = self.is_left_behind(request)
        gate = await self.servers.take(index, request, late=late)
        work = after.instances[index].work
        if work is not None:
            self.compare_place(gate, request, work.steps)
            return
        (outcome,) = self.graph.mechanism.take(self.world, index, request)
        assert isinstance(outcome, Response)
        self.compare_reply(gate, outcome)
        self.servers.replies[request, outcome.asks] = gate.reply

    async def wait(self, index: int, request: Request) -> None:
        """Deliver a request whose call is at work. No delivery waits: it is told so."""
        gate = await self.servers.take(index, request, late=False)
        self.compare("the place of the round", "", gate.at)
        self.compare("the response", (0, "still_at_work"), kind_of(gate.reply))

    async def work(self, index: int, step: str, after: World) -> None:
        """Let a round take its next step."""
        now = self.world.instances[index].work
        assert now is not None
        gate = self.servers.gates[index]
        if gate.at == step:
            await gate.open()
        elif step not in EFFECTS:
            self.compare_reply(gate, Response(now.request, now.request.round))
        else:
            self.compare("the place of the round", step, gate.at)
        left = after.instances[index].work
        if left is not None:
            self.compare_place(gate, left.request, left.steps)
        elif step != "begin a frame nobody uses" and self.is_taken_by_client(index, after):
            self.servers.replies[now.request, now.request.round] = gate.reply

    def is_taken_by_client(self, index: int, after: World) -> bool:
        """Return whether the client may go on with a round's response.

        A frame whose client goes on with another one is not kept by the model.
        """
        if not isinstance(self.graph.mechanism, Frame):
            return True
        return after.instances[index].frames != self.world.instances[index].frames

    async def act(self, move: Move) -> None:
        """Do what the client does."""
        before = self.world.client.waits_for
        after = move.after.client.waits_for
        if move.says.startswith("user answers"):
            await self.servers.answer(before, after)
        elif after.attempt > before.attempt:
            is_same_call = not move.says.startswith("user wants")
            self.servers.call_again(before, after, is_same_call=is_same_call)

    def is_left_behind(self, request: Request) -> bool:
        """Return whether a crash has left a round of the request's call behind."""
        mechanism = self.graph.mechanism
        if not isinstance(mechanism, Guard):
            return False
        call = mechanism.call(self.world, request)
        is_begun = any((each, how) == (call, "begun") for each, _, how in self.world.store)
        return is_begun and not mechanism.at_work(self.world, call)

    def compare_place(self, gate: Gate, request: Request, steps: tuple[str, ...]) -> None:
        """Compare where a round is: before an effect or its record, or at its end."""
        mechanism = self.graph.mechanism
        is_unnamed = request.round == 1 and not getattr(mechanism, "name", "")
        records = isinstance(mechanism, Guard) and not is_unnamed
        expected = next(
            (step for step in steps if step in EFFECTS or (records and step == "record")), ""
        )
        self.compare("the place of the round", expected, gate.at)
        if not expected:
            self.compare_reply(gate, Response(request, request.round))

    def compare_reply(self, gate: Gate, expected: Response) -> None:
        """Compare a response."""
        asks, reason = kind_of(gate.reply)
        self.compare("the response", expected.asks, asks)
        if expected.error and reason not in REASONS[expected.error]:
            self.compare("the reason", expected.error, reason)

    def compare(self, what: str, model: object, code: object) -> None:
        """Compare one thing."""
        if model != code:
            path = "\n  ".join(self.actions)
            raise Differs(f"{what}: model {model!r}, code {code!r}, after\n  {path}")


@dataclass
class Driven:
    """The result of driving a cell.

    Attributes:
        transitions: The number of transitions that the model has.
        left: Those that were not driven.
        steps: The number of actions.
        runs: The number of runs from the start.
        differs: The first difference of each run that ended in one.
    """

    transitions: int
    left: set[Transition]
    steps: int = 0
    runs: int = 0
    differs: list[str] = field(default_factory=list[str])

    @property
    def driven(self) -> int:
        """The number of transitions that were driven."""
        return self.transitions - len(self.left)


async def drive(
    graph: Graph,
    *,
    most_steps: float = math.inf,
    most_differences: float = math.inf,
    seed: int | None = None,
) -> Driven:
    """Drive the transitions of a cell, or a sample of them.

    Args:
        graph: The cell's graph.
        most_steps: The number of actions after which no further run begins.
        most_differences: The number of differences after which no further run begins.
        seed: Draws the order in which transitions are looked for; None for the nearest first.
    """
    depths = graph.transitions()
    found = Driven(len(depths), set(depths))
    targets = sorted(depths, key=lambda each: (depths[each], repr(each)))
    if seed is not None:
        random.Random(seed).shuffle(targets)
    for target in targets:
        is_over = found.steps >= most_steps or len(found.differs) >= most_differences
        if target in found.left and not is_over:
            found.runs += 1
            async with servers_of(graph.cell) as servers:
                try:
                    await walk(Drive(graph, servers), target, found)
                except Differs as error:
                    found.differs.append(str(error))
    return found


async def walk(here: Drive, target: Transition, found: Driven) -> None:
    """Drive one run: to a transition, and on to others that are left as long as one is near.

    Raises:
        Differs: The servers do something else than the model.
    """
    way = here.graph.way_to_one_of(here.world, {target}, None)
    while way:
        for move in way:
            found.steps += 1
            if move.transition is not None:
                found.left.discard(move.transition)
            await here.go(move)
        way = here.graph.way_to_one_of(here.world, found.left, FAR)
