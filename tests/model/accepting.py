"""Whether a history of the bench is a path of the model.

The checker follows a history event by event, with every state of the model that fits the events so
far. An event that the bench records is a step that the model has to have: a request that is sent,
an effect, a crash, a response. Between two events it tries the steps that the bench does not
record: a request that is taken, a record, a response on its way, and what the client makes of a
response that reached it. If no state is left, the event is one that the model does not allow.

The model's instances stand for rounds at work: two rounds at work on one instance of the bench are
on two of the model's, except where instances have a memory (option H).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from model import client, other
from model.actions import Changes, Crashes, GoesOn, Loses, OfOther, Takes
from model.check import MECHANISMS, Cell
from model.destination import MOST
from model.durable import Durable
from model.extras import SAME_USER, Extras
from model.frame import Frame
from model.guard import Guard
from model.network import effect_fails, outcomes, start, time_passes, work
from model.reading import NAMES, anomalies
from model.world import FAILED, TWIN, Instance, Response, Work, World, put
from mrtr_options.review.bench.driver import CALLS
from mrtr_options.review.bench.history import (
    Crashed,
    Effect,
    Elapsed,
    Event,
    Failed,
    History,
    Received,
    Redeployed,
    Restarted,
    Sent,
)
from mrtr_options.review.bench.messages import LOST
from mrtr_options.review.explore.never import EXTRAS
from mrtr_options.review.judge.facts import Reading, anomalies_in
from mrtr_options.tool.settings import STATE_TTL_SECONDS
from tests.model.comparing import (
    NOT_COMPARED,
    fits,
    in_words,
    is_at_work,
    is_otherwise,
    is_sent,
    known_difference,
    on_the_wire,
)
from tests.model.fitting import (
    Exchange,
    Here,
    Step,
    Ways,
    go_on_waiting,
    has_lost,
    listed,
    opened,
    spread,
    without_unread,
)

CLIENT_STEPS = 3
"""The most steps of the client between two events."""


@dataclass
class Verdict:
    """The result of following a history.

    Attributes:
        states: The most states that fitted at once.
        event: The first event that the model does not allow; None if it allows all.
        path: The model's steps so far.
        differs: What differs at the end although the model allows every event.
        known: Why it does, if the difference is known; see `known_difference`.
    """

    states: int = 0
    event: str = ""
    path: list[str] = field(default_factory=list[str])
    differs: str = ""
    known: str = ""

    @property
    def is_accepted(self) -> bool:
        """The question whether the history is a path of the model, with the same anomalies."""
        return not self.event and not self.differs


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
        self.extras: Extras = frozenset(EXTRAS[name] for name in names if name in EXTRAS)
        self.wants_second = "again" in names
        self.tries_again = getattr(self.mechanism, "repeats", False)
        self.may_change = self.has_ended = False
        self.first_round: dict[object, int] = {}

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
        self.has_ended = True  # the bench's client gives up a first round that failed three times
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
        found.path = listed(verdicts.get(shown, ()))
        if shown not in verdicts:
            nearest = min(verdicts, key=lambda each: (len(each ^ shown), sorted(each)))
            more = ", ".join(sorted(nearest - shown)) or "none"
            less = ", ".join(sorted(shown - nearest)) or "none"
            found.differs = f"anomalies: only code {less}; only model {more}"
            found.path = listed(verdicts[nearest])
            found.known = known_difference(self.history, shown - nearest, nearest - shown)
        return found

    # --- steps that the bench does not record ---------------------------------------------------

    def after_servers(self, ways: Ways) -> Ways:
        """Return the states after any number of unrecorded steps of the servers."""
        return spread(ways, self.server_steps)

    def after_clients(self, ways: Ways) -> Ways:
        """Return the states after a few unrecorded steps of the clients."""
        return spread(ways, self.client_steps, CLIENT_STEPS)

    def server_steps(self, here: Here) -> Iterator[Step]:
        """Take a request that waits, or do a step of a round that is no effect."""
        for exchange in here.open:
            if exchange.waits:
                yield from self.taken(here, exchange)
        for index, instance in enumerate(here.world.instances):
            now = instance.work
            if now is None:
                for run in self.mechanism.goes_on(here.world, index):
                    alone = Exchange(0, index, None, index, None, is_left=True)
                    does = GoesOn(index, run.request)
                    world = start(here.world, index, run)
                    yield does, here._replace(world=world, open=here.open | {alone})
            elif now.steps[0] not in ("audit", "bill"):
                yield self.worked(here, index, now)

    def taken(self, here: Here, exchange: Exchange) -> Iterator[Step]:
        """Let an idle instance take a request."""
        request = exchange.request
        assert request is not None
        for index in self.places(here.world, exchange):
            for outcome, world in outcomes(here.world, index, self.mechanism, request):
                does = Takes(index, request, isinstance(outcome, Response))
                if isinstance(outcome, Response):
                    yield does, here.change(exchange, world, response=outcome)
                else:
                    yield does, here.change(exchange, world, at=index)

    def places(self, world: World, exchange: Exchange) -> list[int]:
        """Return the idle instances that may take a request."""
        idle = [index for index, each in enumerate(world.instances) if each.work is None]
        if isinstance(self.mechanism, Frame):
            return [index for index in idle if index == exchange.place]
        return idle[:1]

    def worked(self, here: Here, index: int, now: Work) -> Step:
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

    def client_steps(self, here: Here) -> Iterator[Step]:
        """Do a step of a client, which has what reached it."""
        world = here.world
        seen = world._replace(responses=world.responses & here.seen)
        keyed = self.mechanism.client_sends_key
        attempts = world.client.waits_for.attempt if self.has_ended else CALLS
        manner = client.Manner(self.cell.policy, keyed, attempts)
        steps = [*client.steps(seen, manner, self.wants_second, self.extras)]
        if SAME_USER in self.extras:
            is_same_call = self.mechanism.is_same_call(seen, TWIN)
            steps += other.steps(seen, TWIN, keyed=keyed, is_same_call=is_same_call)
        for does, after in steps:
            if isinstance(does, Changes) and not self.may_change:
                continue
            is_loss = isinstance(does.action if isinstance(does, OfOther) else does, Loses)
            caller = world.client if after.client != world.client else world.other
            if not is_loss or (caller is not None and has_lost(here, caller.waits_for)):
                yield does, here._replace(world=after._replace(responses=world.responses))

    # --- steps that the bench records -----------------------------------------------------------

    def take(self, event: Event, here: Here) -> Iterable[Step]:
        """Take the step that an event is."""
        steps: Iterable[Step] = [("", here)]  # the user's events, which nobody else sees
        match event:
            case Sent():
                steps = self.sent(event, here)
            case Received():
                steps = self.received(event, here)
            case Effect():
                steps = self.effect(event, here)
            case Failed():
                steps = self.failed(event, here)
            case Crashed():
                steps = self.crashed(event, here)
            case Restarted():
                steps = [("every instance crashes", self.replaced(here, None))]
            case Redeployed():
                steps = [("every instance is replaced by version 2", self.replaced(here, 2))]
            case Elapsed():
                steps = self.elapsed(event, here)
            case _:
                pass
        return steps

    def sent(self, event: Sent, here: Here) -> Iterator[Step]:
        """Send a request that was sent before, or one that the client comes to."""
        wire = on_the_wire(event)
        earlier = self.first_round.setdefault(wire, event.sending) if wire else event.sending
        bound = dict(here.sent)
        known = bound.get(event.sending) or bound.get(earlier)
        if known is not None:
            yield "", opened(event, known, here)
            return
        latest = here.world.client.waits_for.attempt
        attempts = [TWIN] if self.is_of_other(event) else [latest, latest - 1]
        for request in here.world.requests:
            if wire is None and request.round == 1 and request.attempt in attempts:
                yield "", opened(event, request, here)
        self.may_change = is_otherwise(event.request)
        reachable = self.after_clients({here: ()})
        self.may_change = False
        for reached, path in reachable.items():
            caller = reached.world.other if self.is_of_other(event) else reached.world.client
            if caller is not None and is_sent(caller, event.request):
                yield "; ".join(listed(path)), opened(event, caller.waits_for, reached)

    def is_of_other(self, event: Sent) -> bool:
        """Return whether a request is one of another call that is open at the same time."""
        return event.call > 1 and SAME_USER in self.extras

    def received(self, event: Received, here: Here) -> Iterator[Step]:
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
            after = here.without(exchange)
            if event.lost:
                yield "", after.missing(exchange)
            else:
                yield "", after._replace(seen=here.seen | {exchange.response})

    def received_nothing(self, exchange: Exchange, here: Here) -> Iterator[Step]:
        """Leave a request, whose round goes on or ends with it."""
        here = here.missing(exchange)
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

    def effect(self, event: Effect, here: Here) -> Iterator[Step]:
        """Do an effect of a round at work."""
        for index, now in self.before_effect(event.instance, event.effect.kind, here):
            says, world = work(here.world, index, now, self.mechanism, self.cell.destination)
            before, after = here.world.destination, world.destination
            is_counted = max(before.audits, before.bills) < MOST
            if not is_counted or event.absorbed == (before == after):
                yield says, here._replace(world=world)

    def failed(self, event: Failed, here: Here) -> Iterator[Step]:
        """Let an effect of a round at work fail."""
        for index, now in self.before_effect(event.instance, event.kind, here):
            if self.tries_again:
                yield f"instance {index} tries again", here
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

    def crashed(self, event: Crashed, here: Here) -> Iterator[Step]:
        """End what is at work on an instance of the bench, and forget its memory.

        An engine works where a call began, which need not be where its request went.
        """
        says = Crashes(event.instance)
        dead = {each for each in here.open if each.place == event.instance and each.waits}
        lost = frozenset(each._replace(request=None) for each in dead)
        after = here._replace(open=here.open - dead | lost)
        working = [each for each in here.open if each.at is not None]
        there = [each for each in working if each.place == event.instance]
        if isinstance(self.mechanism, Frame):
            yield says, self.ended(after, [event.instance])
        elif isinstance(self.mechanism, Durable):
            for some in (working, there):
                ended = self.ended(after, [each.at for each in some if each.at is not None])
                yield says, go_on_waiting(ended, {*some} - {*there})
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
                    here = here.missing(exchange)
                    here = here.change(exchange, here.world, at=None, request=None)
        return here

    def elapsed(self, event: Elapsed, here: Here) -> Iterator[Step]:
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
