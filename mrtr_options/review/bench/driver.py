"""The default client: it goes on after each fault as well as its policy lets it.

A client that stops reports the error to its application and sends nothing more. One that calls
again starts over. One that resends sends a lost round again with the state it holds. One that sends
a call key does what `sdk.resuming` does: if a state is too old it asks under the key, and every
other refusal is the end. Around each request it makes the scenario's faults happen (`faults`).

Knows the sender and the faults; nothing of options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mcp_types as types

from mrtr_options.review.bench.acts import BACK_OFF_SECONDS
from mrtr_options.review.bench.answers import AGREE, Accept
from mrtr_options.review.bench.fault_kinds import PHASES, PHASES_AFTER, Kind, Phase, Version
from mrtr_options.review.bench.history import Attempt
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.scenario import WholeCall
from mrtr_options.review.bench.sender import Sender, converse, on_the_wire
from mrtr_options.review.bench.setup import Era
from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.tool import weather

MAX_REQUESTS = 20
"""The most requests that a client sends for one call before it counts as stuck."""

RETRIES_OF_FAILURES = 2
"""The most times that a client resends a round that ended in a server's failure.

If more faults than that are tried, it resends once for each: what fails each time is no fault.
"""

CALLS = 5
"""The most calls of a client that calls again: more than the faults that are tried at a time."""

CHANGED_ANSWERS = {"place": "Springfield, Missouri", "units": "imperial", "consent": "yes"}
"""The user's answers after they changed their mind, and in another call; else `AGREE`."""

REFUSALS = (types.INVALID_PARAMS, types.MISSING_REQUIRED_CLIENT_CAPABILITY)
"""The codes of errors that refuse a request, however often it is sent."""


def rounds_of(location: str) -> int:
    """Return how many rounds a call takes in which nothing goes wrong."""
    return 2 if weather.only_place(location) else 3


class Driver:
    """The default client of one run.

    Args:
        sender: Sends its requests.
        keyed: Whether it sends a call key.
        named: Whether the server names calls, by caller and location.

    Attributes:
        attempts: Its attempts at rounds, in order.
        chose: Whether its policy made a difference.
    """

    def __init__(self, sender: Sender, *, keyed: bool, named: bool = False) -> None:
        self.sender = sender
        self.keyed = keyed
        self._named = named
        self.scenario = sender.scenario
        self.attempts: list[Attempt] = []
        self.chose = False
        self._home = 0
        self._others = 0
        self._failed = 0
        self._round = 1
        self._begun = 1
        self._first = self.request(self.scenario.setup.era)
        self._previous: Request | None = None

    def request(self, era: Era = "modern") -> Request:
        """Return the first request of a call, under a key of its own if the client sends one."""
        location = self.scenario.location
        return Request(
            location,
            era=era,
            key=new_call_key() if self.keyed else None,
            named=location if self._named else None,
        )

    async def call(self) -> None:
        """Make the call; when it returns, the call has ended or is stuck."""
        await converse(
            self._first,
            self._deliver,
            self._begin_next_round,
            self._after_no_question,
            MAX_REQUESTS,
        )

    async def _begin_next_round(self, reply: Reply) -> types.InputResponses:
        """Go on to the round that answers the questions of a response. Return the answers."""
        first = next(iter(reply.questions))
        self._failed = 0
        self._round = self._round_of(reply.name_of(first))
        return {key: self.answer(reply.name_of(key), AGREE) for key in reply.questions}

    async def _after_no_question(self, request: Request, reply: Reply) -> Request | None:
        """Return the request after a response that asks nothing, as the client's policy says."""
        waited = reply.nothing == HUNG or reply.later  # for long enough
        if reply.is_result or waited:
            return None
        self.chose = True
        policy = self.scenario.setup.policy
        if policy == "stops":
            return None
        if reply.reason == "request_state_expired" and self.keyed:
            return self._begin_first_round()  # which asks for the outcome, as `sdk.resuming` does
        refused = reply.code in REFUSALS
        if refused and (self.keyed or policy == "resends"):
            return None
        # A first round that got no answer is sent again as it is: it is a new call anyway.
        is_another_request = refused or self.keyed or self._round > 1
        if policy == "calls again" and is_another_request:
            self._begun += 1
            return self._begin_first_round() if self._begun <= CALLS else None
        if reply.code is not None:  # the server failed, and is given some time
            self._failed += 1
            if self._failed > max(RETRIES_OF_FAILURES, len(self.scenario.faults)):
                return None
            await self.sender.wait(BACK_OFF_SECONDS)
        return self._previous

    def _begin_first_round(self) -> Request:
        """Go back to round 1. Return its request."""
        self._round = 1
        return self._first

    async def _deliver(self, request: Request) -> Reply:
        """Send one request with the faults around it. Return the reply that the client takes."""
        earlier = [attempt for attempt in self.attempts if attempt.round == self._round]
        number = len(earlier) + 1
        at = (self._round, number)
        faults = [each.kind for each in self.scenario.faults if (each.round, each.attempt) == at]
        moment = _Moment(self, request, self._previous, faults)
        await moment.begin()
        self._previous = moment.request
        self._home = moment.instance
        answers = request.answers is not None
        self.attempts.append(Attempt(self._round, number, self.sender.sendings + 1, answers))
        return await moment.send()

    def instance(self, *, elsewhere: bool = False) -> int:
        """Return the instance of the next request: the one that asked, or another one.

        On a free fleet the instances take turns.
        """
        if self.scenario.setup.fleet == "free":
            return len(self.attempts) % 2
        return 1 - self._home if elsewhere else self._home

    def _round_of(self, name: str) -> int:
        """Return the number of the round that answers a question."""
        last = rounds_of(self.scenario.location)
        return {"units": last, "place": last - 1}.get(name, last + 1)

    def questions(self) -> list[str]:
        """Return the names of the call's questions, in order."""
        return ["place", "units"][-(rounds_of(self.scenario.location) - 1) :]

    def following(self) -> str | None:
        """Return the name of the question that the round's response is expected to ask."""
        asked = self.questions()
        return asked[self._round - 1] if self._round <= len(asked) else None

    def answer(self, name: str, answers: dict[str, Any], call: int = 1) -> types.InputResponse:
        """Record the user's answer to a question, and return it."""
        response = on_the_wire(Accept({name: answers.get(name)}))
        self.sender.answer(call, name, response)
        return response

    def next_other(self) -> int:
        """Return the number of another call of the same user."""
        self._others += 1
        return 1 + self._others


class _Moment:
    """One request and the faults around it; see `fault_kinds.Moment`.

    Attributes:
        instance: The instance that it goes to.
    """

    def __init__(
        self, driver: Driver, request: Request, previous: Request | None, faults: list[Kind]
    ) -> None:
        self.request = request
        self.previous = previous
        self.reply = Reply(nothing=LOST)
        self.instance = 0
        self._driver = driver
        self._sender = driver.sender
        self._faults = faults
        self._other: _Other | None = None

    async def begin(self) -> None:
        """Let the faults act that come before the request."""
        for phase in PHASES:
            for kind in self._faults_of(phase):
                await kind.act_before(self)
        is_elsewhere = any(kind.elsewhere for kind in self._faults)
        self.instance = self._driver.instance(elsewhere=is_elsewhere)

    async def send(self) -> Reply:
        """Send the request, and let the faults act that come after it.

        Return the reply that the client goes on from.
        """
        instances = self._sender.instances
        lost = any(kind.lost for kind in self._faults)
        again = next((kind.again for kind in self._faults if kind.again), None)
        at_effects = [kind.name for kind in self._faults if kind.strike is not None]
        is_legacy = self.request.era == "legacy"
        await instances.arm(at_effects[-1] if at_effects else None)
        reply = await self._sender.play_round(
            self.request,
            [self.instance] if again is None else [self.instance, self._second_instance()],
            at_once=again == "at once",
            lost=lost,
            user=self._sender.pushed(WholeCall(), self.request) if is_legacy else None,
        )
        if not lost:
            self.reply = reply
        await instances.arm(None)
        for phases in PHASES_AFTER:
            for kind in self._faults_of(*phases):
                await kind.act_after(self)
        return self.reply

    def _faults_of(self, *phases: Phase) -> list[Kind]:
        return [kind for kind in self._faults if kind.phase in phases]

    def _second_instance(self) -> int:
        """Return the instance of the second delivery: on a free fleet the next one."""
        if self._driver.scenario.setup.fleet == "free":
            return (self.instance + 1) % self._sender.instances.instances
        return self.instance

    async def restart(self) -> None:
        await self._sender.restart("same")

    async def redeploy(self, version: Version) -> None:
        await self._sender.redeploy(version)

    async def wait(self, seconds: float) -> None:
        await self._sender.wait(seconds)

    async def crash(self) -> None:
        await self._sender.instances.crash(self.instance)

    async def deliver(
        self, request: Request, *, elsewhere: bool = False, lost: bool = True
    ) -> Reply:
        instance = self._driver.instance(elsewhere=True) if elsewhere else self.instance
        return await self._sender.play_round(request, [instance], lost=lost)

    @property
    def questions(self) -> list[str]:
        return self._driver.questions()

    @property
    def next_question(self) -> str | None:
        return self._driver.following()

    def answer(self, question: str, *, otherwise: bool = False) -> types.InputResponse:
        return self._driver.answer(question, CHANGED_ANSWERS if otherwise else AGREE)

    async def begin_other(self) -> None:
        self._other = _Other(self._driver, self._driver.instance(), CHANGED_ANSWERS)
        await self._other.begin()

    async def finish_other(self) -> None:
        assert self._other is not None
        await self._other.finish()

    async def call_again(self) -> None:
        other = _Other(self._driver, self._driver.instance(), AGREE)
        await other.begin()
        await other.finish()


class _Other:
    """Another call of the same user for the same location.

    Args:
        driver: The client.
        instance: The instance of its rounds.
        answers: The user's answers, by question.
    """

    def __init__(self, driver: Driver, instance: int, answers: dict[str, Any]) -> None:
        self._driver = driver
        self._said = answers
        self._call = driver.next_other()
        self._instance = instance
        self._request = driver.request()

    async def begin(self) -> None:
        """Send the first round."""
        await converse(self._request, self._send, self._answers, most=1)

    async def finish(self) -> None:
        """Send the rounds after the first."""
        if self._reply.questions:
            await converse(self._request, self._send, self._answers, most=3)

    async def _send(self, request: Request) -> Reply:
        self._reply = await self._driver.sender.play_round(
            request, [self._instance], call=self._call
        )
        return self._reply

    async def _answers(self, reply: Reply) -> types.InputResponses:
        said = {
            key: self._driver.answer(reply.name_of(key), self._said, self._call)
            for key in reply.questions
        }
        self._request = replace(self._request, answers=said, state=reply.state)
        return said
