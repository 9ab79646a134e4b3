"""Whether a history of the bench is a path of the model.

The checker follows a history event by event, with every state of the model that fits the events so
far. An event that the bench records is a step that the model has to have: a request that is sent, an
effect, a crash, a response. Between two events it tries the steps that the bench does not record: a
request that is taken, a record, a response on its way, and what the client makes of a response that
reached it. If no state is left, the event is one that the model does not allow.

The model's instances stand for rounds at work: two rounds at work on one instance of the bench are
on two of the model's, except where instances have a memory (option H).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mcp_types as types

from model import client, other
from model.anomalies import NAMES, anomalies
from model.check import MECHANISMS, Cell
from model.destination import MOST
from model.durable import Durable
from model.extras import BACK, EARLY, FAIL, OLD, REDEPLOY, SAME_USER, Extras
from model.frame import Frame
from model.guard import Guard
from model.network import effect_fails, named, outcomes, start, time_passes, work
from model.world import (
    CONSENT,
    CONSENT_LAST,
    ENDED,
    FAILED,
    ROUNDS,
    SECOND_ERROR,
    SPENT,
    START_OVER,
    TOO_OLD,
    TWIN,
    Client,
    Instance,
    Request,
    Response,
    Work,
    World,
    put,
)
from mrtr_options.review.bench.answers import AGREE
from mrtr_options.review.bench.driver import CALLS
from mrtr_options.review.bench.history import (
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Entered,
    Event,
    Failed,
    History,
    Received,
    Redeployed,
    Restarted,
    Sent,
)
from mrtr_options.review.bench.messages import HUNG, LOST, Reply
from mrtr_options.review.bench.messages import Request as SentRequest
from mrtr_options.review.judge.anomalies import anomalies_in
from mrtr_options.review.judge.facts import Reading
from mrtr_options.tool.settings import STATE_TTL_SECONDS

CLIENT_STEPS = 3
"""The most steps of the client between two events."""
EXTRA_OF = {
    "expired": OLD,
    "redeploy": REDEPLOY,
    "fail@audit": FAIL,
    "fail@bill": FAIL,
    "back": BACK,
    "early": EARLY,
    "other": SAME_USER,
}
"""The extra of the model that each of these faults of the bench needs."""
ERRORS = {
    "indeterminate": {SECOND_ERROR, FAILED},
    "unknown_continuation": {START_OVER},
    "other_version": {START_OVER},
    "request_state_expired": {TOO_OLD},
    "answered_differently": {SPENT},
}
"""The model's errors by their reason on the wire."""
UNREASONED = {FAILED, ENDED}
"""The model's errors that are internal errors, or errors of the tool, on the wire."""
NOT_COMPARED = {
    "divergent replies": "the judge means one delivery repeated, and a client's own second sending"
    " is another one; the model's requests are a set, in which both are the same",
    "stuck call": "a property of all ways on, and not of one history",
}
"""The anomalies that one history does not decide, with the reasons."""
QUESTIONS = {"place": {1}, "units": {2}, "consent": {CONSENT, CONSENT_LAST}}
"""The model's numbers of the bench's questions."""

Path = tuple[Any, ...]
"""The steps to a state: the last one, and the path before it."""


class Exchange(NamedTuple):
    """A request on its way, as the model has it.

    Attributes:
        number: Its number in the history.
        place: The bench's instance that it was sent to.
        request: The model's request; None if its process has died.
        at: The model's instance on which its round is at work.
        response: The response to it.
        is_left: Whether nobody waits for its round, which is still at work.
    """

    number: int
    place: int
    request: Request | None
    at: int | None = None
    response: Response | None = None
    is_left: bool = False

    @property
    def waits(self) -> bool:
        """The question whether it was not taken yet."""
        return self.request is not None and self.at is None and self.response is None


class Here(NamedTuple):
    """A state of the model that fits the events so far.

    Attributes:
        world: The state.
        open: The requests on their way.
        sent: The model's request of each round of the bench.
        seen: The responses that reached a client.
    """

    world: World = World()
    open: frozenset[Exchange] = frozenset()
    sent: frozenset[tuple[int, Request]] = frozenset()
    seen: frozenset[Response] = frozenset()

    def without(self, exchange: Exchange) -> "Here":
        """Return it without an exchange."""
        return self._replace(open=self.open - {exchange})

    def change(self, exchange: Exchange, world: World, **new: Any) -> "Here":
        """Return it with an exchange that has changed, in another state."""
        after = exchange._replace(**new)
        is_over = after.is_left and after.at is None
        left = self.open - {exchange}
        return self._replace(world=world, open=left if is_over else left | {after})


Ways = dict[Here, Path]


@dataclass
class Verdict:
    """The result of following a history.

    Attributes:
        states: The most states that fitted at once.
        event: The first event that the model does not allow; None if it allows all.
        path: The model's steps so far.
        differs: What differs at the end although the model allows every event.
    """

    states: int = 0
    event: str = ""
    path: list[str] = field(default_factory=list[str])
    differs: str = ""

    @property
    def is_accepted(self) -> bool:
        """The question whether the history is a path of the model, with the same anomalies."""
        return not self.event and not self.differs


def left_out(history: History) -> str:
    """Return why the model cannot follow a history; "" if it can."""
    names = [fault.name for fault in history.scenario.faults]
    if names.count("back") > 1:
        return "two changed answers: the model has one in a call"
    if names.count("other") > 1:
        return "two other calls: the model has one"
    hangs = any(
        isinstance(each, Received) and each.reply.nothing == HUNG for each in history.events
    )
    return "a request hung: the model has no clock" if hangs else ""


def follow(cell: Cell, history: History) -> Verdict:
    """Follow a history through the model of a cell."""
    return _Follower(cell, history).follow()


class _Follower:
    """A walk of the model along one history."""

    def __init__(self, cell: Cell, history: History) -> None:
        self.cell = cell
        self.history = history
        self.mechanism = MECHANISMS[cell.mechanism].at(cell.destination)
        names = {fault.name for fault in history.scenario.faults}
        self.extras: Extras = frozenset(EXTRA_OF[name] for name in names if name in EXTRA_OF)
        self.wants_second = "again" in names
        self.first_round: dict[object, int] = {}
        self.effects = 0

    def follow(self) -> Verdict:
        """Follow every event."""
        found = Verdict()
        ways: Ways = {Here(): ()}
        for event in self.history.events:
            before = self.after_servers(ways)
            found.states = max(found.states, len(before))
            ways = {}
            for here, path in before.items():
                for says, after in self.take(event, here):
                    ways.setdefault(after, (says, path) if says else path)
            if not ways:
                return self.refuse(found, event, before)
            ways = {without_unread(here): path for here, path in ways.items()}
        return self.end(found, self.after_clients(self.after_servers(ways)))

    def refuse(self, found: Verdict, event: Event, before: Ways) -> Verdict:
        """Name an event that no state allows."""
        found.event = in_words(event)
        found.path = listed(min(before.values(), key=lambda path: len(listed(path))))
        return found

    def end(self, found: Verdict, ways: Ways) -> Verdict:
        """Compare how the call ended, and the anomalies, with what the bench's judge says."""
        told = "result" if Reading(self.history).report is not None else "error"
        mine = {here: path for here, path in ways.items() if here.world.client.told == told}
        if not mine:
            others = sorted({here.world.client.told or "nothing yet" for here in ways})
            found.differs = f"the client is told: code {told}, model {' or '.join(others)}"
            found.path = listed(next(iter(ways.values())))
            return found
        compared = set(NAMES) - NOT_COMPARED.keys()
        shown = anomalies_in(self.history) & compared
        verdicts = {
            frozenset(anomalies(here.world) & compared): path for here, path in mine.items()
        }
        if shown not in verdicts:
            nearest = min(verdicts, key=lambda each: (len(each ^ shown), sorted(each)))
            more = ", ".join(sorted(nearest - shown)) or "none"
            less = ", ".join(sorted(shown - nearest)) or "none"
            found.differs = f"anomalies: only code {less}; only model {more}"
            found.path = listed(verdicts[nearest])
        return found

    # --- steps that the bench does not record ---------------------------------------------------

    def after_servers(self, ways: Ways) -> Ways:
        """Return the states after any number of unrecorded steps of the servers."""
        return spread(ways, self.server_steps)

    def after_clients(self, ways: Ways) -> Ways:
        """Return the states after a few unrecorded steps of the clients."""
        return spread(ways, self.client_steps, CLIENT_STEPS)

    def server_steps(self, here: Here) -> Iterator[tuple[str, Here]]:
        """Take a request that waits, or do a step of a round that is no effect."""
        for exchange in here.open:
            if exchange.waits:
                yield from self.taken(here, exchange)
        for index, instance in enumerate(here.world.instances):
            now = instance.work
            if now is None:
                for run in self.mechanism.goes_on(here.world, index):
                    alone = Exchange(0, index, None, index, None, is_left=True)
                    says = f"instance {index} goes on with {named(run.request)}"
                    world = start(here.world, index, run)
                    yield says, here._replace(world=world, open=here.open | {alone})
            elif now.steps[0] not in ("audit", "bill"):
                yield self.worked(here, index, now)

    def taken(self, here: Here, exchange: Exchange) -> Iterator[tuple[str, Here]]:
        """Let an idle instance take a request."""
        request = exchange.request
        assert request is not None
        for index in self.places(here.world, exchange):
            says = f"instance {index} takes {named(request)}"
            for outcome, world in outcomes(here.world, index, self.mechanism, request):
                if isinstance(outcome, Response):
                    yield f"{says}, answers at once", here.change(exchange, world, response=outcome)
                else:
                    yield says, here.change(exchange, world, at=index)

    def places(self, world: World, exchange: Exchange) -> list[int]:
        """Return the idle instances that may take a request."""
        idle = [index for index, each in enumerate(world.instances) if each.work is None]
        if isinstance(self.mechanism, Frame):
            return [index for index in idle if index == exchange.place]
        return idle[:1]

    def worked(self, here: Here, index: int, now: Work) -> tuple[str, Here]:
        """Do the next step of a round, which is no effect."""
        asks = self.mechanism.asks(here.world, index, now.request)
        says, world = work(here.world, index, now, self.mechanism, self.cell.destination)
        exchange = self.at_work(here, index)
        if world.instances[index].work is not None:
            return says, here._replace(world=world)
        is_own = now.request == exchange.request
        response = Response(now.request, asks) if is_own else None  # else it is taken again
        return says, here.change(exchange, world, at=None, response=response)

    def at_work(self, here: Here, index: int) -> Exchange:
        """Return the exchange whose round is at work on an instance of the model."""
        return next(each for each in here.open if each.at == index)

    def client_steps(self, here: Here) -> Iterator[tuple[str, Here]]:
        """Do a step of a client, which has what reached it."""
        world = here.world
        seen = world._replace(responses=world.responses & here.seen)
        policy = self.cell.policy
        keyed = self.mechanism.client_sends_key
        steps = [
            *client.steps(
                seen, policy, self.wants_second, keyed=keyed, extras=self.extras, attempts=CALLS
            )
        ]
        if SAME_USER in self.extras:
            steps += other.steps(seen, TWIN, keyed=keyed)
        for says, after in steps:
            yield says, here._replace(world=after._replace(responses=world.responses))

    # --- steps that the bench records -----------------------------------------------------------

    def take(self, event: Event, here: Here) -> Iterable[tuple[str, Here]]:
        """Take the step that an event is."""
        match event:
            case Sent():
                return self.sent(event, here)
            case Received():
                return self.received(event, here)
            case Effect():
                return self.effect(event, here)
            case Failed():
                return self.failed(event, here)
            case Crashed():
                return self.crashed(event, here)
            case Restarted():
                return [("every instance crashes", self.replaced(here, None))]
            case Redeployed():
                return [("every instance is replaced by version 2", self.replaced(here, 2))]
            case Elapsed():
                return self.elapsed(event, here)
            case Asked() | Answered() | Entered():
                return [("", here)]

    def sent(self, event: Sent, here: Here) -> Iterator[tuple[str, Here]]:
        """Send a request that was sent before, or one that the client comes to."""
        wire = on_the_wire(event)
        earlier = self.first_round.setdefault(wire, event.round) if wire else event.round
        bound = dict(here.sent)
        known = bound.get(event.round) or bound.get(earlier)
        if known is not None:
            yield "", opened(event, known, here)
            return
        latest = here.world.client.waits_for.attempt
        attempts = [TWIN] if self.is_of_other(event) else [latest, latest - 1]
        for request in here.world.requests:
            if wire is None and request.round == 1 and request.attempt in attempts:
                yield "", opened(event, request, here)
        for reached, path in self.after_clients({here: ()}).items():
            caller = reached.world.other if self.is_of_other(event) else reached.world.client
            if caller is not None and is_sent(caller, event.request):
                yield "; ".join(listed(path)), opened(event, caller.waits_for, reached)

    def is_of_other(self, event: Sent) -> bool:
        """Return whether a request is one of another call that is open at the same time."""
        return event.call > 1 and SAME_USER in self.extras

    def received(self, event: Received, here: Here) -> Iterator[tuple[str, Here]]:
        """Get a response, or none."""
        mine = [each for each in here.open if each.number == event.exchange]
        if not mine:
            return
        (exchange,) = mine
        reply = event.reply
        if reply.nothing == LOST:
            yield from self.received_nothing(exchange, here)
        elif is_at_work(reply):
            if exchange.waits and self.is_busy(here.world, exchange):
                yield "the request waits", here.without(exchange)
        elif exchange.response is not None and fits(exchange.response, reply):
            seen = here.seen if event.lost else here.seen | {exchange.response}
            yield "", here.without(exchange)._replace(seen=seen)

    def received_nothing(self, exchange: Exchange, here: Here) -> Iterator[tuple[str, Here]]:
        """Leave a request, whose round goes on or ends with it."""
        if exchange.at is None:
            yield "", here.without(exchange)
            return
        yield "", here.change(exchange, here.world, is_left=True)
        if self.ends_with_its_client(exchange):
            yield "the round ends with its client", self.ended(here, [exchange.at])

    def ends_with_its_client(self, exchange: Exchange) -> bool:
        """Return whether a round may end when its client has gone; a guarded one goes on."""
        if isinstance(self.mechanism, Durable | Frame):
            return False
        is_first = exchange.request is not None and exchange.request.round == 1
        return not isinstance(self.mechanism, Guard) or (is_first and not self.mechanism.name)

    def is_busy(self, world: World, exchange: Exchange) -> bool:
        """Return whether a request has to wait: its call is at work, or may be for a while."""
        request = exchange.request
        assert request is not None
        places = self.places(world, exchange)
        waits = all(not [*self.mechanism.take(world, index, request)] for index in places)
        if waits or not isinstance(self.mechanism, Guard):
            return waits
        call = self.mechanism.call(world, request)
        return any((each, how) == (call, "begun") for each, _, how in world.store)

    def effect(self, event: Effect, here: Here) -> Iterator[tuple[str, Here]]:
        """Do an effect of a round at work."""
        for index, now in self.before_effect(event.instance, event.effect.kind, here):
            says, world = work(here.world, index, now, self.mechanism, self.cell.destination)
            before, after = here.world.destination, world.destination
            is_counted = max(before.audits, before.bills) < MOST
            if not is_counted or event.absorbed == (before == after):
                yield says, here._replace(world=world)

    def failed(self, event: Failed, here: Here) -> Iterator[tuple[str, Here]]:
        """Let an effect of a round at work fail."""
        for index, now in self.before_effect(event.instance, event.kind, here):
            exchange = self.at_work(here, index)
            for says, world in effect_fails(here.world, index, now, self.mechanism):
                response = Response(now.request, 0, FAILED)
                yield says, here.change(exchange, world, at=None, response=response)

    def before_effect(self, place: int | None, kind: str, here: Here) -> Iterator[tuple[int, Work]]:
        """Yield the rounds on an instance of the bench whose next step is an effect."""
        for exchange in here.open:
            now = None if exchange.at is None else here.world.instances[exchange.at].work
            is_due = now is not None and now.steps[0] == kind
            is_there = place in (None, exchange.place) or isinstance(self.mechanism, Durable)
            if is_due and exchange.at is not None and is_there:
                assert now is not None
                yield exchange.at, now

    def crashed(self, event: Crashed, here: Here) -> Iterator[tuple[str, Here]]:
        """End what is at work on an instance of the bench, and forget its memory.

        An engine works where a call began, which need not be where its request went.
        """
        says = f"instance {event.instance} crashes"
        dead = {each for each in here.open if each.place == event.instance and each.waits}
        lost = frozenset(each._replace(request=None) for each in dead)
        after = here._replace(open=here.open - dead | lost)
        working = [each for each in here.open if each.at is not None]
        there = [each for each in working if each.place == event.instance]
        if isinstance(self.mechanism, Frame):
            yield says, self.ended(after, [event.instance])
        elif isinstance(self.mechanism, Durable):
            for some in (working, there):
                yield says, self.ended(after, [each.at for each in some if each.at is not None])
        else:
            yield says, self.ended(after, [each.at for each in there if each.at is not None])

    def replaced(self, here: Here, version: int | None) -> Here:
        """Replace every instance."""
        return self.ended(here, range(len(here.world.instances)), version)

    def ended(self, here: Here, at: Iterable[int], version: int | None = None) -> Here:
        """End instances of the model, and what is at work there."""
        for index in at:
            world = self.mechanism.crashed(here.world, index)
            if version is not None:
                world = put(here.world, index, Instance(version=version))
            here = here._replace(world=world)
            for exchange in here.open:
                if exchange.at == index:
                    here = here.change(exchange, here.world, at=None, request=None)
        return here

    def elapsed(self, event: Elapsed, here: Here) -> Iterator[tuple[str, Here]]:
        """Let time pass: every state that was handed out is too old, if it was long enough."""
        if event.seconds <= STATE_TTL_SECONDS:
            yield "", here
            return
        for reached, path in self.after_clients({here: ()}).items():
            says = "; ".join([*listed(path), "time passes"])
            yield says, reached._replace(world=self.aged(reached.world))

    def aged(self, world: World) -> World:
        """Return a state in which every state that was handed out is too old."""
        while steps := [*time_passes(world, self.mechanism, keys_age=False)]:
            _, world = steps[-1]
        return world


# --- what is compared ---------------------------------------------------------------------------


def spread(
    ways: Ways,
    steps: Callable[[Here], Iterable[tuple[str, Here]]],
    most: int | None = None,
) -> Ways:
    """Return the states that some steps lead to, with the shortest path to each."""
    found = dict(ways)
    edge = [*ways]
    depth = 0
    while edge and depth != most:
        following: list[Here] = []
        for here in edge:
            for says, after in steps(here):
                if after not in found:
                    found[after] = (says, found[here])
                    following.append(after)
        edge = following
        depth += 1
    return found


def listed(path: Path) -> list[str]:
    """Return the steps of a path in their order."""
    steps: list[str] = []
    while path:
        says, path = path
        steps.append(says)
    return steps[::-1]


def without_unread(here: Here) -> Here:
    """Return a state without the responses that no client can still take."""
    clients = [each for each in (here.world.client, here.world.other) if each is not None]
    mine = [each.waits_for for each in clients]
    mine += [each._replace(changed=not each.changed) for each in mine]
    responses = frozenset(each for each in here.world.responses if each.request in mine)
    seen = frozenset(each for each in here.seen if each.request in mine)
    return here._replace(world=here.world._replace(responses=responses), seen=seen)


def opened(event: Sent, request: Request, here: Here) -> Here:
    """Return a state with one more request on its way."""
    exchange = Exchange(event.exchange, event.instance, request)
    sent = here.sent | {(event.round, request)}
    return here._replace(open=here.open | {exchange}, sent=sent)


def on_the_wire(event: Sent) -> object:
    """Return what tells a request from others; None for a first one, which are all alike."""
    request = event.request
    if request.state is None and not request.answers:
        return None
    answers = sorted((key, repr(given)) for key, given in (request.answers or {}).items())
    return event.call, request.state, tuple(answers)


def is_sent(caller: Client, sent: SentRequest) -> bool:
    """Return whether the model's client waits for a response to a request like this one."""
    mine = caller.waits_for
    given = [each for each in (sent.answers or {}).values() if isinstance(each, types.ElicitResult)]
    content = {name: value for each in given for name, value in (each.content or {}).items()}
    if sent.state is None:
        return mine.round == 1 and mine.early == bool(content)
    if len(content) != 1:
        return False
    ((name, value),) = content.items()
    is_otherwise = value != AGREE[name]
    is_first_call = mine.attempt != TWIN
    if is_otherwise and is_first_call and not mine.changed:
        return False
    if name == "consent":
        return mine.consented
    return mine.round == (2 if name == "place" else ROUNDS) and not mine.early


def is_at_work(reply: Reply) -> bool:
    """Return whether a response says that the call is at work."""
    return reply.later or reply.reason == "still_at_work"


def fits(response: Response, reply: Reply) -> bool:
    """Return whether the model's response is like one of the bench."""
    if response.error:
        is_error = reply.is_refusal and not reply.questions
        return is_error and response.error in ERRORS.get(reply.reason or "", UNREASONED)
    if reply.is_refusal:
        return False
    if reply.questions:
        names = [reply.name_of(key) for key in reply.questions]
        return len(names) == 1 and response.asks in QUESTIONS[names[0]]
    return reply.is_result and response.asks == ROUNDS


def in_words(event: Event) -> str:
    """Return an event in a line."""
    match event:
        case Sent(request=request):
            given = sorted((request.answers or {}).keys())
            says = f"call {event.call} round {event.round}, answers {given}"
            return f"sent to instance {event.instance}: {says}"
        case Received(reply=reply):
            asked = [reply.name_of(key) for key in reply.questions]
            if reply.nothing:
                got = reply.nothing
            elif asked:
                got = f"asks {asked}"
            elif reply.code is not None or reply.is_error:
                got = f"error {reply.code} {reply.reason}: {reply.message or reply.text}"
            else:
                got = "state only" if reply.later else f"result {reply.text}"
            return f"received of round {event.round}: {got}"
        case _:
            return repr(event)
