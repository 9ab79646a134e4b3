"""Walks through the model's graph that take every transition, each one driven on the servers."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from model.actions import (
    Action,
    Answers,
    AnswersEarly,
    BeginsOther,
    Changes,
    Crashes,
    Forgets,
    IsReplaced,
    Keeps,
    KeyAges,
    OfInstance,
    OfOther,
    OfServers,
    StatesAge,
    Takes,
    WantsSecond,
    Works,
)
from model.check import MECHANISMS, Cell, all_steps, in_order, is_swapped, without_unread_responses
from model.extras import NONE, Extras
from model.frame import Frame
from model.guard import Guard
from model.mechanism import Mechanism
from model.network import outcomes
from model.search import path
from model.world import CONSENT, FAILED, WITH_CONSENT, Client, Request, Response, World
from tests.model.driving import REASONS, Differs, Sent, Servers, kind_of
from tests.model.gates import EFFECTS, Gate

FAR = 4
"""How far a walk looks for a transition that is left before it begins again."""


class Transition(NamedTuple):
    """A transition of the servers, up to the names of the instances.

    Attributes:
        before: What the servers can see of the state: all but the client's own memory.
        does: The action.
    """

    before: tuple[object, ...]
    does: Action


class Move(NamedTuple):
    """An action from a state, and the state after it. `transition` is None for the client's own."""

    does: Action
    after: World
    transition: Transition | None


@dataclass(frozen=True, slots=True)
class Waits(OfInstance):
    """An instance is given a request that gets no response yet. It is no step of the model."""

    request: Request

    def __str__(self) -> str:
        return f"instance {self.instance} lets {self.request} wait"


def seen_by_servers(world: World, mechanism: Mechanism) -> tuple[object, ...]:
    """Return what decides how the servers answer."""
    same = in_order(world)
    seen: tuple[object, ...] = (same.instances, same.store, same.destination, same.old)
    if isinstance(mechanism, Guard):
        return (*seen, same.client.wanted)
    if isinstance(mechanism, Frame):
        clients = (each for each in (same.client, same.other) if each is not None)
        awaited = tuple(each.awaited for each in clients)
        return (*seen, awaited, same.responses)
    return seen


class Graph:
    """The model's graph of a cell, with the moves in which a request has to wait."""

    def __init__(self, cell: Cell, *, wants_second: bool = True, extras: Extras = NONE) -> None:
        self.cell = cell
        self.wants_second = wants_second
        self.extras = extras
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
        self.moves = lru_cache(maxsize=200_000)(self._moves)

    def _moves(self, world: World) -> tuple[Move, ...]:
        steps = all_steps(world, self.cell, wants_second=self.wants_second, extras=self.extras)
        moves = [
            Move(does, without_unread_responses(after), self.transition(world, does))
            for does, after in steps
            if not self.loses_consent(world, does)
        ]
        moves += [Move(does, world, self.transition(world, does)) for does in self.waits(world)]
        return tuple(moves)

    def loses_consent(self, world: World, does: Action) -> bool:
        """Return whether version 1 takes an answer that it has no place for, which is not modelled.

        Only a record of all answers keeps it for version 2.
        """
        keeps = self.mechanism.settles_answers or isinstance(self.mechanism, Frame)
        if keeps or not isinstance(does, Takes) or not does.request.consented:
            return False
        return world.instances[does.instance].version == 1

    def waits(self, world: World) -> Iterator[Waits]:
        """Yield the deliveries that get no response yet, since their call is at work."""
        for index, instance in enumerate(world.instances):
            if instance.work is None:
                for request in sorted(world.requests):
                    is_refused = self.mechanism.is_too_old(world, request)
                    if not is_refused and not [*self.mechanism.take(world, index, request)]:
                        yield Waits(index, request)

    def transition(self, world: World, does: Action) -> Transition | None:
        """Return the transition that an action is; None for one of the client."""
        if not isinstance(does, OfServers):
            return None
        if isinstance(does, OfInstance):
            first, second = world.instances
            place = 1 - does.instance if is_swapped(world) else does.instance
            does = replace(does, instance=0 if first == second else place)
        return Transition(seen_by_servers(world, self.mechanism), does)

    def explore(self, most: int | None = None) -> "Explored":
        """Return every transition that can be reached, each with a shortest way to it.

        Args:
            most: The number of states after which no further one is looked at; None for all.
        """
        start = World()
        origin: dict[World, World | None] = {start: None}
        queue = deque([start])
        found: dict[Transition, World] = {}
        looked_at = 0
        while queue and looked_at != most:
            looked_at += 1
            world = queue.popleft()
            for move in self.moves(world):
                if move.transition is not None:
                    found.setdefault(move.transition, world)
                after = in_order(move.after)
                if after not in origin:
                    origin[after] = world
                    queue.append(after)
        return Explored(self, found, origin, is_whole=not queue)

    def way_to_one_of(self, start: World, left: set[Transition]) -> list[Move]:
        """Return the moves to the nearest transition that is left, with it; none if it is `FAR`."""
        origin: dict[World, tuple[World, Move] | None] = {start: None}
        queue = deque([(start, 1)])
        while queue:
            world, length = queue.popleft()
            for move in self.moves(world):
                if move.transition in left:
                    return [*path(origin, world), move]
                if length < FAR and move.after not in origin:
                    origin[move.after] = (world, move)
                    queue.append((move.after, length + 1))
        return []


@dataclass
class Explored:
    """A graph, or the part of it that is nearest to the start.

    Attributes:
        graph: The graph.
        found: A nearest state of each transition, the nearest transitions first.
        origin: The state before each state, on a shortest way to it.
        is_whole: Whether every state was looked at.
    """

    graph: Graph
    found: dict[Transition, World]
    origin: dict[World, World | None]
    is_whole: bool

    def way_to(self, target: Transition) -> list[Move]:
        """Return the moves of a shortest way to a transition, with it."""
        states: list[World] = []
        world: World | None = self.found[target]
        while world is not None:
            states.append(world)
            world = self.origin[world]
        here = World()
        way: list[Move] = []
        for following in states[-2::-1]:
            moves = self.graph.moves(here)
            way.append(next(each for each in moves if in_order(each.after) == following))
            here = way[-1].after
        last = next(each for each in self.graph.moves(here) if each.transition == target)
        return [*way, last]


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
    actions: list[Action] = field(default_factory=list[Action])

    async def go(self, move: Move) -> None:
        """Do an action on both sides, and compare them.

        Raises:
            Differs: The servers do something else than the model. The text has the whole path.
        """
        self.actions.append(move.does)
        await self.do(move)
        self.world = move.after
        done = self.world.destination
        self.compare("the effects", (done.audits, done.bills), await self.servers.effects())

    async def do(self, move: Move) -> None:
        """Do an action on the servers, and compare what they answer."""
        after = move.after
        match move.does:
            case Takes(index, request):
                await self.take(index, request, after)
            case Works():
                await self.work(move.does, after)
            case Crashes(index):
                await self.servers.crash(index)
            case IsReplaced(index):
                await self.servers.replace(index)
            case Waits(index, request):
                await self.wait(index, request)
            case StatesAge() | KeyAges():
                self.servers.pass_time()
            case Forgets():
                await self.servers.forget()
            case does:
                await self.act(does, after)

    async def take(self, index: int, request: Request, after: World) -> None:
        """Deliver a request to an instance that is idle."""
        late = self.is_left_behind(request)
        is_too_old = self.graph.mechanism.is_too_old(self.world, request)
        gate = await self.servers.take(index, request, late=late, old=is_too_old)
        work = after.instances[index].work
        if work is not None:
            self.compare_place(gate, index, work.request, work.steps)
            return
        ((outcome, _),) = outcomes(self.world, index, self.graph.mechanism, request)
        assert isinstance(outcome, Response)
        self.compare_reply(gate, outcome)
        self.servers.replies[request, outcome.asks] = gate.reply

    async def wait(self, index: int, request: Request) -> None:
        """Deliver a request whose call is at work. No delivery waits: it is told so."""
        gate = await self.servers.take(index, request, late=False, old=False)
        self.compare("the place of the round", "", gate.at)
        self.compare("the response", (0, "still_at_work"), kind_of(gate.reply))

    async def work(self, does: Works, after: World) -> None:
        """Let a round take its next step."""
        index, step = does.instance, does.step
        now = self.world.instances[index].work
        assert now is not None
        gate = self.servers.gates[index]
        if does.fails:
            self.compare("the place of the round", step, gate.at)
            await gate.fail()
            self.compare_reply(gate, Response(now.request, 0, FAILED))
            return
        asks = self.graph.mechanism.asks(self.world, index, now.request)
        if gate.at == step:
            await gate.open()
        elif step not in EFFECTS:
            self.compare_reply(gate, Response(now.request, asks))
        else:
            self.compare("the place of the round", step, gate.at)
        left = after.instances[index].work
        if left is not None:
            self.compare_place(gate, index, left.request, left.steps)
        elif step in ("respond", "keep frame") and self.is_taken_by_client(index, after):
            self.servers.replies[now.request, asks] = gate.reply

    def is_taken_by_client(self, index: int, after: World) -> bool:
        """Return whether the client may go on with a round's response.

        A frame whose client goes on with another one is not kept by the model.
        """
        if not isinstance(self.graph.mechanism, Frame):
            return True
        return after.instances[index].frames != self.world.instances[index].frames

    async def act(self, does: Action, after: World) -> None:
        """Do what a client does."""
        match does:
            case BeginsOther():
                assert after.other is not None
                self.servers.call(after.other.waits_for)
            case OfOther(action):
                assert self.world.other is not None
                assert after.other is not None
                await self.act_as(self.world.other, after.other, action)
            case _:
                await self.act_as(self.world.client, after.client, does)

    async def act_as(self, client: Client, after: Client, does: Action) -> None:
        """Do what one client does."""
        servers = self.servers
        before, now = client.waits_for, after.waits_for
        match does:
            case Answers(question) if not after.unsaved:
                await servers.answer(before, now, question)
            case Keeps():
                await servers.answer(before, now, client.unsaved)
            case Changes():
                await servers.answer(before, now)
            case AnswersEarly():
                servers.answer_early(before, now)
            case WantsSecond():
                servers.call(now)
            case _ if now.attempt > before.attempt:
                servers.requests[now] = Sent(key=servers.requests[before].key)
            case _:
                pass

    def is_left_behind(self, request: Request) -> bool:
        """Return whether a crash has left a round of the request's call behind."""
        mechanism = self.graph.mechanism
        if not isinstance(mechanism, Guard):
            return False
        call = mechanism.call(self.world, request)
        is_begun = any((each, how) == (call, "begun") for each, _, how in self.world.store)
        return is_begun and not mechanism.at_work(self.world, call)

    def compare_place(
        self, gate: Gate, index: int, request: Request, steps: tuple[str, ...]
    ) -> None:
        """Compare where a round is: before an effect or its record, or at its end."""
        expected = self.place_of(index, request, steps)
        self.compare("the place of the round", expected, gate.at)
        if not expected:
            asks = self.graph.mechanism.asks(self.world, index, request)
            self.compare_reply(gate, Response(request, asks))

    def place_of(self, index: int, request: Request, steps: tuple[str, ...]) -> str:
        """Return the step at which a round has to wait; "" at its end."""
        mechanism = self.graph.mechanism
        is_unnamed = request.round == 1 and not getattr(mechanism, "name", "")
        records = isinstance(mechanism, Guard) and not is_unnamed
        waits = ("record", *EFFECTS) if records else EFFECTS
        return next((step for step in steps if step in waits), "")

    def compare_reply(self, gate: Gate, expected: Response) -> None:
        """Compare a response. Version 2 asks one question, at one of two rounds."""
        asks, reason = kind_of(gate.reply)
        self.compare("the response", min(expected.asks % WITH_CONSENT, CONSENT), asks)
        if expected.error and reason not in REASONS[expected.error]:
            self.compare("the reason", expected.error, reason)

    def compare(self, what: str, model: object, code: object) -> None:
        """Compare one thing."""
        if model != code:
            path = "\n  ".join(map(str, self.actions))
            raise Differs(f"{what}: model {model!r}, code {code!r}, after\n  {path}")
