"""Clients that call the tool for as long as they are let, each call for a place of its own.

A client keeps this retry policy: a round that brought no response is sent again, to any process; so is
one whose error says that it may be (`TRY_AGAIN`). A state-only response is followed with its state. Any
other error ends the call.

Knows the fleet and what goes over the wire; of options only that they serve the weather tool.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio
import mcp_types as types

from mrtr_options.bench.deployments.processes import FATAL
from mrtr_options.bench.history import Reply, Request
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES
from mrtr_options.tool import weather
from tests.chaos.disasters import Manner
from tests.chaos.fleet import Fleet

TRY_AGAIN = ("still_at_work", "store_unusable", "too_many_rounds")
"""The reasons of errors after which the same round may be sent again."""
PAUSE_SECONDS = (0.1, 1.0)
"""How long a client waits before it sends a round again, at first and at most."""
THINK_SECONDS = 3.0
"""How long a user thinks about a question at most; one in ten thinks five times as long."""
MOST_CALLS = 4000
"""How many calls there are places for."""
LOOK_SECONDS = 0.2
"""How often a task is looked at."""

_CITIES = ("Tokyo", "Springfield")


def places() -> dict[str, weather.Report]:
    """A place for each call: two of one name where the tool has to ask which one, else one."""
    sunny = weather.Report(20, "sunny")
    found: dict[str, weather.Report] = {}
    for number in range(MOST_CALLS):
        for city in _city(number), FATAL:
            found |= dict.fromkeys(_labels(city, number), sunny)
    return found


def _city(number: int) -> str:
    return _CITIES[number % len(_CITIES)]


def _labels(city: str, number: int) -> list[str]:
    if city == "Springfield":
        return [f"{city} {number}, Illinois", f"{city} {number}, Missouri"]
    return [f"{city} {number}, Earth"]


@dataclass
class Call:
    """One call of a client's.

    Attributes:
        number: Which.
        manner: How it is made.
        began, ended: When, by the event loop's clock.
        reply: How it ended.
        rounds: How many requests were sent.
        waited: The longest time in seconds between a round's first request and its response.
    """

    number: int
    manner: Manner
    began: float
    ended: float | None = None
    reply: Reply | None = None
    rounds: int = 0
    waited: float = 0.0

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


@dataclass
class Crowd:
    """Clients, and the calls that they make.

    Args:
        fleet: Whom they call.
        random: Draws which process a round goes to, and how long users think.
        takes_tasks: Whether the clients take tasks.
        manner: Says how the next call is made.

    Attributes:
        calls: Those that were begun.
        over: Set when no more calls are begun, and users answer at once.
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
            await self.play(call, self._think)
            if call.reply is not None and call.reply.failed:
                await self._think()

    async def play(self, call: Call, think: Callable[[], Awaitable[None]]) -> None:
        """Make one call.

        Args:
            call: Which.
            think: What the user does before each answer.
        """
        self.calls.append(call)
        play = self._as_task if self.takes_tasks else self._in_rounds
        call.reply = await play(call, think)
        call.ended = anyio.current_time()

    async def _in_rounds(self, call: Call, think: Callable[[], Awaitable[None]]) -> Reply:
        request = Request(call.location)
        while True:
            reply = await self._round(call, request)
            if not reply.questions:
                return reply
            await think()
            request = replace(request, answers=_answers(call, reply), state=reply.state)
            if call.manner == "oversized":
                for beyond in _oversized(request):
                    await self._round(call, beyond)

    async def _as_task(self, call: Call, think: Callable[[], Awaitable[None]]) -> Reply:
        created = await self._round(call, Request(call.location, takes_tasks=True))
        if created.task is None:
            return created
        look = Request(method="tasks/get", task=created.task, takes_tasks=True)
        answered: set[str] = set()
        while True:
            reply = await self._round(call, look)
            if reply.failed or reply.is_result or reply.status in ("completed", "failed", "cancelled"):
                return reply
            new = {key: message for key, message in reply.questions.items() if key not in answered}
            if new:
                await think()
                asked = replace(reply, questions=new)
                update = replace(look, method="tasks/update", answers=_answers(call, asked))
                if call.manner == "oversized":
                    for beyond in _oversized(update):
                        await self._round(call, beyond)
                taken = await self._round(call, update)
                if taken.failed:
                    return taken
                answered |= new.keys()
            await anyio.sleep(LOOK_SECONDS)

    async def _round(self, call: Call, request: Request) -> Reply:
        began = anyio.current_time()
        pause, most = PAUSE_SECONDS
        while True:
            call.rounds += 1
            reply = await self.fleet.send(self.random.randrange(self.fleet.size), request)
            if reply.later:
                request = replace(request, answers=None, state=reply.state)
            elif reply.nothing is None and reply.reason not in TRY_AGAIN:
                call.waited = max(call.waited, anyio.current_time() - began)
                return reply
            await anyio.sleep(pause)
            pause = min(2 * pause, most)

    async def _think(self) -> None:
        seconds = self.random.uniform(0, THINK_SECONDS)
        with anyio.move_on_after(5 * seconds if self.random.random() < 0.1 else seconds):
            await self.over.wait()


def _answers(call: Call, reply: Reply) -> types.InputResponses:
    said: dict[str, Any] = {"place": call.place, "units": "metric"}
    return {
        key: types.ElicitResult(action="accept", content={name: said[name]})
        for key, name in ((key, reply.name_of(key)) for key in reply.questions)
    }


def _oversized(request: Request) -> list[Request]:
    """The same with an answer, and with a state, that no server should take."""
    answers = {
        key: answer.model_copy(update={"content": {**(answer.content or {}), "more": "x" * 2_000_000}})
        for key, answer in (request.answers or {}).items()
        if isinstance(answer, types.ElicitResult)
    }
    long = replace(request, answers=dict[str, Any](answers))
    if request.state is None:
        return [long]
    return [long, replace(request, state=request.state + "A" * (2 * MAX_TOKEN_BYTES))]
