"""Clients that call the tool until they are told to stop. Every call is about a place of its own.

A client keeps this retry policy: it sends a round again, to any process, if no response came or if
the error allows it (`TRY_AGAIN`). It follows a state-only response with its state. Any other error
ends the call.

Knows the fleet and what goes over the wire; of options only that they serve the weather tool.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import anyio

from mrtr_options.demo.call import converse
from mrtr_options.review.bench.deployments.processes import FATAL
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.steps import ENDED
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES
from mrtr_options.tool import weather
from tests.chaos.disasters import Manner
from tests.chaos.fleet import Fleet
from tests.sending import accepted

TRY_AGAIN = ("still_at_work", "store_unusable", "store_full")
"""The reasons of errors after which the same round may be sent again."""
PAUSE_SECONDS = (0.1, 1.0)
"""The pause before a client sends a round again, at first and at most."""
THINK_SECONDS = 3.0
"""The longest time a user thinks about a question; one in ten thinks five times as long."""
MOST_CALLS = 4000
"""The number of calls that there are places for."""
LOOK_SECONDS = 0.2
"""The interval at which a client polls its task."""
MORE = "x" * 2_000_000
"""A field that makes an answer too long."""
LONG = "A" * (2 * MAX_TOKEN_BYTES)
"""An ending that makes a state too long."""


def places() -> dict[str, weather.Report]:
    """Return the places of all calls: two of one name if the tool has to ask, else one."""
    cities = ((city, number) for number in range(MOST_CALLS) for city in (_city(number), FATAL))
    labels = (label for city, number in cities for label in _labels(city, number))
    return dict.fromkeys(labels, weather.Report(20, "sunny"))


def _city(number: int) -> str:
    return "Springfield" if number % 2 else "Tokyo"


def _labels(city: str, number: int) -> list[str]:
    states = ("Illinois", "Missouri") if city == "Springfield" else ("Earth",)
    return [f"{city} {number}, {state}" for state in states]


async def settled(send: Callable[[Request], Awaitable[Reply]], request: Request) -> Reply:
    """Send a round by the retry policy, and return the reply that settles it."""
    pause, most = PAUSE_SECONDS
    while True:
        reply = await send(request)
        if reply.later:
            request = replace(request, answers=None, state=reply.state)
        elif reply.nothing is None and reply.reason not in TRY_AGAIN:
            return reply
        await anyio.sleep(pause)
        pause = min(2 * pause, most)


@dataclass
class Call:
    """One call of a client.

    Attributes:
        number: The call's number.
        manner: How it is made.
        began, ended: The times of its begin and end, by the event loop's clock.
        reply: The last reply.
        rounds: The number of requests that were sent.
        waited: The longest time in seconds between a round's first request and its response.
        task: The id of its task.
        answered: The keys of the task's questions that were answered.
    """

    number: int
    manner: Manner
    began: float
    ended: float | None = None
    reply: Reply | None = None
    rounds: int = 0
    waited: float = 0.0
    task: str = ""
    answered: set[str] = field(default_factory=set[str])

    @property
    def _city(self) -> str:
        return FATAL if self.manner == "fatal" else _city(self.number)

    @property
    def location(self) -> str:
        """The tool's argument."""
        return f"{self._city} {self.number}"

    @property
    def place(self) -> str:
        """The place that is billed."""
        return _labels(self._city, self.number)[0]

    @property
    def says(self) -> dict[str, str]:
        """The user's answers, by the field's name."""
        return {"place": self.place, "units": "metric"}


@dataclass
class Crowd:
    """Clients, and the calls that they make.

    Attributes:
        fleet: The servers that they call.
        takes_tasks: Whether they accept a task as the response.
        random: Draws the process that a round goes to, and the time that a user thinks.
        manner: Returns how the next call is made.
        calls: The calls that were begun.
        over: Set when clients begin no more calls, and users answer at once.
    """

    fleet: Fleet
    random: Random
    takes_tasks: bool
    manner: Callable[[], Manner]
    calls: list[Call] = field(default_factory=list[Call])
    over: anyio.Event = field(default_factory=anyio.Event)

    async def come_and_go(self) -> None:
        """Be one client: make calls, one after another."""
        while not self.over.is_set() and len(self.calls) < MOST_CALLS:
            call = Call(len(self.calls), self.manner(), anyio.current_time())
            self.calls.append(call)
            request = Request(call.location, takes_tasks=self.takes_tasks)
            await converse(
                request, partial(self._round, call), partial(self._following, call), sys.maxsize
            )
            call.ended = anyio.current_time()
            if call.reply is not None and call.reply.failed:
                await self._think()

    async def _following(self, call: Call, request: Request, reply: Reply) -> Request | None:
        """Return the request after a reply: with answers, or a look at the task."""
        if reply.task is not None:
            call.task = reply.task
        is_over = reply.failed or reply.is_result or reply.status in ENDED
        if is_over or (self.takes_tasks and not call.task):
            return None
        new = reply.questions.keys() - call.answered
        if new:
            await self._think()
            return await self._answering(call, request, reply, new)
        if not call.task:
            return None
        await anyio.sleep(LOOK_SECONDS)
        return Request(method="tasks/get", task=call.task, takes_tasks=True)

    async def _answering(
        self, call: Call, request: Request, asked: Reply, keys: Iterable[str]
    ) -> Request:
        """Return the request with the answers to these questions."""
        said = {key: {asked.name_of(key): call.says[asked.name_of(key)]} for key in keys}
        answers = {key: accepted(**content) for key, content in said.items()}
        request = replace(request, answers=answers, state=asked.state)
        if call.task:
            call.answered |= said.keys()
            request = replace(request, method="tasks/update")
        if call.manner == "oversized":  # first a round that every server should refuse
            more = {key: accepted(**content, more=MORE) for key, content in said.items()}
            await self._settled(call, replace(request, answers=more))
            if request.state is not None:
                await self._settled(call, replace(request, state=request.state + LONG))
        return request

    async def _round(self, call: Call, request: Request) -> Reply:
        """Send a round that the call goes on from."""
        call.reply = await self._settled(call, request)
        return call.reply

    async def _settled(self, call: Call, request: Request) -> Reply:
        async def send(request: Request) -> Reply:
            call.rounds += 1
            return await self.fleet.send(self.random.randrange(self.fleet.size), request)

        began = anyio.current_time()
        reply = await settled(send, request)
        call.waited = max(call.waited, anyio.current_time() - began)
        return reply

    async def _think(self) -> None:
        seconds = self.random.uniform(0, THINK_SECONDS)
        with anyio.move_on_after(5 * seconds if self.random.random() < 0.1 else seconds):
            await self.over.wait()
