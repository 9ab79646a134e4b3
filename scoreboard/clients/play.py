"""Plays each trouble with each client and each server, and records what the client does.

Knows the troubles, the proxy, the servers and the clients' programs; nothing of any client's
library.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import TaskStatus
from pydantic import BaseModel

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import LEDGER
from mrtr_options.review.bench.messages import Era
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL
from scoreboard.clients.hostile import HOSTILE
from scoreboard.clients.peers import Peer
from scoreboard.clients.programs import Player, Program, Said
from scoreboard.clients.proxy import Proxy, Sent
from scoreboard.clients.refusals import ISSUER
from scoreboard.clients.server import ASKS, REGIONS, TASKS, Serving, Way, city, serving
from scoreboard.clients.troubles import FINAL, FIRST, Trouble

LIMIT_SECONDS = 100.0
"""The time limit of a call: longer than any trouble lasts, and than 60 s, a usual time limit."""

AT_A_TIME = 6
"""The number of calls at a time, besides those that wait for something."""

TURN_SECONDS = 3.0
"""The time after which a call counts as one that waits."""

STARTING = 2
"""The number of programs that start at a time."""

ALONE = 12
"""The number of programs with one call each that run at a time; most of them wait."""

SAYS_CHARACTERS = 200
"""The number of characters of an error's text that are kept."""

STEP_SECONDS = 15
"""Times are kept in steps of so many seconds; smaller differences show how busy the machine is."""


# --- what is seen -------------------------------------------------------------------------------


Got = Literal["result", "tool error", "error", "client error", "nothing", "died"]
"""The end of a call for the application.

- "result": with a result.
- "tool error": with a result that is an error.
- "error": with an exception at the call.
- "client error": with an exception at the end of the connection's block.
- "nothing": with nothing, until the time limit.
- "died": with the end of the client's program.
"""


class Seen(BaseModel):
    """The behaviour of a client in a trouble.

    Attributes:
        client, era, trouble: The names of the client, its era and the trouble.
        version: The protocol version that its requests named; empty if they were not observed.
        date: The day of the run; empty for the day of the client's whole run.
        server: The called server, by the name of its `Way`.
        got: How the call ended for the application.
        says: The result's text, or the error's class, code and message.
        seconds: The time until the end, in steps of `STEP_SECONDS`.
        requests: The number of `tools/call` requests; None if they were not observed.
        again: The number of requests that repeat a later round.
        anew: The number of requests that repeat the first round: the tool was called again.
        same_id: Whether a request had an id that was used before.
        resumed: How often the client asked for the rest of an event stream.
        asked: How often the user was asked.
        made_again: Whether the application called again, after an error.
        usable: Whether the same client object could list tools afterwards; None if unknown.
        kept_state: Whether the last request had a state, or was the only one.
        audits, bills: The counts in the ledger; None if no server was called.
        history: The requests and the responses, in words; empty in a run of an older form.
    """

    client: str
    era: Era
    trouble: str
    server: str
    version: str = ""
    date: str = ""
    got: Got
    says: str
    seconds: int = 0
    requests: int | None = None
    again: int = 0
    anew: int = 0
    same_id: bool = False
    resumed: int = 0
    asked: int = 0
    made_again: bool = False
    usable: bool | None = None
    kept_state: bool = True
    audits: int | None = None
    bills: int | None = None
    history: list[str] = []


# --- all of it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A call to play.

    Attributes:
        peer: The client.
        era: The client's era.
        trouble: The trouble.
        way: The way of the called tool.
    """

    peer: Peer
    era: Era
    trouble: Trouble
    way: Way


def cells(clients: Sequence[Peer], troubles: Sequence[Trouble], ways: Sequence[Way]) -> list[Cell]:
    """Return the calls to play, by client.

    Made-up responses are played with one server only, and tasks over HTTP with clients of the
    modern era that take them.
    """
    return [
        Cell(peer, era, trouble, way)
        for peer in clients
        for trouble in troubles
        for era in trouble.eras
        for way in ways
        if era in peer.eras
        if peer.stdio or not trouble.stdio
        if peer.asks or not trouble.asks
        if peer.signs_in or not trouble.needs_token
        if trouble.meets_server or way is ways[0]
        if way.name != TASKS or (peer.takes_tasks and era == "modern" and not trouble.stdio)
    ]


async def run(
    to_play: Sequence[Cell],
    tell: Callable[[Seen], None],
    finish: Callable[[Peer, list[Seen]], None],
) -> list[Seen]:
    """Play each client in each trouble.

    Args:
        to_play: The calls.
        tell: Gets each outcome at once.
        finish: Gets all outcomes of a client after its last call.

    Returns:
        The outcomes, in the order of `to_play`.
    """
    asyncio.get_running_loop().set_exception_handler(_unless_closed)
    ways = {cell.way.name: cell.way for cell in to_play}
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(serving(way, len(to_play)))
            for name, way in ways.items()
        }
        playing = _Playing(to_play, servers, tell, finish)
        async with anyio.create_task_group() as group:
            for peer in dict.fromkeys(cell.peer for cell in to_play):
                group.start_soon(playing.client, peer)
    return [playing.seen[number] for number in range(len(to_play))]


@dataclass
class _Playing:
    """A run of many cells.

    Attributes:
        to_play: The cells; a cell's number is its index.
        servers: The running servers, by name.
        tell, finish: See `run`.
        seen: The outcomes so far, by the cell's number.
    """

    to_play: Sequence[Cell]
    servers: Mapping[str, Serving]
    tell: Callable[[Seen], None]
    finish: Callable[[Peer, list[Seen]], None]
    seen: dict[int, Seen] = field(default_factory=dict[int, Seen])

    def __post_init__(self) -> None:
        self._turns = anyio.CapacityLimiter(AT_A_TIME)
        self._starting = anyio.CapacityLimiter(STARTING)
        self._alone_at_a_time = anyio.CapacityLimiter(ALONE)

    async def client(self, peer: Peer) -> None:
        """Play all cells of one client in one program.

        A cell whose program ends, or whose client sends nothing, is played once more, in a program
        of its own: on a busy machine some clients do not get as far as the call.
        """
        numbers = [number for number, cell in enumerate(self.to_play) if cell.peer == peer]
        numbers.sort(key=lambda number: not self.to_play[number].trouble.waits)
        failed: list[int] = []

        async def one(number: int, program: Program) -> None:
            found = await self._in_turn(number, program)
            if found is None or found.requests == 0:
                failed.append(number)
            else:
                self._keep(number, found)

        async with (
            Program.of(peer, self._starting) as program,
            anyio.create_task_group() as group,
        ):
            for number in numbers:
                group.start_soon(one, number, program)
        async with anyio.create_task_group() as group:
            for number in failed:
                group.start_soon(self._alone, number)
        self.finish(peer, [self.seen[number] for number in sorted(numbers)])

    async def _alone(self, number: int) -> None:
        """Play a cell in a program of its own."""
        cell = self.to_play[number]
        async with self._alone_at_a_time, Program.of(cell.peer, self._starting) as program:
            found = await self._play(number, program)
            self._keep(number, found or _died(cell, program))

    def _keep(self, number: int, found: Seen) -> None:
        self.seen[number] = found
        self.tell(found)

    async def _play(self, number: int, program: Player) -> Seen | None:
        cell = self.to_play[number]
        return await play(cell, self.servers[cell.way.name], number, program)

    async def _in_turn(self, number: int, program: Player) -> Seen | None:
        """Play a cell in its turn; if the cell takes long, another cell gets its turn meanwhile."""

        async def turn(*, task_status: TaskStatus[None]) -> None:
            async with self._turns:
                task_status.started()
                await anyio.sleep(TURN_SECONDS)

        found = None
        async with anyio.create_task_group() as group:
            await group.start(turn)
            found = await self._play(number, program)
            group.cancel_scope.cancel()
        return found


def _unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle errors of asyncio, except the one of a connection to a listener that closes."""
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


# --- one cell -----------------------------------------------------------------------------------


async def play(cell: Cell, server: Serving, number: int, program: Player) -> Seen | None:
    """Play one trouble with one client.

    Args:
        cell: The call.
        server: The server that is called.
        number: The number of the call, and of the place that it asks about.
        program: The client's program.

    Returns:
        The outcome; None if the program ended.
    """
    trouble = cell.trouble
    place = ASKS if trouble.stdio else city(number)
    job = _job(cell, server, number, place)
    proxy = _proxy(cell, server)
    with scratch() as folder:
        ledger = server.ledger
        if trouble.stdio:
            ledger = folder / LEDGER
            weather.SqliteLedger(ledger)
            swallow = [sys.executable, "-m", "scoreboard.clients.swallow"]
            job["command"] = [*swallow, server.way.name, str(folder), str(FINAL)]
        async with proxy.running() as origin:
            if not trouble.stdio:
                job["url"] = origin + PATH
                job["issuer"] = origin + ISSUER if trouble.needs_token else None
            played = await _make(job, trouble, program, proxy)
        if played is None:
            return None
        counts = await _count(ledger, place)
    said, sent = played
    seen = _seen(cell, said, proxy, sent)
    seen.says = _short(seen.says.replace(origin, "http://127.0.0.1").replace(place, ASKS))
    if trouble.meets_server:
        seen.audits = counts["audit"]
        seen.bills = counts["bill"]
    return seen


def _job(cell: Cell, server: Serving, number: int, place: str) -> JsonObject:
    """Return the job of a client's program, without the server's address."""
    label = f"{place}, {cell.trouble.place or REGIONS[0]}"
    return {
        "id": number,
        "url": None,
        "command": None,
        "issuer": None,
        "era": cell.era,
        "tool": TOOL,
        "arguments": {"location": place if cell.peer.asks else label},
        "answers": {"place": f"{place}, {REGIONS[0]}", "units": "metric"},
        "wrong": {"place": label} if cell.trouble.place else {},
        "think_seconds": cell.trouble.thinks,
        "honours_keys": server.honours_keys,
    }


def _proxy(cell: Cell, server: Serving) -> Proxy:
    """Return the proxy that causes the trouble of a call."""
    fault = cell.trouble.fault(cell.era)
    if fault is not None and not cell.peer.asks:
        fault = replace(fault, at=FIRST)
    answer = HOSTILE[cell.trouble.hostile] if cell.trouble.hostile else None
    return Proxy(server.origin, fault, answer, cell.trouble.as_stream, cell.trouble.needs_token)


async def _make(
    job: JsonObject, trouble: Trouble, program: Player, proxy: Proxy
) -> tuple[Said, tuple[Sent, ...]] | None:
    """Make the call, and make it again if the trouble says so.

    Returns:
        The reports of the client's program, and the requests of the first call; None if the program
        ended.
    """
    seconds = trouble.thinks + LIMIT_SECONDS
    said = await program.do(job, seconds)
    if program.ended and not said.is_over:
        return None
    sent = tuple(proxy.sent)
    if trouble.again and _failed(said):
        again = await program.do(job, seconds)
        said.asked += again.asked
        said.ended = again.ended
        said.made_again = True
    return said, sent


def _failed(said: Said) -> bool:
    """Return whether the application was told of an error."""
    ended = said.ended or {}
    return "raised" in ended or ended.get("returned", {}).get("is_error", False)


async def _count(ledger: Path, place: str) -> Mapping[weather.EffectKind, int]:
    """Return the counts of the effects about a place."""
    labels = {place, *(f"{place}, {region}" for region in REGIONS)}
    effects = await weather.SqliteLedger(ledger).effects()
    return weather.count(tuple(effect for effect in effects if effect.subject in labels))


def _seen(cell: Cell, said: Said, proxy: Proxy, sent: Sequence[Sent]) -> Seen:
    """Return a client's behaviour, without the ledger."""
    got, says = _ending(said)
    ids = [repr((each.connection, each.id)) for each in sent]
    later = [json.dumps(each.params, sort_keys=True) for each in sent if not each.begins]
    seconds = (said.ended or {}).get("seconds", cell.trouble.thinks + LIMIT_SECONDS)
    return Seen(
        client=cell.peer.name,
        era=cell.era,
        trouble=cell.trouble.name,
        server=cell.way.name,
        version=sent[-1].version if sent else "",
        got=got,
        says=says,
        seconds=STEP_SECONDS * int(seconds // STEP_SECONDS),
        requests=None if cell.trouble.stdio else len(sent),
        again=len(later) - len(set(later)),
        anew=max(0, len(sent) - len(later) - 1),
        same_id=len(ids) > len(set(ids)),
        resumed=proxy.resumed,
        asked=said.asked,
        made_again=said.made_again,
        usable=said.usable,
        kept_state=len(sent) < 2 or "requestState" in sent[-1].params,
        history=[*proxy.history],
    )


def _ending(said: Said) -> tuple[Got, str]:
    """Return how the call ended for the application, and its text."""
    if said.ended is None:
        return "nothing", ""
    if "returned" in said.ended:
        result = said.ended["returned"]
        return ("tool error" if result["is_error"] else "result"), result["text"]
    error = said.ended["raised"]
    code = "" if error["code"] is None else f" {error['code']}"
    got: Got = "error" if said.ended["where"] == "call" else "client error"
    return got, f"{error['class']}{code}: {error['message']}"


def _short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    return " ".join(text.split())[:SAYS_CHARACTERS]


def _died(cell: Cell, program: Program) -> Seen:
    """Return the outcome of a call during which the client's program ended."""
    return Seen(
        client=cell.peer.name,
        era=cell.era,
        trouble=cell.trouble.name,
        server=cell.way.name,
        got="died",
        says=_short(program.errors[-1] if program.errors else ""),
    )
