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

from mrtr_options.demo.call import converse
from mrtr_options.review.bench.client.sender import Sender
from mrtr_options.review.bench.faults.kinds import BACK_OFF_SECONDS, Sending, Version, nest
from mrtr_options.review.bench.history import Attempt
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.setup import Era, rounds_of
from mrtr_options.review.bench.steps import AGREE, WholeCall, accept
from mrtr_options.sdk.call_key import new_call_key

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


def in_other_words(location: str) -> str:
    """Return a location as a model may write it the second time: the tool reads the same place."""
    return f"{location.lower()} "


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
        self.last_request: Request | None = None

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
        await converse(self._first, self._deliver, self._following, MAX_REQUESTS)

    async def _following(self, request: Request, reply: Reply) -> Request | None:
        """Return the request after a response: with answers, or as the client's policy says."""
        if not reply.questions:
            return await self._after_no_question(reply)
        first = next(iter(reply.questions))
        self._failed = 0
        self._round = self._round_of(reply.name_of(first))
        answers = {key: self.answer(reply.name_of(key)) for key in reply.questions}
        return replace(request, answers=answers, state=reply.state)

    async def _after_no_question(self, reply: Reply) -> Request | None:
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
        return self.last_request

    def _begin_first_round(self) -> Request:
        """Go back to round 1. Return its request, perhaps in other words."""
        self._round = 1
        if self.scenario.setup.words == "same":
            return self._first
        return replace(self._first, location=in_other_words(self.scenario.location))

    async def _deliver(self, request: Request) -> Reply:
        """Send one request with the faults around it. Return the reply that the client takes."""
        earlier = [attempt for attempt in self.attempts if attempt.round == self._round]
        number = len(earlier) + 1
        at = (self._round, number)
        faults = [each.kind for each in self.scenario.faults if (each.round, each.attempt) == at]
        answers = request.answers is not None

        async def send(sending: Sending) -> Reply:
            self.last_request = sending.request
            self._home = self.instance(elsewhere=sending.elsewhere)
            self.attempts.append(Attempt(self._round, number, self.sender.sendings + 1, answers))
            return await self._put_on_the_wire(sending, self._home)

        return await nest(faults, send)(Sending(self, request, self.last_request))

    async def _put_on_the_wire(self, sending: Sending, instance: int) -> Reply:
        """Send a request, once or twice. Return what reaches the client."""
        to = [instance]
        if sending.again is not None:
            is_free = self.scenario.setup.fleet == "free"
            to.append((instance + 1) % self.sender.instances.instances if is_free else instance)
        is_legacy = sending.request.era == "legacy"
        await self.sender.instances.arm(sending.at_effect)
        reply = await self.sender.play_round(
            sending.request,
            to,
            at_once=sending.again == "at once",
            lost=sending.lost,
            user=self.sender.pushed(WholeCall(), sending.request) if is_legacy else None,
        )
        await self.sender.instances.arm(None)
        return Reply(nothing=LOST) if sending.lost else reply

    # --- what faults do (`faults.kinds.Client`) ---------------------------------------------------

    async def restart(self) -> None:
        await self.sender.restart("same")

    async def redeploy(self, version: Version) -> None:
        await self.sender.redeploy(version)

    async def wait(self, seconds: float) -> None:
        await self.sender.wait(seconds)

    async def crash(self) -> None:
        await self.sender.instances.crash(self._home)

    async def deliver(
        self, request: Request, *, elsewhere: bool = False, lost: bool = True
    ) -> Reply:
        instance = self.instance(elsewhere=True) if elsewhere else self._home
        return await self.sender.play_round(request, [instance], lost=lost)

    @property
    def questions(self) -> list[str]:
        return ["place", "units"][-(rounds_of(self.scenario.location) - 1) :]

    @property
    def next_question(self) -> str | None:
        asked = self.questions
        return asked[self._round - 1] if self._round <= len(asked) else None

    def answer(self, question: str, *, otherwise: bool = False) -> types.InputResponse:
        return self.say(question, CHANGED_ANSWERS if otherwise else AGREE)

    def other_call(self, *, otherwise: bool = False) -> _Other:
        return _Other(self, self.instance(), CHANGED_ANSWERS if otherwise else AGREE)

    # --- the call ---------------------------------------------------------------------------------

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

    def say(self, name: str, answers: dict[str, Any], call: int = 1) -> types.InputResponse:
        """Record the user's answer to a question, and return it."""
        response = accept({name: answers.get(name)})
        self.sender.answer(call, name, response)
        return response

    def next_other(self) -> int:
        """Return the number of another call of the same user."""
        self._others += 1
        return 1 + self._others


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
        await converse(self._request, self._send, self._following, most=1)

    async def finish(self) -> None:
        """Send the rounds after the first."""
        if self._request.state is not None or self._request.answers:
            await converse(self._request, self._send, self._following, most=3)

    async def _send(self, request: Request) -> Reply:
        return await self._driver.sender.play_round(request, [self._instance], call=self._call)

    async def _following(self, request: Request, reply: Reply) -> Request | None:
        if not reply.questions:
            return None
        said = {
            key: self._driver.say(reply.name_of(key), self._said, self._call)
            for key in reply.questions
        }
        self._request = replace(request, answers=said, state=reply.state)
        return self._request
