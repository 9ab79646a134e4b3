"""One call that a person makes by hand: they answer, and decide the fate of each response.

The client sends a round again when its response is lost, with the state it holds. Knows the player;
of the person, that they answer and choose.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
import mcp_types as types
from rich.console import Console
from rich.text import Text

from mrtr_options.demo.call import converse
from mrtr_options.demo.person import Person
from mrtr_options.review.bench.client.driver import MAX_REQUESTS
from mrtr_options.review.bench.client.player import Player
from mrtr_options.review.bench.history import Asked, Event, History, Received
from mrtr_options.review.bench.messages import Era, Reply, Request
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Caller, Scenario, Setup
from mrtr_options.review.bench.steps import WholeCall
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.show.runs import Transcript, end_of
from mrtr_options.terminal import console

LOSE = "l"
TWICE = "t"
OTHER = "o"
RESTART = "r"
CHOICES = {LOSE: "lose it", TWICE: "deliver it twice", OTHER: "other instance", RESTART: "restart"}
"""The things that a person can do at a response besides answering it."""

FAULTS = {
    LOSE: "the response is lost, and the client sends the round again",
    TWICE: "the request is delivered a second time",
    OTHER: "what follows goes to the other instance",
    RESTART: "the server is restarted before what follows",
}


def play_by_hand(subject: Subject, era: Era, location: str) -> int:
    """Let the person at the terminal make a call and break it, and return the exit code."""
    out = console()
    out.print(Text(f"{subject.title}, {era} client, {location!r}", "bold cyan"))
    out.print(end_of(anyio.run(call_by_hand, subject, era, location, Person(out), out)))
    return 0


async def call_by_hand(
    subject: Subject, era: Era, location: str, person: Person, out: Console
) -> History:
    """Make one call on two instances in memory, as a person says, and show it.

    Raises:
        CannotLoad: The file is not an option that can be run.
    """
    setup = Setup(era, "free")
    scenario = Scenario("by-hand", "A person decides.", setup, (Caller(location),))

    async def client(player: Player) -> None:
        hand = _Hand(player, person, Transcript(out), out)
        player.instances.recording.on_event = hand.tell
        await hand.call(Request(location, era=era))

    return await run(subject, scenario, user=person, client=client)


class _Hand:
    def __init__(
        self, player: Player, person: Person, transcript: Transcript, out: Console
    ) -> None:
        self._player = player
        self._person = person
        self._transcript = transcript
        self._out = out
        self._shown: Received | None = None
        self._instance = 0
        self._chosen: list[str] = []
        self._given: dict[str, types.ElicitResult] = {}

    def tell(self, event: Event) -> None:
        """Show an event, unless the person saw it when they decided."""
        match event:
            case Received() if self._shown is not None and event.exchange == self._shown.exchange:
                pass
            case Asked() if self._shown is not None and event.sending == self._shown.sending:
                pass
            case _:
                self._transcript(event)

    async def call(self, request: Request) -> None:
        """Make the call; it ends with a response that arrives and asks nothing."""
        await converse(request, self._send, self._following, MAX_REQUESTS)

    async def _send(self, request: Request) -> Reply:
        self._chosen = []
        self._given = {}
        user = self._player.pushed(WholeCall(), request) if request.era == "legacy" else None
        to = [self._instance]
        reply = await self._player.play_round(request, to, lost=self._decide, user=user)
        if TWICE in self._chosen:
            await self._player.play_round(request, to, unseen=True, user=user)
        if RESTART in self._chosen:
            await self._player.restart("same")
        self._instance = (self._instance + self._chosen.count(OTHER)) % 2
        return reply

    async def _following(self, request: Request, reply: Reply) -> Request | None:
        if not reply.questions:
            return request if LOSE in self._chosen else None
        for key, answer in self._given.items():
            self._player.answer(1, reply.name_of(key), answer)
        return replace(request, answers=dict(self._given), state=reply.state)

    async def _decide(self, got: Received) -> bool:
        """Show a response on its way to the person. Return whether they lose it."""
        reply = got.reply
        self._shown = got
        self._transcript(got)
        for key, message in reply.questions.items():
            schema = reply.schemas[key]
            self._transcript(Asked(got.sending, got.call, reply.name_of(key), message, schema))
            form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
            while isinstance(answer := await self._person.answer(form, CHOICES), str):
                if self._choose(answer):
                    return True
            self._given[key] = answer
        if not reply.questions and not reply.later:
            while choice := await self._person.choose(CHOICES):
                if self._choose(choice):
                    return True
        return False

    def _choose(self, choice: str) -> bool:
        self._chosen.append(choice)
        self._out.print(Text(f"  fault        {FAULTS[choice]}", "red"))
        return choice == LOSE
