"""Plays what clients do when something goes wrong: each trouble, with each client and each server.

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
from pydantic import BaseModel

from mrtr_options.review.bench.deployments.processes import LEDGER
from mrtr_options.review.bench.faults import Era
from mrtr_options.review.bench.ledger import effects_after
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.sdk.serving import PATH
from mrtr_options.tool import weather
from mrtr_options.tool.server import TOOL
from scoreboard.clients.hostile import HOSTILE
from scoreboard.clients.peers import Peer
from scoreboard.clients.programs import Player, Program, Said
from scoreboard.clients.proxy import Proxy, Sent
from scoreboard.clients.server import ASKS, REGIONS, Serving, Way, city, serving
from scoreboard.clients.troubles import FINAL, FIRST, Trouble

LIMIT_SECONDS = 100.0
"""How long a client is waited for: longer than any trouble lasts, and than 60 s, a usual limit."""
AT_A_TIME = 6
"""How many calls are made at a time, beside those that wait for something."""
TURN_SECONDS = 3.0
"""After how long a call is held to be one that waits."""
STARTING = 2
"""How many programs start at a time."""
ALONE = 12
"""How many programs with one call each run at a time; most of them wait."""
SAYS_CHARACTERS = 200
"""How much of an error's text is kept."""
STEP_SECONDS = 15
"""Times are kept in steps of so many seconds: less is how busy the machine is."""


# --- what is found ------------------------------------------------------------------------------


Got = Literal["result", "tool error", "error", "client error", "nothing", "died"]
"""How a call ended for the application: in a result, in one that says it is an error, in an error
at the call, in one not at the call but where its connection's block ended, in nothing until it was
no longer waited for, or with the program.
"""


class Seen(BaseModel):
    """What one client did in one trouble.

    Attributes:
        client, era, trouble: Which.
        server: What was called: the name of a `Way`.
        got: How the call ended for the application.
        says: The result's text, or the error's class, code and message.
        seconds: After how many, in steps of `STEP_SECONDS`.
        requests: How many `tools/call` it sent; None if that was not seen.
        again: How many of them were a later round that it had sent already.
        anew: How many of them were the first round once more: the tool was called again.
        same_id: Whether one of them had an id that was used before.
        resumed: How often it asked for the rest of an event stream.
        asked: How often the user was asked.
        made_again: Whether the application called again, since it had got an error.
        usable: Whether the same client object could list tools afterwards; None if that was not to
            be found out.
        kept_state: Whether the last request had a state, or was the first.
        audits, bills: What the ledger says; None where no server worked.
    """

    client: str
    era: Era
    trouble: str
    server: str
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


# --- all of it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One call to be played.

    Attributes:
        peer: The client.
        era: What it speaks.
        trouble: What goes wrong.
        way: What it calls.
    """

    peer: Peer
    era: Era
    trouble: Trouble
    way: Way


def cells(clients: Sequence[Peer], troubles: Sequence[Trouble], ways: Sequence[Way]) -> list[Cell]:
    """Return what is to be played, by client. Responses that are made up come from one server."""
    return [
        Cell(peer, era, trouble, way)
        for peer in clients
        for trouble in troubles
        for era in trouble.eras
        for way in ways
        if era in peer.eras
        if peer.stdio or not trouble.stdio
        if peer.asks or not trouble.asks
        if trouble.meets_server or way is ways[0]
    ]


async def run(
    to_play: Sequence[Cell],
    tell: Callable[[Seen], None],
    finish: Callable[[Peer, list[Seen]], None],
) -> list[Seen]:
    """Play each client in each trouble.

    Args:
        to_play: Which.
        tell: Told each outcome as it comes.
        finish: Told all outcomes of a client once it has played all of its cells.

    Returns:
        What was seen, in the order of `to_play`.
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
        to_play: The cells; a cell's number is its place here.
        servers: What runs, by name.
        tell, finish: See `run`.
        seen: What was seen so far, by the cell's number.
    """

    to_play: Sequence[Cell]
    servers: Mapping[str, Serving]
    tell: Callable[[Seen], None]
    finish: Callable[[Peer, list[Seen]], None]
    seen: dict[int, Seen] = field(default_factory=dict[int, Seen])
    _turns: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_A_TIME))
    _starting: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(STARTING)
    )
    _alone_at_a_time: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(ALONE)
    )

    async def client(self, peer: Peer) -> None:
        """Play all cells of one client in one program.

        A cell whose program ends, or whose client sends nothing, is played once more, in a program
        of its own. Some clients do not come to the call where the machine is busy.
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
        """Play a cell in its turn, which another call takes once this one has had it for long."""
        await self._turns.acquire_on_behalf_of(number)

        async def give_up() -> None:
            try:
                await anyio.sleep(TURN_SECONDS)
            finally:
                self._turns.release_on_behalf_of(number)

        found = None
        async with anyio.create_task_group() as group:
            group.start_soon(give_up)
            found = await self._play(number, program)
            group.cancel_scope.cancel()
        return found


def _unless_closed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what asyncio says of a connection that comes in as its listener is closed."""
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


# --- one cell -----------------------------------------------------------------------------------


async def play(cell: Cell, server: Serving, number: int, program: Player) -> Seen | None:
    """Play one trouble with one client.

    Args:
        cell: Which.
        server: Who is called.
        number: The place that the call is for.
        program: The client's.

    Returns:
        What was seen; None if the program ended.
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
            played = await _make(job, trouble, program, proxy)
        if played is None:
            return None
        counts = _count(ledger, place)
    said, sent = played
    seen = _seen(cell, said, proxy, sent)
    seen.says = _short(seen.says.replace(origin, "http://127.0.0.1").replace(place, ASKS))
    if trouble.meets_server:
        seen.audits, seen.bills = counts["audit"], counts["bill"]
    return seen


def _job(cell: Cell, server: Serving, number: int, place: str) -> dict[str, Any]:
    """Return what a client's program is to do, but for where the server is."""
    label = f"{place}, {cell.trouble.place or REGIONS[0]}"
    return {
        "id": number,
        "url": None,
        "command": None,
        "era": cell.era,
        "tool": TOOL,
        "arguments": {"location": place if cell.peer.asks else label},
        "answers": {"place": f"{place}, {REGIONS[0]}", "units": "metric"},
        "wrong": {"place": label} if cell.trouble.place else {},
        "think_seconds": cell.trouble.thinks,
        "honours_keys": server.honours_keys,
    }


def _proxy(cell: Cell, server: Serving) -> Proxy:
    """Return the proxy that does to a call what its trouble says."""
    fault = cell.trouble.fault(cell.era)
    if fault is not None and not cell.peer.asks:
        fault = replace(fault, at=FIRST)
    answer = HOSTILE[cell.trouble.hostile] if cell.trouble.hostile else None
    return Proxy(server.origin, fault, answer, cell.trouble.as_stream)


async def _make(
    job: dict[str, Any], trouble: Trouble, program: Player, proxy: Proxy
) -> tuple[Said, tuple[Sent, ...]] | None:
    """Have the call made, and made again where the trouble says so.

    Returns:
        What the client's program said, and what the first call sent; None if the program ended.
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


def _count(ledger: Path, place: str) -> Mapping[weather.EffectKind, int]:
    """Return the counts of the effects about a place."""
    labels = {place, *(f"{place}, {region}" for region in REGIONS)}
    effects = effects_after(ledger, 0).values()
    return weather.count(tuple(effect for effect in effects if effect.subject in labels))


def _seen(cell: Cell, said: Said, proxy: Proxy, sent: Sequence[Sent]) -> Seen:
    """Return what a client did, without the ledger."""
    got, says = _ending(said)
    ids = [repr(each.id) for each in sent]
    later = [json.dumps(each.params, sort_keys=True) for each in sent if not each.begins]
    seconds = (said.ended or {}).get("seconds", cell.trouble.thinks + LIMIT_SECONDS)
    return Seen(
        client=cell.peer.name,
        era=cell.era,
        trouble=cell.trouble.name,
        server=cell.way.name,
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
    )


def _ending(said: Said) -> tuple[Got, str]:
    """Return how the call ended for the application, and what that says."""
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
    """Return what is to be said where the program itself ended with the trouble."""
    return Seen(
        client=cell.peer.name,
        era=cell.era,
        trouble=cell.trouble.name,
        server=cell.way.name,
        got="died",
        says=_short(program.errors[-1] if program.errors else ""),
    )
