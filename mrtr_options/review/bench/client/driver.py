"""The usual client: it goes on after each fault as its policy says (`policies`).

A client that sends a call key does what `sdk.resuming` does: if a state is too old it asks under
the key, and every other refusal is the end. Around each request the client makes the scenario's
faults happen (`faults`).

Knows the sender, the policies and the faults; nothing of options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mcp_types as types

from mrtr_options.demo.call import converse
from mrtr_options.review.bench.faults.kinds import (
    BACK_OFF_SECONDS,
    Outgoing,
    Version,
    nest,
    rounds_of,
)
from mrtr_options.review.bench.history import Attempt
from mrtr_options.review.bench.messages import HUNG, Era, Reply, Request
from mrtr_options.review.bench.policies import POLICIES, Choice, Loss
from mrtr_options.review.bench.steps import AGREE, WholeCall, accept
from mrtr_options.sdk.call_key import new_call_key

if TYPE_CHECKING:
    from mrtr_options.review.bench.client.sender import Sender

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
    """The usual client of one run.

    Args:
        sender: Sends its requests.
        keyed: Whether it sends a call key.
        named: Whether the server names calls, by caller and location.

    Attributes:
        attempts: Its attempts at rounds, in order.
        choices: The choices of its policy, in order.
        gave_up: Whether its policy ended the call, so that nobody learns if the call goes on.
    """

    def __init__(self, sender: Sender, *, keyed: bool, named: bool = False) -> None:
        self.sender = sender
        self.keyed = keyed
        self._named = named
        self.scenario = sender.scenario
        self.attempts: list[Attempt] = []
        self.choices: list[Choice] = []
        self.gave_up = False
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
        await converse(self._first, self._send, self._following, MAX_REQUESTS)

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
        loss = Loss(
            self._round,
            len(self._earlier()),
            is_refusal=reply.code in REFUSALS,
            is_keyed=self.keyed,
            may_ask=self.keyed and reply.reason == "request_state_expired",
        )
        then = POLICIES[self.scenario.setup.policy].after(loss)
        events = self.sender.instances.recording.count
        self.choices.append(Choice(loss, then, events, len(self.attempts)))
        match then:
            case "end":
                self.gave_up = True
                return None
            case "ask":
                return self._begin_first_round()
            case "call again":
                self._begun += 1
                return self._begin_first_round() if self._begun <= CALLS else None
            case "send again":
                return await self._send_again(reply)

    async def _send_again(self, reply: Reply) -> Request | None:
        """Return the last request once more, after a while if the server failed; None at last."""
        if reply.code is not None:
            self._failed += 1
            if self._failed > max(RETRIES_OF_FAILURES, len(self.scenario.faults)):
                return None
            await self.sender.wait(BACK_OFF_SECONDS)
        return self.last_request

    def _earlier(self) -> list[Attempt]:
        """Return the attempts at the round so far."""
        return [attempt for attempt in self.attempts if attempt.round == self._round]

    def _begin_first_round(self) -> Request:
        """Go back to round 1. Return its request, perhaps in other words."""
        self._round = 1
        if self.scenario.setup.words == "same":
            return self._first
        return replace(self._first, location=in_other_words(self.scenario.location))

    async def _send(self, request: Request) -> Reply:
        """Send one request with the faults around it. Return the reply that the client takes."""
        number = len(self._earlier()) + 1
        at = (self._round, number)
        faults = [each.kind for each in self.scenario.faults if (each.round, each.attempt) == at]
        answers = request.answers is not None

        async def send(outgoing: Outgoing) -> Reply:
            self.last_request = outgoing.request
            self._home = self.instance(elsewhere=outgoing.elsewhere)
            self.attempts.append(Attempt(self._round, number, self.sender.sendings + 1, answers))
            return await self._put_on_the_wire(outgoing, self._home)

        reply = await nest(faults, send)(Outgoing(self, request, self.last_request))
        if len(self._earlier()) < number:
            names = ", ".join(kind.name for kind in faults)
            raise TypeError(f"{names}: a fault has to send its request on (faults.kinds)")
        return reply

    async def _put_on_the_wire(self, outgoing: Outgoing, instance: int) -> Reply:
        """Send a request, once or twice. Return what reaches the client."""
        to = [instance]
        if outgoing.again is not None:
            is_free = self.scenario.setup.fleet == "free"
            to.append((instance + 1) % self.sender.instances.instances if is_free else instance)
        is_legacy = outgoing.request.era == "legacy"
        await self.sender.instances.arm(outgoing.at_effect)
        reply = await self.sender.play_round(
            outgoing.request,
            to,
            at_once=outgoing.again == "at once",
            lost=outgoing.lost,
            user=self.sender.pushed(WholeCall(), outgoing.request) if is_legacy else None,
        )
        await self.sender.instances.arm(None)
        return reply

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
