"""What becomes of a crowd of calls on Temporal when their one worker dies and another one starts.

    python -m tests.chaos.size                   # 10,000 calls that wait for their user
    python -m tests.chaos.size --at-work 2000    # 2,000 calls in an effect of 20 s

The ledger counts every effect, also one whose key it has seen: `ran again` are those that a destination
which honours keys absorbs, and `billed twice` those that it does not.

Knows option L, a Temporal of its own, and how a worker is started and asked.
"""

from __future__ import annotations

import logging
import math
import socket
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import anyio
import anyio.to_thread
import mcp_types as types

from mrtr_options.bench import temporal
from mrtr_options.bench.client import connections, exchange_at
from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.starting import context, end, start_server
from mrtr_options.sdk.protection import new_key
from mrtr_options.sdk.serving import PATH, web_server
from mrtr_options.show.terminal import Parser, console, refuse, run
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from tests.chaos.crowd import PAUSE_SECONDS, TRY_AGAIN

CLIENTS = 64
"""How many rounds are under way at a time."""
WAIT_SECONDS = 5.0
"""How long the server holds one."""
REQUEST_SECONDS = 30.0
EFFECT_SECONDS = 20.0
PATIENCE_SECONDS = 24 * 3600.0
"""How long a question waits for its answer: on a busy machine it takes long to begin all calls."""
PROGRESS_SECONDS = 10.0
STUCK_SECONDS = 180.0
"""For how long no further call may reach its effect before the worker dies all the same."""
ANSWER = types.ElicitResult(action="accept", content={"units": "metric"})


# --- the worker ---------------------------------------------------------------------------------


class _Slow:
    """A ledger whose bills take long after they are written.

    Args:
        ledger: Where they are written.
        seconds: How long they take.
    """

    def __init__(self, ledger: weather.SqliteLedger, seconds: float) -> None:
        self._ledger = ledger
        self._seconds = seconds

    async def record(self, effect: weather.Effect) -> None:
        await self._ledger.record(effect)
        if effect.kind == "bill":
            await anyio.sleep(self._seconds)

    async def effects(self) -> tuple[weather.Effect, ...]:
        return await self._ledger.effects()


@dataclass(frozen=True)
class _Served:
    option: Path
    ledger: Path
    keys: list[bytes]
    database: str
    effect_seconds: float


def _serve(served: _Served, listener: socket.socket) -> None:
    logging.disable()
    ledger = _Slow(weather.SqliteLedger(served.ledger), served.effect_seconds)
    settings = Settings(ledger, keys=served.keys, database=served.database, ttl_seconds=PATIENCE_SECONDS)
    server = load(served.option, settings)
    anyio.run(lambda: web_server(server, listener).serve(sockets=[listener]))


# --- the calls ----------------------------------------------------------------------------------


@dataclass
class Found:
    """What was measured. Times are in seconds from the worker's death.

    Attributes:
        calls: How many there were.
        at_work: Whether all of them were in their effect when the worker died; or else they waited.
        began: How long it took to begin them all, before.
        serves: When the first new call got its question.
        replied: When each of the calls got its result.
        refused: How many ended in an error, by its reason.
        unreached: How many were not in their effect when the worker died, though they should have been.
        ran_again: Effects that a destination which honours keys absorbs.
        billed, billed_twice: How many calls were billed; bills that such a destination does not absorb.
    """

    calls: int
    at_work: bool
    began: float = 0.0
    serves: float = 0.0
    replied: list[float] = field(default_factory=list[float])
    refused: Counter[str] = field(default_factory=Counter[str])
    unreached: int = 0
    ran_again: int = 0
    billed: int = 0
    billed_twice: int = 0

    @property
    def holds(self) -> bool:
        """Whether every call ended with its result, billed once."""
        return not self.billed_twice and len(self.replied) == self.billed == self.calls


class _Crowd:
    def __init__(self, served: _Served, found: Found, tell: Callable[[str], None]) -> None:
        self.served = served
        self._http = connections(most=None)
        self._tell = tell
        self.found = found
        self.origin = ""

    async def worker(self) -> ForkServerProcess:
        """Another worker, which the calls go to from now on."""
        process, self.origin = await anyio.to_thread.run_sync(start_server, _serve, self.served)
        return process

    async def once(self, request: Request) -> Reply:
        """What a request comes to."""
        where = self.origin + PATH
        return await exchange_at(where, self._http, request, seconds=REQUEST_SECONDS)

    async def round(self, request: Request) -> Reply:
        """What a round comes to, sent again for as long as it has to be."""
        while True:
            reply = await self.once(request)
            if reply.later:
                request = replace(request, answers=None, state=reply.state)
            elif reply.nothing is None and reply.reason not in TRY_AGAIN:
                return reply
            else:
                await anyio.sleep(PAUSE_SECONDS[1])

    async def each(
        self, what: str, todo: Sequence[Request], do: Callable[[Request], Awaitable[None]]
    ) -> None:
        """Do something with each request, in order."""
        waiting, done = list(reversed(todo)), 0

        async def client() -> None:
            nonlocal done
            while waiting:
                await do(waiting.pop())
                done += 1

        async def progress() -> None:
            while True:
                await anyio.sleep(PROGRESS_SECONDS)
                self._tell(f"{what}: {done}")

        async with anyio.create_task_group() as group:
            group.start_soon(progress)
            async with anyio.create_task_group() as clients_group:
                for _ in range(CLIENTS):
                    clients_group.start_soon(client)
            group.cancel_scope.cancel()


async def size(calls: int, *, at_work: bool, tell: Callable[[str], None] = lambda line: None) -> Found:
    """Begin calls, kill their worker, start another one, and bring them to their end.

    Args:
        calls: How many.
        at_work: Whether each is in its effect when the worker dies; or else it waits for its user.
        tell: Gets a line now and then.
    """
    context(__name__, "mrtr_options.sdk.durable.fleet")
    found = Found(calls, at_work)
    asked = list[Request]()
    with scratch() as folder, temporal.running(folder) as server:
        ledger = weather.SqliteLedger(folder / "ledger.sqlite")
        option = folder / "option_l_patient.py"
        written = option_named("L").path.read_text(encoding="utf-8")
        patient = (
            f"DurableStore(idle_seconds={PATIENCE_SECONDS}, wait_seconds={WAIT_SECONDS}, rounds=10**6)"
        )
        option.write_text(written.replace("DurableStore()", patient), encoding="utf-8")
        # The first worker's effects last until it dies.
        seconds = math.inf if at_work else 0.0
        served = _Served(option, ledger.path, [new_key()], server.url, seconds)
        crowd = _Crowd(served, found, tell)
        worker = await crowd.worker()
        died = 0.0

        async def begin(request: Request) -> None:
            reply = await crowd.round(request)
            answers = dict.fromkeys(reply.questions, ANSWER)
            asked.append(replace(request, answers=answers, state=reply.state))

        async def answer(request: Request) -> None:
            reply = await crowd.round(request)
            if reply.text is None:
                found.refused[reply.reason or str(reply.message)] += 1
            else:
                found.replied.append(anyio.current_time() - died)

        async def kill() -> None:
            nonlocal worker, died
            await anyio.to_thread.run_sync(end, worker)
            died = anyio.current_time()
            crowd.served = replace(served, effect_seconds=EFFECT_SECONDS if at_work else 0.0)
            worker = await crowd.worker()
            await crowd.round(Request("Tokyo"))
            tell("another worker serves")
            found.serves = anyio.current_time() - died

        async def deliver(request: Request) -> None:
            reply = await crowd.once(request)
            if reply.later:
                request = replace(request, answers=None, state=reply.state)
            asked.append(request)

        before = anyio.current_time()
        try:
            await crowd.each("begun", [Request("Tokyo")] * calls, begin)
            found.began = anyio.current_time() - before
            if at_work:
                reached, grew = 0, anyio.current_time()
                while len(billed := _bills(ledger.path)) < calls:
                    tell(f"in their effect: {len(billed)}")
                    if len(billed) > reached:
                        reached, grew = len(billed), anyio.current_time()
                    elif anyio.current_time() > grew + STUCK_SECONDS:
                        break
                    waiting, asked = asked, []
                    await crowd.each("answered", waiting, deliver)
                found.unreached = calls - len(billed)
            await kill()
            await crowd.each("ended", asked, answer)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(end, worker)
        keys = _bills(ledger.path)
    found.billed = min(len(keys), calls)
    found.billed_twice = len(keys) - found.billed
    found.ran_again = keys.total() - len(keys)
    return found


def _bills(ledger: Path) -> Counter[str]:
    """How often each key was billed."""
    counted = "SELECT key, count(*) FROM effects WHERE kind = 'bill' GROUP BY key"
    with closing(sqlite3.connect(ledger, timeout=30)) as db:
        return Counter(dict(db.execute(counted)))


def lines_of(found: Found) -> list[str]:
    """What was measured, as text."""
    which = f"in an effect of {EFFECT_SECONDS:.0f} s" if found.at_work else "that wait for their user"
    refused = ", ".join(f"{reason} {times}" for reason, times in sorted(found.refused.items())) or "none"
    last = max(found.replied, default=0.0)
    return [
        f"L on Temporal, {found.calls} calls {which}: {'holds' if found.holds else 'BROKEN'}",
        f"  begun in          {found.began:.0f} s, {found.calls / found.began:.0f} a second",
        f"  serves new calls  {found.serves:.1f} s after its worker died",
        f"  all have ended    {last:.0f} s after that, {len(found.replied) / (last or 1):.0f} a second",
        f"  not at work       {found.unreached} of those that should have been at the death",
        f"  ended, refused    {len(found.replied)}, {refused}",
        f"  billed            {found.billed}, {found.billed_twice} of them twice",
        f"  ran again         {found.ran_again} effects, under the key of the first time",
    ]


def _main() -> int:
    parser = Parser(prog="python -m tests.chaos.size", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--parked", type=int, default=0, help="how many calls wait (10000)")
    parser.add_argument("--at-work", type=int, default=0, help="or how many are in their effect")
    args = parser.parse_args()
    if not temporal.installed():
        refuse(f"this {temporal.MISSING}")
    tell = console(stderr=True).print
    at_work = args.at_work > 0
    found = anyio.run(lambda: size(args.at_work or args.parked or 10_000, at_work=at_work, tell=tell))
    console().print("\n".join(lines_of(found)))
    return 0 if found.holds else 1


if __name__ == "__main__":
    raise SystemExit(run(_main))
