"""The default client: it goes on after each fault as well as its policy lets it.

A client that stops reports the error to its application and sends nothing more. One that calls
again starts over. One that resends sends a lost round again with the state it holds. One that sends
a call key does what `sdk.resuming` does: if a state is too old it asks under the key, and every
other refusal is the end. Around each request it makes the scenario's faults happen (`faults`).

Knows the player and the faults; nothing of options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mcp_types as types

from mrtr_options.review.bench.faults import BACK_OFF_SECONDS, CHANGE, PHASES, Kind
from mrtr_options.review.bench.history import Attempt
from mrtr_options.review.bench.messages import HUNG, LOST, Reply, Request
from mrtr_options.review.bench.player import Player, converse, on_the_wire
from mrtr_options.review.bench.scenario import AGREE, Accept, WholeCall
from mrtr_options.review.bench.setup import Era
from mrtr_options.sdk.call_key import new_call_key
from mrtr_options.tool import weather

MAX_REQUESTS = 20
"""The most requests that a client sends for one call before it counts as stuck."""

RETRIES_OF_FAILURES = 2
"""The least number of times that a client resends a round that ended in a server's failure.

It exceeds the number of faults: what fails each time is no fault.
"""

CALLS = 5
"""The most calls of a client that calls again: more than the faults that are tried at a time."""

OTHERWISE = {"place": "Springfield, Missouri", "units": "imperial", "consent": "yes"}
"""The user's answers after they changed their mind, and in another call; else `AGREE`."""

REFUSALS = (types.INVALID_PARAMS, types.MISSING_REQUIRED_CLIENT_CAPABILITY)
"""The codes of errors that refuse a request, however often it is sent."""

_AFTER = {"response": 0, "delivery": 0, "before": 1, "after": 2}
"""The order in which a request's faults take effect after it, by phase.

A fault that began before the request goes on until the faults in it are over.
"""


def rounds_of(location: str) -> int:
    """Return how many rounds a call takes in which nothing goes wrong."""
    return 2 if weather.only_place(location) else 3


class Driver:
    """The default client of one run.

    Args:
        player: Sends its requests.
        keyed: Whether it sends a call key.
        named: Whether the server names calls, by caller and location.

    Attributes:
        sent: Its requests, in order.
        chose: Whether its policy made a difference.
    """

    def __init__(self, player: Player, *, keyed: bool, named: bool = False) -> None:
        self.player = player
        self.keyed = keyed
        self._named = named
        self.scenario = player.scenario
        self.sent: list[Attempt] = []
        self.chose = False
        self._home = self._others = self._failed = 0
        self._round = self._begun = 1
        self._first = self.request(self.scenario.setup.era)
        self._before: Request | None = None

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
        await converse(self._first, self._deliver, self._answers, self._otherwise, MAX_REQUESTS)

    async def _answers(self, reply: Reply) -> types.InputResponses:
        first = next(iter(reply.questions))
        self._failed = 0
        self._round = self._round_of(reply.name_of(first))
        return {key: self.said(reply.name_of(key), AGREE) for key in reply.questions}

    async def _otherwise(self, request: Request, reply: Reply) -> Request | None:
        """Return the request after a response that asks nothing, as the client's policy says."""
        waited = reply.nothing == HUNG or reply.later  # for long enough
        if reply.is_result or waited:
            return None
        self.chose = True
        policy = self.scenario.setup.policy
        if policy == "stops":
            return None
        if reply.reason == "request_state_expired" and self.keyed:
            self._round = 1  # ask for the call's outcome, as `sdk.resuming` does
            return self._first
        refused = reply.code in REFUSALS
        if refused and (self.keyed or policy == "resends"):
            return None
        if policy == "calls again" and (refused or self.keyed or self._round > 1):
            self._round = 1
            self._begun += 1
            return self._first if self._begun <= CALLS else None
        if reply.code is not None:  # the server failed, and is given some time
            self._failed += 1
            if self._failed > max(RETRIES_OF_FAILURES, len(self.scenario.faults)):
                return None
            await self.player.wait(BACK_OFF_SECONDS)
        return self._before

    async def _deliver(self, request: Request) -> Reply:
        """Send one request with the faults around it. Return the reply that the client takes."""
        earlier = [sent for sent in self.sent if sent.round == self._round]
        attempt = len(earlier) + 1
        at = (self._round, attempt)
        due = [each.kind for each in self.scenario.faults if (each.round, each.attempt) == at]
        due.sort(key=lambda kind: PHASES.index(kind.phase))
        moment = Moment(self, request, self._before)
        await moment.begin(due)
        self._before = moment.request
        self._home = moment.instance
        answers = request.answers is not None
        self.sent.append(Attempt(self._round, attempt, self.player.rounds + 1, answers))
        return await moment.send(due)

    def instance(self, *, elsewhere: bool = False) -> int:
        """Return the instance of the next request: the one that asked, or another one.

        On a free fleet the instances take turns.
        """
        if self.scenario.setup.fleet == "free":
            return len(self.sent) % 2
        return 1 - self._home if elsewhere else self._home

    def _round_of(self, name: str) -> int:
        """Return the number of the round that answers a question."""
        last = rounds_of(self.scenario.location)
        return {"units": last, "place": last - 1}.get(name, last + 1)

    def questions(self) -> list[str]:
        """Return the names of the call's questions, in order."""
        return ["place", "units"][-(rounds_of(self.scenario.location) - 1) :]

    def following(self) -> str | None:
        """Return the name of the question that the round is expected to be answered with."""
        asked = self.questions()
        return asked[self._round - 1] if self._round <= len(asked) else None

    def said(self, name: str, answers: dict[str, Any], call: int = 1) -> types.InputResponse:
        """Record the user's answer to a question, and return it."""
        response = on_the_wire(Accept({name: answers.get(name)}))
        self.player.answer(call, name, response)
        return response

    def next_other(self) -> int:
        """Return the number of another call of the same user."""
        self._others += 1
        return 1 + self._others


class Moment:
    """One request and the faults around it: the rows of `faults.KINDS` set and call its members.

    Attributes:
        request: The request.
        instance: The instance that it goes to.
        deliveries: How often the network delivers it: once or twice.
        at_once: Whether its deliveries are made at the same moment.
        elsewhere: Whether it goes to another instance than the one that asked.
        lost: Whether its response is lost.
    """

    def __init__(self, driver: Driver, request: Request, before: Request | None) -> None:
        self.deliveries = 1
        self.at_once = False
        self.elsewhere = False
        self.lost = False
        self.instance = 0
        self._driver = driver
        self._player = driver.player
        self.request = request
        self._before = before
        self._armed: str | None = None
        self._reply = Reply(nothing=LOST)
        self._other: _Other | None = None

    async def begin(self, due: list[Kind]) -> None:
        """Apply the faults that come before the request."""
        for kind in due:
            await kind.before(self)
        self.instance = self._driver.instance(elsewhere=self.elsewhere)

    async def send(self, due: list[Kind]) -> Reply:
        """Send the request, and apply the faults that come after it.

        Return the reply that the client goes on from.
        """
        request = self.request
        player = self._player
        await player.instances.arm(self._armed)
        free = self._driver.scenario.setup.fleet == "free"
        second = (self.instance + 1) % player.instances.instances if free else self.instance
        is_legacy = request.era == "legacy"
        reply = await player.play_round(
            request,
            [self.instance] if self.deliveries == 1 else [self.instance, second],
            at_once=self.at_once,
            lost=self.lost,
            user=player.pushed(WholeCall(), request) if is_legacy else None,
        )
        self._reply = Reply(nothing=LOST) if self.lost else reply
        await player.instances.arm(None)
        for kind in sorted(due, key=lambda kind: _AFTER[kind.phase]):
            await kind.after(self)
        return self._reply

    async def misroute(self) -> None:
        """Deliver the request to another instance than the one that asked; its response is lost."""
        if self._before is None:  # no instance has had a request, so none is the wrong one
            return
        there = self._driver.instance(elsewhere=True)
        await self._player.play_round(self.request, [there], lost=True)

    async def restart(self) -> None:
        """Replace every instance."""
        await self._player.restart("same")

    async def redeploy(self) -> None:
        """Deploy the version with `CHANGE`."""
        await self._player.redeploy(CHANGE)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await self._player.wait(seconds)

    async def arm(self, kind: str) -> None:
        """Arm a fault for an effect of the request."""
        self._armed = kind

    async def crash(self) -> None:
        """End the instance that has answered."""
        await self._player.instances.crash(self.instance)

    async def begin_other(self) -> None:
        """Begin another call of the same user."""
        self._other = _Other(self._driver, self._driver.instance(), OTHERWISE)
        await self._other.begin()

    async def finish_other(self) -> None:
        """Finish the other call."""
        assert self._other is not None
        await self._other.finish()

    async def call_again(self) -> None:
        """Make the same call again, with the same answers; the user wants both."""
        other = _Other(self._driver, self._driver.instance(), AGREE)
        await other.begin()
        await other.finish()

    async def answer_early(self) -> None:
        """Have the request answer every question of the call, by its name, before it is asked."""
        said = {name: self._driver.said(name, AGREE) for name in self._driver.questions()}
        self.request = replace(self.request, answers=said)

    async def go_back(self) -> None:
        """Answer the question of the round otherwise, from the state that it came with."""
        answers = dict(self.request.answers or {})
        for key, given in answers.items():
            content = given.content if isinstance(given, types.ElicitResult) else None
            (name,) = content or {"": None}
            answers[key] = self._driver.said(name, OTHERWISE)
        if answers:
            changed = replace(self.request, answers=answers)
            reply = await self._player.play_round(changed, [self.instance])
            self._reply = self._reply if reply.failed else reply

    async def deliver_earlier(self) -> None:
        """Deliver the request before this one again."""
        if self._before is not None:
            await self._player.play_round(self._before, [self.instance], lost=True)

    async def deliver_with_more(self) -> None:
        """Deliver the request again with one more property in its answers."""
        answers = {
            key: on_the_wire(Accept({**(given.content or {}), "note": "as before"}))
            for key, given in (self.request.answers or {}).items()
            if isinstance(given, types.ElicitResult)
        }
        if answers:
            changed = replace(self.request, answers=answers)
            await self._player.play_round(changed, [self.instance], lost=True)

    async def answer_ahead(self) -> None:
        """Have the request answer the question after it, too."""
        following = self._driver.following()
        if following is not None:
            said = {following: self._driver.said(following, AGREE)}
            self.request = replace(self.request, answers={**(self.request.answers or {}), **said})


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
        self._reply = await self._driver.player.play_round(
            request, [self._instance], call=self._call
        )
        return self._reply

    async def _answers(self, reply: Reply) -> types.InputResponses:
        said = {
            key: self._driver.said(reply.name_of(key), self._said, self._call)
            for key in reply.questions
        }
        self._request = replace(self._request, answers=said, state=reply.state)
        return said
