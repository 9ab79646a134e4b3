"""Every combination of faults up to a bound, on one call of a client that goes on as well as it can.

A fault is data: what goes wrong, and the request of the client's that it is bound to. `lost3` loses the
response to the third round, `lost3.2` the one to its second attempt. Sets of faults are tried breadth
first. A set grows only by faults at its last request or later ones, since a fault changes nothing of
what came before it; so each set is tried once, and each of its faults is known to be possible.

Knows deployments, the player and histories; nothing of what is wrong with a history.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import mcp_types as types

from mrtr_options.bench.deployments import Deployment, quiet_servers
from mrtr_options.bench.history import Effect, Era, History, Reply, Request, Sent
from mrtr_options.bench.memory import MemoryDeployment
from mrtr_options.bench.player import Player, on_the_wire
from mrtr_options.bench.redeploys import covers
from mrtr_options.bench.schedules import AGREE, Accept, Call, Change, Redeploy, Schedule, Send, Step
from mrtr_options.bench.schedules import Fault as AtEffect
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.bench.watch import Watch
from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.tool import weather
from mrtr_options.tool.settings import STATE_TTL_SECONDS

Policy = Literal["retry", "call again"]
"""What a client does when a response is lost: it sends the round again with the state it holds, or it
calls the tool anew, as the hosts of shipped clients do."""

Fleet = Literal["one", "sticky", "free"]
"""One instance; two, where rounds go to the instance that handed out their state; or two in turn."""

Kind = Literal[
    "restart", "failover", "expired", "redeploy", "other",
    "twice", "both", "lost", "crash",
    "crash@audit", "crash@bill", "down@audit", "down@bill",
    "gone@audit", "gone@bill", "fail@audit", "fail@bill",
    "back", "old",
]  # fmt: skip

SAYS: dict[Kind, str] = {
    "restart": "every instance is replaced before the request",
    "failover": "the request goes to another instance than the one that asked",
    "expired": "eleven minutes pass before the request",
    "redeploy": "a version with one more question is deployed before the request",
    "other": "another call of the same user begins before the request and ends after it",
    "twice": "the request is delivered twice, the second time when the first was answered",
    "both": "the request is delivered twice at the same moment",
    "lost": "the response is lost",
    "crash": "the instance dies when the handler is done, before it responds",
    "crash@audit": "the instance dies right after the audit",
    "crash@bill": "the instance dies right after the bill",
    "down@audit": "the instance dies right before the audit",
    "down@bill": "the instance dies right before the bill",
    "gone@audit": "the client is gone right after the audit, and its request is cancelled",
    "gone@bill": "the client is gone right after the bill, and its request is cancelled",
    "fail@audit": "the audit fails: its destination is down",
    "fail@bill": "the bill fails: its destination is down",
    "back": "the user goes back and answers differently",
    "old": "the request before this one is delivered again, late",
}
"""Each kind of fault in a sentence, in the order in which faults of one request take effect."""

WORDS: dict[Kind, str] = {
    "restart": "restart",
    "failover": "failover",
    "expired": "state expired",
    "redeploy": "redeploy",
    "other": "another call meanwhile",
    "twice": "{nth} request twice",
    "both": "{nth} request twice at once",
    "lost": "{response} lost",
    "crash": "crash before {response}",
    "crash@audit": "crash after audit",
    "crash@bill": "crash after bill",
    "down@audit": "crash before audit",
    "down@bill": "crash before bill",
    "gone@audit": "client gone after audit",
    "gone@bill": "client gone after bill",
    "fail@audit": "audit fails",
    "fail@bill": "bill fails",
    "back": "answer changed",
    "old": "earlier request again",
}
"""Each kind of fault in the few words of a table's cell; where it matters, with the round."""

_ORDER = {kind: place for place, kind in enumerate(get_args(Kind))}
_BEFORE: set[Kind] = {"restart", "failover", "expired", "redeploy", "other"}
_AGAIN: set[Kind] = {"twice", "both"}
_AFTER: set[Kind] = {"back", "old"}
_DEATHS: set[Kind] = {"crash", "crash@audit", "crash@bill", "down@audit", "down@bill"}
_MODERN: set[Kind] = {"failover", "expired", "redeploy", "other", "back", "old"}

MAX_REQUESTS = 20
"""How many requests a client sends for one call before it counts as stuck."""

RETRIES_OF_FAILURES, BACK_OFF_SECONDS = 2, 61.0
"""How often at least a client sends a round again that ended in a server's failure, and after how long:
more often than something goes wrong, since what fails each time is no fault. An instance that died is
replaced after as long: longer than the guard waits for its rounds."""

CALLS = 5
"""How often a client that calls again begins: more often than faults are tried at a time."""

CHANGE: Change = "inserted"

AGREEABLE = {**AGREE, "consent": "yes"}
OTHERWISE = {"place": "Springfield, Missouri", "units": "imperial", "consent": "yes"}
"""What the user says when they change their mind, and in another call."""


@dataclass(frozen=True, order=True)
class Fault:
    """What goes wrong at one request.

    Attributes:
        round: Which round of the call, from 1; the one that answers the same question has the same
            number in every run, and one that answers a question of a later version comes last.
        attempt: Which request of that round, from 1; a client that calls again attempts round 1 again.
        kind: What.
    """

    round: int
    attempt: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind}{self.round}" + (f".{self.attempt}" if self.attempt > 1 else "")


def _phase(kind: Kind) -> int:
    return 0 if kind in _BEFORE else 1 if kind in _AGAIN else 3 if kind in _AFTER else 2


class NoFault(ValueError):
    """A fault that there is not. The text is one line that says what to write."""


def parse(text: str) -> tuple[Fault, ...]:
    """Faults from their names: "lost3", "restart2 crash@bill3".

    Raises:
        NoFault: A name is none.
    """
    kinds: dict[str, Kind] = {kind: kind for kind in SAYS}
    found: list[Fault] = []
    for name in re.split(r"[\s,|+]+", text.strip()):
        match = re.fullmatch(r"([a-z@]+)([1-9]\d*)(?:\.([1-9]\d*))?", name)
        kind = kinds.get(match[1]) if match else None
        if match is None or kind is None:
            raise NoFault(
                f"{name!r} is no fault; write what goes wrong and the round, as in lost3, or lost3.2 "
                f"for its second attempt: {', '.join(SAYS)}"
            )
        found.append(Fault(int(match[2]), int(match[3] or 1), kind))
    return tuple(sorted(found))


def in_words(faults: Sequence[Fault], location: str = "Springfield") -> str:
    """Some faults in the words of a table's cell: "result lost, state expired".

    Args:
        faults: Which. Without one, what they show is there in every call.
        location: The tool's argument; its last response is the result.
    """
    nth = {1: "1st", 2: "2nd", 3: "3rd"}

    def said(fault: Fault) -> str:
        number = nth.get(fault.round, f"{fault.round}th")
        response = "result" if fault.round == rounds_of(location) else f"{number} response"
        return WORDS[fault.kind].format(nth=number, response=response)

    return ", ".join(map(said, faults)) or "every call"


@dataclass(frozen=True)
class World:
    """What a set of faults is tried in.

    Attributes:
        subject: What is under review.
        fleet: The instances, and how rounds reach them.
        policy: The client's.
        era: The client's.
        location: The tool's argument.
        honours_keys: Whether the effects' destination absorbs one whose idempotency key it has seen.
    """

    subject: Column
    fleet: Fleet = "sticky"
    policy: Policy = "retry"
    era: Era = "modern"
    location: str = "Springfield"
    honours_keys: bool = False


@dataclass(frozen=True)
class Played:
    """One run.

    Attributes:
        faults: What went wrong.
        history: What happened.
        requests: What the client sent, in order.
    """

    faults: tuple[Fault, ...]
    history: History
    requests: tuple[Attempt, ...]


@dataclass(frozen=True)
class Attempt:
    """One request of the client's.

    Attributes:
        round, attempt: See `Fault`.
        played: The number that its round has in the history.
        answers: Whether it carries an answer.
    """

    round: int
    attempt: int
    played: int
    answers: bool


# --- one run ------------------------------------------------------------------------------------


def check(world: World, faults: Sequence[Fault]) -> None:
    """Refuse faults that a world does not have.

    Raises:
        NoFault: One of them cannot happen there.
    """
    kinds = {fault.kind for fault in faults}
    if "failover" in kinds and world.fleet != "sticky":
        raise NoFault(
            "failover needs two instances and rounds that go to the one that asked: --fleet sticky"
        )
    if "redeploy" in kinds and not covers(world.subject.option, CHANGE):
        raise NoFault(f"there is no later version of {world.subject.name} to deploy; leave redeploy out")
    only = kinds & _MODERN
    if only and world.era == "legacy":
        raise NoFault(f"a legacy call is one request, so {min(only)} cannot happen; use --era modern")


async def play(
    world: World,
    faults: Sequence[Fault] = (),
    *,
    database: str | None = None,
    versions: Path | None = None,
    watch: Watch | None = None,
) -> Played:
    """Make one call under a set of faults.

    Args:
        world: What is called, where and by which client.
        faults: What goes wrong.
        database: Where a durable engine keeps its calls; see `runs.one_engine`.
        versions: A folder for what is deployed in the call; None for one that goes with it.
        watch: Told of the author's lines, and of what is kept in a database.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    with scratch() as folder, quiet_servers():
        two = world.fleet == "free" or any(fault.kind == "failover" for fault in faults)
        deployment = MemoryDeployment(
            world.subject,
            2 if two else 1,
            folder,
            foreign=world.subject.option.is_foreign,
            honours_keys=world.honours_keys,
            database=database,
            versions=versions,
            watch=watch,
        )
        async with deployment.running():
            return await play_on(deployment, world, faults)


class Crashable(Deployment, Protocol):
    """A deployment whose instances can be ended between two requests."""

    async def crash(self, place: int) -> None:
        """End an instance; another takes its place."""
        ...


async def play_on(deployment: Crashable, world: World, faults: Sequence[Fault] = ()) -> Played:
    """Make one call on a deployment that is running and as good as new; see `play`."""
    name = " ".join(map(str, faults))
    says = "; ".join(f"{fault}: {SAYS[fault.kind]}" for fault in faults) or "Nothing goes wrong."
    others = sum(fault.kind == "other" for fault in faults)
    schedule = Schedule(
        name or "clean",
        says,
        tuple(_steps(faults)),
        location=world.location,
        calls=1 + others,
        sticky=world.fleet != "free",
        honours_keys=world.honours_keys,
    )
    player = Player(schedule, world.era, deployment, None)
    client = _Client(world, player, deployment, faults)
    await client.call()
    await deployment.collect()
    history = History(
        world.subject.name,
        world.era,
        deployment.name,
        deployment.instances,
        schedule,
        deployment.recording.events,
    )
    return Played(tuple(faults), history, tuple(client.sent))


def _steps(faults: Sequence[Fault]) -> Iterator[Step]:
    """What a reader of the history cannot see in it: that a client left, and what a version asks."""
    for fault in faults:
        if fault.kind == "redeploy":
            yield Redeploy(CHANGE)
        elif "@" in fault.kind:
            yield Send("first", fault=_at_effect(fault.kind))


def rounds_of(location: str) -> int:
    """How many rounds a call takes in which nothing goes wrong."""
    return 2 if weather.only_place(location) else 3


class _Client:
    """A client that goes on after each fault as well as its policy lets it."""

    def __init__(
        self, world: World, player: Player, deployment: Crashable, faults: Sequence[Fault]
    ) -> None:
        self._world = world
        self._player = player
        self._deployment = deployment
        self._faults = faults
        self._home = self._others = 0
        self._round = 1
        self._key = new_call_key() if world.subject.keyed else None
        self.sent: list[Attempt] = []

    async def call(self) -> None:
        """Make the call; when it returns, the call has ended or is stuck."""
        first = Request(self._world.location, era=self._world.era, key=self._key)
        request, before, begun, failed = first, None, 1, 0
        for _ in range(MAX_REQUESTS):
            reply = await self._deliver(request, before)
            before = request
            if reply.questions:
                request, failed = self._answering(reply), 0
                self._round = self._round_of(next(map(reply.name_of, reply.questions)))
                continue
            refused = reply.code in _REFUSALS
            if refused and self._key is not None and request.state is not None:
                request, self._round = first, 1  # what became of the call?
                continue
            if reply.is_result or (refused and self._world.policy == "retry"):
                return
            if self._world.policy == "call again":
                if begun == CALLS:
                    return
                request, begun, self._round = first, begun + 1, 1
            elif reply.code is not None:  # the server failed, and is given some time
                failed += 1
                if failed > max(RETRIES_OF_FAILURES, len(self._faults)):
                    return
                await self._player.wait(BACK_OFF_SECONDS)

    async def _deliver(self, request: Request, before: Request | None) -> Reply:
        """Send one request, with all that goes wrong around it; what the client goes on from."""
        attempt = 1 + sum(sent.round == self._round for sent in self.sent)
        due = {
            fault.kind
            for fault in self._faults
            if (fault.round, fault.attempt) == (self._round, attempt)
        }
        other = None
        for kind in sorted(due & _BEFORE, key=_ORDER.__getitem__):
            match kind:
                case "restart":
                    await self._player.restart("same")
                case "expired":
                    await self._player.wait(STATE_TTL_SECONDS + 60)
                case "redeploy":
                    await self._player.redeploy(CHANGE)
                case "other":
                    self._others += 1
                    other = _Other(self._world, self._player, self._instance(), 1 + self._others)
                    await other.begin()
                case _:  # a failover is part of the way to the instance
                    pass
        instance = self._instance(failover="failover" in due)
        self._home = instance
        at_effect = next((_at_effect(kind) for kind in due if "@" in kind), None)
        await self._deployment.arm(at_effect)
        again = bool(due & _AGAIN)
        answers = request.answers is not None
        self.sent.append(Attempt(self._round, attempt, self._player.rounds + 1, answers))
        reply = await self._player.play_round(
            request,
            [instance] * (2 if again else 1),
            at_once="both" in due,
            lost=bool(due & {"lost", "crash"}),
            user=self._player.pushed(Call(), request) if request.era == "legacy" else None,
        )
        if due & {"lost", "crash"}:
            reply = Reply(nothing="lost")
        await self._deployment.arm(None)
        if "crash" in due:
            await self._deployment.crash(instance)
        if due & _DEATHS:
            await self._player.wait(BACK_OFF_SECONDS)
        if other is not None:
            await other.finish()
        if "old" in due and before is not None:
            await self._player.play_round(before, [instance], lost=True)
        if "back" in due and answers:
            changed = await self._go_back(request, instance)
            reply = reply if changed.failed else changed
        return reply

    def _instance(self, *, failover: bool = False) -> int:
        if self._world.fleet == "free":
            return len(self.sent) % 2
        return 1 - self._home if failover else self._home

    def _round_of(self, name: str) -> int:
        """The round that answers a question."""
        last = rounds_of(self._world.location)
        return {"units": last, "place": last - 1}.get(name, last + 1)

    def _answering(self, reply: Reply) -> Request:
        """The round that answers the questions of a response; the user agrees."""
        answers = {key: self._said(reply.name_of(key), AGREEABLE) for key in reply.questions}
        return Request(self._world.location, answers, reply.state, key=self._key)

    def _said(self, name: str, what: dict[str, Any]) -> types.InputResponse:
        response = on_the_wire(Accept({name: what.get(name)}))
        self._player.answer(1, name, response)
        return response

    async def _go_back(self, request: Request, instance: int) -> Reply:
        """Answer the question of a round otherwise, from the state that it came with."""
        answers = dict(request.answers or {})
        for key, given in answers.items():
            content = given.content if isinstance(given, types.ElicitResult) else None
            (name,) = content or {"": None}
            answers[key] = self._said(name, OTHERWISE)
        return await self._player.play_round(replace(request, answers=answers), [instance])


class _Other:
    """Another call of the same user for the same location; its rounds go around one of the first."""

    def __init__(self, world: World, player: Player, instance: int, call: int) -> None:
        self._call = call
        self._request = Request(world.location, key=new_call_key() if world.subject.keyed else None)
        self._player = player
        self._instance = instance

    async def begin(self) -> None:
        """Send its first round."""
        await self._send()

    async def finish(self) -> None:
        """Send the others."""
        for _ in range(3):
            if self._reply.questions:
                await self._send()

    async def _send(self) -> None:
        reply = await self._player.play_round(self._request, [self._instance], call=self._call)
        self._reply = reply
        answers: dict[str, types.InputResponse] = {}
        for key in reply.questions:
            name = reply.name_of(key)
            answers[key] = on_the_wire(Accept({name: OTHERWISE.get(name)}))
            self._player.answer(self._call, name, answers[key])
        self._request = replace(self._request, answers=answers, state=reply.state)


def _at_effect(kind: str) -> AtEffect:
    what, _, at = kind.partition("@")
    return AtEffect("audit" if at == "audit" else "bill", _AT_EFFECT[what])


_AT_EFFECT: dict[str, Literal["crash", "down", "disconnect", "fail"]] = {
    "crash": "crash",
    "down": "down",
    "gone": "disconnect",
    "fail": "fail",
}
_REFUSALS = (types.INVALID_PARAMS, types.MISSING_REQUIRED_CLIENT_CAPABILITY)


# --- all of them --------------------------------------------------------------------------------


def possible(world: World, played: Played) -> list[Fault]:
    """The faults that can be added to those of a run: at its last fault's request, or later.

    A kind that cannot show there is left out: no effect to fail at, no state that could be too old, one
    instance only. At one request, one thing goes wrong before it; it is delivered once
    or twice; one thing goes wrong with it, and one after it.
    """
    first, past = 0, -1
    if played.faults:
        last = played.faults[-1]
        places = [(sent.round, sent.attempt) for sent in played.requests]
        first, past = places.index((last.round, last.attempt)), _phase(last.kind)
    modern, found = world.era == "modern", list[Fault]()
    effects = _effects_by_round(played.history)
    for place, sent in list(enumerate(played.requests))[first:]:
        kinds: set[Kind] = {"lost", "crash", "twice", "both"}
        if place > 0:
            kinds.add("restart")
            if modern:
                kinds |= {"expired", "other", "old"}
            if modern and world.fleet == "sticky":
                kinds.add("failover")
            if modern and covers(world.subject.option, CHANGE):
                kinds.add("redeploy")
        if sent.answers and sent.round <= rounds_of(world.location):
            kinds.add("back")
        due = effects.get(sent.played, set())
        kinds.update(kind for kind in SAYS if kind.partition("@")[2] in due)
        found += [
            Fault(sent.round, sent.attempt, kind)
            for kind in get_args(Kind)
            if kind in kinds and (place > first or _phase(kind) > past)
        ]
    return found


def _effects_by_round(history: History) -> dict[int, set[str]]:
    """The kinds of effects of each round; where it cannot be seen, the round is the one sent last."""
    found: dict[int, set[str]] = {}
    last = 0
    for event in history.events:
        if isinstance(event, Sent):
            last = event.round
        elif isinstance(event, Effect):
            found.setdefault(event.round or last, set()).add(event.effect.kind)
    return found


async def explore(
    world: World,
    bound: int,
    play_one: Callable[[tuple[Fault, ...]], Awaitable[Played]],
    kinds: Collection[Kind] = tuple(SAYS),
    first: Collection[Fault] | None = None,
) -> AsyncGenerator[Played]:
    """Make every run with up to so many faults, fewest first.

    Args:
        world: What is called, where and by which client.
        bound: How many faults at most.
        play_one: Makes a run.
        kinds: What can go wrong there.
        first: With what the sets of faults begin; with anything if it is left out.
    """
    level: list[tuple[Fault, ...]] = [()]
    for size in range(bound + 1):
        following: list[tuple[Fault, ...]] = []
        for faults in level:
            played = await play_one(faults)
            yield played
            if size < bound:
                more = possible(world, played) if faults or first is None else first
                following += [(*faults, fault) for fault in more if fault.kind in kinds]
        level = following
