"""A history, request by request, with what was known about each request when it was sent.

A state's meaning is taken from the response that it came with. With the question "place" nothing is
settled. With the question about units for a place, that place is settled. A state-only response
means that the same request is still at work. Knows histories; nothing of what is allowed in one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import mcp_types as types

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.history import (
    Answered,
    Asked,
    Crashed,
    Effect,
    Elapsed,
    Event,
    Failed,
    History,
    Received,
    Restarted,
    Sent,
)
from mrtr_options.review.bench.history.state_text import spelling
from mrtr_options.review.bench.messages import LOST, Reply, Request, as_json
from mrtr_options.review.judge.contract.content import (
    UNITS,
    Name,
    fits_the_schema,
    interpret,
    location_of,
    places_meant,
)
from mrtr_options.review.judge.contract.kinds import Allowed, place_in
from mrtr_options.review.judge.contract.rules import Rule
from mrtr_options.review.judge.properties import Problem


@dataclass(frozen=True)
class Position:
    """The position of a call when a request comes.

    Attributes:
        open: The question that its state came with; None at the beginning.
        key: That question's key.
        place: The settled place.
        earlier: Answers that came before their questions, by name: they may still be used.
        given: The answers of the request that a state-only response was the response to.
    """

    open: Name | None = None
    key: str | None = None
    place: str | None = None
    earlier: tuple[tuple[Name, types.InputResponse], ...] = ()
    given: tuple[tuple[str, types.InputResponse], ...] = ()


@dataclass(frozen=True)
class Token:
    """A state that was handed out.

    Attributes:
        state: Its text.
        origin: The request that it was the response to.
        position: The call's position with it.
        at: The time in seconds.
        ring: The number of times that all keys had been replaced.
        parents: The states before it in its call.
    """

    state: str
    origin: Exchange
    position: Position
    at: float
    ring: int
    parents: tuple[str, ...]


@dataclass
class Exchange:
    """One request, with what was known when it was sent.

    Attributes:
        at, ring: See `Token`.
        home: The instance, and how often that had been replaced.
        root: The sending of the first request of its call.
        token: The state that it came with, if it was handed out.
        respelled: Whether that state is spelled in another way than it was handed out.
        position: The position of its call.
        begun: The number of its event in the history.
        beside: The number of calls that were open then.
        got: Its response.
        ended: The number of the response's event; infinite where work may go on after it.
        failed: Whether an effect failed while it was open.
        crashed: Whether its instance died while it was open.
        saw_crash: Whether any instance died: another one may be at work on its call.
        asked, answered: The questions pushed to its client, and the user's answers to them.
        allowed: The responses that it may get, once they were computed.
        excused: Further responses that break a recommendation alone, so that a bill is due for
            them.
    """

    sent: Sent
    at: float
    ring: int
    home: tuple[int, int]
    root: int
    token: Token | None
    respelled: bool
    position: Position
    begun: int
    beside: int = 0
    got: Received | None = None
    ended: float = math.inf
    failed: bool = False
    crashed: bool = False
    saw_crash: bool = False
    asked: list[Asked] = field(default_factory=list[Asked])
    answered: list[Answered] = field(default_factory=list[Answered])
    allowed: list[Allowed] = field(default_factory=list[Allowed])
    excused: list[Allowed] = field(default_factory=list[Allowed])

    @property
    def request(self) -> Request:
        return self.sent.request

    @property
    def reply(self) -> Reply:
        return self.got.reply if self.got else Reply(nothing=LOST)

    @property
    def genuine(self) -> bool:
        """Return whether it has no state, or one that was handed out."""
        return self.request.state is None or self.token is not None

    @cached_property
    def fingerprint(self) -> str:
        """A text of all that was sent, without the state."""
        request = self.request
        answers = {key: as_json(each) for key, each in (request.answers or {}).items()}
        sent = (request.tool, request.sent_arguments, sorted(answers.items()))
        return repr((*sent, request.principal, request.asks))

    def breaks(self, rule: Rule, allowed: str, came: str) -> Problem:
        """Return the problem that a rule is broken at this request."""
        return rule.broken(self.sent.exchange, allowed, came)


@dataclass(frozen=True)
class Answers:
    """The answers of a request, by the question that they are to.

    Attributes:
        to_open: The answer to the open question.
        cold: The answers that may be to other questions.
    """

    to_open: types.InputResponse | None
    cold: dict[Name, list[types.InputResponse]]


class Calls:
    """The requests of a history.

    Attributes:
        history: The history.
        exchanges: Every request, by its number.
        effects: Every effect, with the number of its event.
        is_struck: Whether a fault strikes at effects.
        deaths: Servers that died by themselves.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.exchanges: dict[int, Exchange] = {}
        self.effects: list[tuple[int, Effect]] = []
        self.is_struck = bool(history.scenario.at_effects)
        self.deaths: list[Problem] = []
        self._now = 0.0
        self._ring = 0
        self._lives = [0] * history.instances
        self._tokens: dict[str, dict[str | None, Token]] = {}
        self._roots: dict[tuple[str, int], int] = {}
        self._begun: dict[tuple[str, str | None], int] = {}
        self._keys: dict[str, set[Name]] = {"place": {"place"}, "units": {"units"}}
        self._stateless: dict[int, Position] = {}
        self._by_state: dict[str, list[Exchange]] = {}
        self._going_on: set[int] = set()
        self._at_work: dict[int, list[Exchange]] = {}
        self._read()

    @property
    def responses(self) -> Iterator[Exchange]:
        """The requests whose end is known, also those that got no response."""
        return (one for one in self.exchanges.values() if one.got is not None)

    def with_state(self, state: str) -> list[Exchange]:
        """Return the requests that brought a state, however it was spelled."""
        return self._by_state.get(spelling(state), [])

    def of_call(self, one: Exchange, state: str) -> list[Exchange]:
        """Return the requests that brought a state in a request's own call, from the same caller.

        Two equal calls may have been handed the same state.
        """
        return [
            other
            for other in self.with_state(state)
            if (other.root, other.request.principal) == (one.root, one.request.principal)
        ]

    def at_work(self, turn: int) -> list[Exchange]:
        """Return the requests that an effect may belong to; another instance may work at them."""
        return self._at_work[turn]

    def answers_of(self, one: Exchange) -> Answers:
        """Return a request's answers, by question."""
        to_open: types.InputResponse | None = None
        cold: dict[Name, list[types.InputResponse]] = {"place": [], "units": []}
        for name, answer in one.position.earlier:
            cold[name].append(answer)
        for key, answer in _answers_given(one):
            if one.position.open is not None and key == one.position.key:
                to_open = answer
            else:
                for name in self._keys.get(key, ()):
                    cold[name].append(answer)
        return Answers(to_open, cold)

    def names_of(self, question: Name) -> tuple[str, ...]:
        """Return the names that an error may call a question: its own, and the keys it had."""
        return (question, *(key for key, names in self._keys.items() if question in names - {key}))

    def has_unasked(self, one: Exchange) -> bool:
        """Return whether a request has an answer to another question than the open one."""
        position = one.position
        given = _answers_given(one)
        return any(position.open is None or key != position.key for key, _ in given)

    def answered_before(self, one: Exchange) -> list[Exchange]:
        """Return the earlier answers to the question that this request does not answer."""
        if one.token is None or self.answers_of(one).to_open is not None:
            return []
        return [
            other
            for other in self.exchanges.values()
            if (other.root, other.position.open) == (one.root, one.position.open)
            and other.begun < one.begun
            and self.answers_of(other).to_open is not None
        ]

    def under_the_key(self, one: Exchange) -> list[Exchange]:
        """Return the earlier requests of the call that a named first request belongs to."""
        if one.request.call_name is None or one.request.state is not None:
            return []
        return [
            other
            for other in self.exchanges.values()
            if other.root == one.root and other.begun < one.begun
        ]

    def is_forked(self, one: Exchange) -> bool:
        """Return whether one of the states that led to a request also came with another answer."""
        assert one.token is not None
        own = one.request.state or ""
        used: dict[str, set[str]] = {}
        for state in (*one.token.parents, own):
            used[state] = {
                other.fingerprint
                for other in self.of_call(one, state)
                if other.begun <= one.ended and self._takes_its_answer(other)
            }
        return bool(used[own] - {one.fingerprint}) or any(
            len(found) > 1 for state, found in used.items() if state != own
        )

    def _takes_its_answer(self, one: Exchange) -> bool:
        """Return whether a request has an answer to the open question that a server may act on."""
        answer = self.answers_of(one).to_open
        name = one.position.open
        if answer is None or name is None:
            return False
        choices: tuple[str, ...] = ()
        if name == "units":
            choices = UNITS
        elif fits_the_schema(one.request):
            choices = places_meant(location_of(one.request))[-1]
        return interpret(answer, name, choices).what != "bad"

    # --- reading --------------------------------------------------------------------------------

    def _read(self) -> None:
        for turn, event in enumerate(self.history.events):
            match event:
                case Sent():
                    self._read_request(turn, event)
                case Received():
                    self._read_response(turn, event)
                case Asked() | Answered():
                    self._read_pushed(event)
                case Effect():
                    self.effects.append((turn, event))
                case _:
                    self._read_server_event(event)
        self._find_work()
        self._index_states()

    def _read_server_event(self, event: Event) -> None:
        """Read what happens to the servers, and the time that passes."""
        match event:
            case Failed():
                for one in self._waiting():  # an engine may run its call on another instance
                    one.failed = True
            case Crashed():
                self._read_crash(event)
            case Restarted():
                self._lives = [life + 1 for life in self._lives]
                self._ring += event.keys == "new"
            case Elapsed():
                self._now += event.seconds
            case _:
                pass

    def _index_states(self) -> None:
        """Find the requests that brought each state, but for states that were made up."""
        for one in self.responses:
            state = one.request.state
            is_handed_out = one.respelled or one.request.forged is None
            if state is not None and is_handed_out:
                self._by_state.setdefault(spelling(state), []).append(one)

    def _read_pushed(self, event: Asked | Answered) -> None:
        """Add a pushed question or its answer to the open request that it belongs to."""
        for one in self._waiting():
            sent = one.sent
            if isinstance(event, Asked):
                if (sent.sending, sent.delivery) == (event.sending, event.delivery):
                    one.asked.append(event)
            elif one.asked and (sent.call, sent.delivery) == (event.call, event.delivery):
                one.answered.append(event)

    def _read_crash(self, event: Crashed) -> None:
        for one in self._waiting():
            one.saw_crash = True
            if one.sent.instance == event.instance:
                one.crashed = True
        if event.why is not None:
            last = max(self.exchanges, default=None)
            goes_on = "a response, and a server that goes on"
            self.deaths.append(rules.EVERY_REQUEST_IS_ANSWERED.broken(last, goes_on, event.why))
        self._lives[event.instance] += 1

    def _find_work(self) -> None:
        """Find for each effect the requests that were at work."""
        begun = [*reversed(self.exchanges.values())]
        at_work: list[Exchange] = []
        for turn, _ in self.effects:
            while begun and begun[-1].begun < turn:
                at_work.append(begun.pop())
            at_work = [one for one in at_work if one.ended > turn]
            self._at_work[turn] = [*at_work]

    def _waiting(self) -> Iterator[Exchange]:
        """Return the requests that wait for a response."""
        return (one for one in self.exchanges.values() if one.got is None)

    def _read_request(self, turn: int, sent: Sent) -> None:
        state = sent.request.state
        who = sent.request.principal
        token = None if state is None else self._find_token(state, who)
        position = token.position if token else Position()
        if state is None and sent.request.answers is not None:
            position = self._stateless.get(sent.call, position)
        root = self._root_of(sent, token)
        name = sent.request.call_name
        if token is None and name is not None:
            root = self._begun.setdefault((name, sent.request.principal), root)
        self.exchanges[sent.exchange] = Exchange(
            sent,
            at=self._now,
            ring=self._ring,
            home=(sent.instance, self._lives[sent.instance]),
            root=root,
            token=token,
            respelled=token is not None and token.state != state,
            position=position,
            begun=turn,
            beside=len(self._going_on),
        )

    def _find_token(self, state: str, who: str | None) -> Token | None:
        """Return the token of a state: the one that this user was handed, else another user's."""
        to = self._tokens.get(spelling(state), {})
        return to.get(who) or next(iter(to.values()), None)

    def _root_of(self, sent: Sent, token: Token | None) -> int:
        """Return the root of a request: that of its state, or its own sending without one."""
        if token is None:
            return sent.sending
        return self._roots.get((sent.request.state or "", sent.call), token.origin.root)

    def _read_response(self, turn: int, got: Received) -> None:
        one = self.exchanges[got.exchange]
        one.got = got
        reply = got.reply
        if reply.nothing is None and not reply.later:
            one.ended = turn
        for key in reply.questions:
            name = reply.name_of(key)
            if name in ("place", "units"):
                self._keys.setdefault(key, set()).add(name)
        position = self._position_after(one)
        if reply.is_result:
            self._going_on.discard(one.root)
        if position is None:
            return
        self._going_on.add(one.root)
        if reply.state is None:
            self._stateless[one.sent.call] = position
            return
        self._stateless.pop(one.sent.call, None)
        parents = one.token.parents if one.token else ()
        if one.request.state is not None:
            parents = (*parents, one.request.state)
        token = Token(
            reply.state,
            origin=one,
            position=position,
            at=self._now,
            ring=self._ring,
            parents=parents,
        )
        who = one.request.principal
        self._tokens.setdefault(spelling(reply.state), {}).setdefault(who, token)
        self._roots.setdefault((reply.state, one.sent.call), one.root)

    def _position_after(self, one: Exchange) -> Position | None:
        """Return the call's position after a response that lets it go on; None if it has none."""
        reply = one.reply
        if reply.later:
            return replace(one.position, given=_answers_given(one))
        if not reply.questions:
            return None
        key, message = next(iter(reply.questions.items()))
        earlier: list[tuple[Name, types.InputResponse]] = []
        for name, answers in self.answers_of(one).cold.items():
            earlier.extend((name, answer) for answer in answers)
        if reply.name_of(key) == "place":
            return Position("place", key, None, tuple(earlier))
        return Position("units", key, place_in(message), tuple(earlier))


def _answers_given(one: Exchange) -> tuple[tuple[str, types.InputResponse], ...]:
    """Return the answers of a request, and those of the request that it continues."""
    return (*one.position.given, *(one.request.answers or {}).items())
