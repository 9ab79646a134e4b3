"""A reference model: how each option may respond to a request, independent of its code.

The model is shown every request that reaches a deployment, in order, with restarts and waits in
between, and says what the response must be and which effects must have happened. A state is opaque
to it: it remembers what it meant by the token that came with a response. `AUDITS` is the table of the
stateless options; H has a class of its own, and so has the single-use guard.

Knows the domain, and of the review what a column, a request and a reply are. It does not know faults
(crashes, disconnects, failing effects) nor the legacy era.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import mcp_types as types

from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.subjects import LEGACY_SHIM, SINGLE_USE, Column
from mrtr_options.tool import weather
from mrtr_options.tool.settings import STATE_TTL_SECONDS

Audits = Literal["every round", "until the state says so", "with the bill"]

AUDITS: dict[str, Audits] = {
    **dict.fromkeys("ABCDE", "every round"),
    "F": "until the state says so",
    "G": "with the bill",
}
"""When a stateless option does its first effect. All of them bill whenever they are given units."""

BAD_STATE = Reply(code=types.INVALID_PARAMS, message="requestState")
GONE = Reply(code=types.INVALID_PARAMS, message="is not waiting on this server")
SPENT = Reply(code=types.INVALID_PARAMS, message="answered differently before")
CANNOT_BE_ASKED = Reply(code=types.MISSING_REQUIRED_CLIENT_CAPABILITY, message="does not declare")
"""Refusals. A message stands for every message that it is part of."""


@dataclass(frozen=True)
class Said:
    """A response, and what its state stands for if it has one."""

    reply: Reply
    state: Any = None


@dataclass
class World:
    """The world outside the server: the effects that have happened, as (kind, subject), the seconds that
    have passed, and how often the instances were replaced."""

    effects: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    seconds: float = 0.0
    restarts: int = 0


Behaviour = Callable[[int, Request, Any], Said]
"""One kind of option: what an instance says to a request, given what its state stands for."""


# --- what all options have in common ----------------------------------------------------------------


class _Ends(Exception):
    """The round ends here."""

    def __init__(self, said: Said) -> None:
        self.said = said


def read(question: weather.Question[weather.AnswerT], response: types.InputResponse) -> weather.AnswerT:
    """What the user said.

    Raises:
        _Ends: They said no, or nothing that fits.
    """
    if isinstance(response, types.ElicitResult):
        if response.action == "decline":
            raise _Ends(Said(Reply(text=weather.declined(question.key))))
        if response.action == "cancel":
            raise _Ends(Said(Reply(text=weather.cancelled(question.key))))
        choices: list[str] = question.answer.model_json_schema()["properties"][question.key]["enum"]
        chosen = (response.content or {}).get(question.key)
        if chosen in choices:
            return question.answer.model_validate({question.key: chosen})
    raise _Ends(Said(Reply(code=types.INVALID_PARAMS, message=f"The answer to {question.key!r}")))


def put(question: weather.Question[weather.AnswerT], request: Request, state: Any) -> weather.AnswerT:
    """A question without an answer: it is asked, or what it assumes is used if it cannot be asked.

    Raises:
        _Ends: It is asked, or nothing is assumed.
    """
    if request.asks:
        raise _Ends(Said(Reply(questions={question.key: question.message}), state))
    if question.assumed is None:
        raise _Ends(Said(Reply(text=question.unasked, is_error=True)))
    return question.assumed


# --- A to G: everything is in the state ---------------------------------------------------------


@dataclass(frozen=True)
class Settled:
    """What a stateless option's state says: the place, if it is known, and that it was audited."""

    place: str | None = None
    audited: bool = False


class Stateless:
    """Every delivery is handled anew, on any instance."""

    def __init__(self, world: World, audits: Audits) -> None:
        self._world = world
        self._audits = audits

    def __call__(self, instance: int, request: Request, state: Settled | None) -> Said:
        settled = state or Settled()
        if self._audits == "every round" or (
            self._audits == "until the state says so" and not settled.audited
        ):
            self._world.effects["audit", request.location] += 1
        try:
            place = settled.place or weather.only_place(request.location)
            if place is None:
                asked = weather.which_place(request.location)
                place = self._answer(asked, request, Settled(None, True)).place
            units = self._answer(weather.which_units(place), request, Settled(place, True))
        except weather.UnknownPlace as unknown:
            return Said(Reply(text=str(unknown), is_error=True))
        except _Ends as ends:
            return ends.said
        if self._audits == "with the bill":
            self._world.effects["audit", request.location] += 1
        self._world.effects["bill", place] += 1
        return Said(Reply(text=weather.report(place, units)))

    def _answer(
        self, question: weather.Question[weather.AnswerT], request: Request, state: Settled
    ) -> weather.AnswerT:
        response = (request.answers or {}).get(question.key)
        return put(question, request, state) if response is None else read(question, response)


# --- H: everything is in a frame ----------------------------------------------------------------

Conversation = Generator[weather.Question[Any], Any, str]


@dataclass(eq=False)
class Frame:
    """One call in one instance's memory: which instance, its position, its responses and its answers."""

    home: tuple[int, int]
    conversation: Conversation
    said: list[Said] = field(default_factory=list[Said])
    answers: list[types.InputResponse] = field(default_factory=list[types.InputResponse])


@dataclass(frozen=True)
class Waiting:
    """What H's state says: the call, and which of its questions this is."""

    frame: Frame
    number: int
    question: weather.Question[Any]


class Frames:
    """Every answer is taken once, by the one instance that has the frame, until a restart.

    The same answer again gets the recorded response, and a different one is refused.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, instance: int, request: Request, state: Waiting | None) -> Said:
        if state is None:
            frame = Frame(self._home(instance), self._conversation(request.location))
            self._go_on(frame, request, None)
            return frame.said[0]
        frame, number = state.frame, state.number
        if frame.home != self._home(instance):
            return Said(GONE)
        response = (request.answers or {}).get(state.question.key)
        if number < len(frame.answers):
            same = response is None or response == frame.answers[number]
            return frame.said[number + 1] if same else Said(SPENT)
        if response is None:
            return frame.said[number]
        try:
            answer = read(state.question, response)
        except _Ends as ends:
            if ends.said.reply.code is not None:
                return ends.said  # the frame goes on waiting, for an answer that fits
            frame.said.append(ends.said)
        else:
            self._go_on(frame, request, answer)
        frame.answers.append(response)
        return frame.said[-1]

    def _home(self, instance: int) -> tuple[int, int]:
        return instance, self._world.restarts

    def _conversation(self, location: str) -> Conversation:
        self._world.effects["audit", location] += 1
        place = weather.only_place(location)
        if place is None:
            place = (yield weather.which_place(location)).place
        units = yield weather.which_units(place)
        self._world.effects["bill", place] += 1
        return weather.report(place, units)

    def _go_on(self, frame: Frame, request: Request, answer: Any) -> None:
        """Run a frame to its next question or its end."""
        try:
            while True:
                question = frame.conversation.send(answer)
                answer = put(question, request, Waiting(frame, len(frame.said), question))
        except StopIteration as end:
            frame.said.append(Said(Reply(text=end.value)))
        except weather.UnknownPlace as unknown:
            frame.said.append(Said(Reply(text=str(unknown), is_error=True)))
        except _Ends as ends:
            frame.said.append(ends.said)


# --- the single-use guard -----------------------------------------------------------------------


@dataclass(eq=False)
class Round:
    """A round after a state was handed out: the handler's state, and the response once it ran.

    Attributes:
        state: The handler's.
        begins: When its state was first handed out; it is good for one time to live from then.
        asked: The keys of its questions.
        answers: The answers that it ran with.
        said: The recorded response.
    """

    state: Any
    begins: float
    asked: list[str]
    answers: types.InputResponses | None = None
    said: Said | None = None


class SingleUse:
    """Every round with a state runs once, in one store for all instances.

    The same answers again get the recorded response, and different ones or none are refused. An answer
    that does not fit is refused before anything runs and does not use the round up; neither does a round
    without answers that asks again.
    """

    def __init__(self, world: World, inner: Behaviour) -> None:
        self._world = world
        self._inner = inner

    def __call__(self, instance: int, request: Request, state: Round | None) -> Said:
        if state is None:
            return self._numbered(self._inner(instance, request, None))
        if self._world.seconds - state.begins >= STATE_TTL_SECONDS:
            return Said(BAD_STATE)
        given = request.answers or {}
        answers = {key: given[key] for key in state.asked if key in given}
        if state.said is not None and answers == state.answers:
            return state.said
        before = self._world.effects.copy()
        said = self._inner(instance, replace(request, answers=answers or None), state.state)
        if said.reply.code is not None or state.said is not None:
            self._world.effects.clear()
            self._world.effects.update(before)
            return said if said.reply.code is not None else Said(SPENT)
        if not answers and said.reply.questions:
            return Said(said.reply, state)
        state.answers, state.said = answers, self._numbered(said)
        return state.said

    def _numbered(self, said: Said) -> Said:
        if not said.reply.questions:
            return said
        return Said(said.reply, Round(said.state, self._world.seconds, list(said.reply.questions)))


# --- the boundary in front of them --------------------------------------------------------------


@dataclass(frozen=True)
class Token:
    """A state that was handed out: what it stands for, and what it is bound to."""

    state: Any
    location: str
    principal: str
    expires: float
    key: int


class Model:
    """A deployment of one column, as it should be.

    Attributes:
        world: The effects that must have happened by now.
    """

    def __init__(self, column: Column) -> None:
        self.world = World()
        letter = column.option.letter
        self._behaviour: Behaviour = (
            Frames(self.world) if letter == "H" else Stateless(self.world, AUDITS[letter])
        )
        if SINGLE_USE in column.wrappers:
            self._behaviour = SingleUse(self.world, self._behaviour)
        self._tokens: dict[str, Token] = {}
        self._key = self._oldest_key = 0

    @staticmethod
    def knows(column: Column) -> bool:
        """Whether there is a model of a column."""
        return (column.option.letter in AUDITS or column.option.letter == "H") and set(
            column.wrappers
        ) <= {SINGLE_USE, LEGACY_SHIM}

    def respond(self, instance: int, request: Request) -> Said:
        """What a request gets."""
        state = None
        if request.state is not None:
            token = self._tokens.get(request.state)
            if token is None or not self._is_good(token, request):
                return Said(BAD_STATE)
            state = token.state
        said = self._behaviour(instance, request, state)
        return Said(CANNOT_BE_ASKED) if said.reply.questions and not request.asks else said

    def _is_good(self, token: Token, request: Request) -> bool:
        bound = (token.location, token.principal) == (request.location, request.principal)
        return bound and token.key >= self._oldest_key and self.world.seconds < token.expires

    def hand_out(self, text: str, request: Request, said: Said) -> None:
        """Take note of the token that a response came with."""
        expires = self.world.seconds + STATE_TTL_SECONDS
        self._tokens[text] = Token(said.state, request.location, request.principal, expires, self._key)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.world.seconds += seconds

    def restart(self, keys: Literal["same", "rotated", "new"]) -> None:
        """Every instance is replaced."""
        self.world.restarts += 1
        if keys != "same":
            self._key += 1
        if keys == "new":
            self._oldest_key = self._key
