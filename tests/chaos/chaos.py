"""Chaos: a fleet under disasters drawn at random, a crowd of clients, and what must hold anyway.

Every call ends within a bound after the last disaster. It is completed and billed once, or it is refused
with a reason and billed once at most. The destination honours the idempotency keys that it is given.

    python -m tests.chaos --seconds 600 --subject L --database temporal --seed 7

The same seed draws the same disasters in the same order; what they hit is up to the machine. Knows the
fleet, the crowd and the disasters.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

import anyio

from mrtr_options.bench import subjects, temporal
from mrtr_options.bench.deployments.processes import CALLS, LEDGER, ROUNDS, Served
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from scoreboard import postgres
from tests.chaos.crowd import Call, Crowd, places
from tests.chaos.disasters import (
    DISASTERS,
    PostgresDatabase,
    Proxy,
    SqliteDatabase,
    TemporalEngine,
    World,
)
from tests.chaos.fleet import Fleet

Kind = Literal["sqlite", "postgres", "temporal"]


def kinds_of(subject: Subject) -> tuple[Kind, ...]:
    """What a subject can keep its calls or rounds in."""
    return ("sqlite", "postgres") if subject.wrappers else ("sqlite", "temporal")


PROCESSES, CLIENTS = 3, 16
WAIT_SECONDS = 10.0
"""How long a guarded round waits for another delivery of itself; the guard's own default."""
ROUND_SECONDS = subjects.ROUND_SECONDS
"""How long a guarded round may take."""
CALM_SECONDS = (0.0, 4.0)
"""How long it is quiet between two disasters."""
LAST_SECONDS = (0.5, 10.0)
"""How long a disaster lasts that is not over at once."""
BOUND_SECONDS = 180.0
"""How long calls may take to end after the last disaster: longer than a guarded round, and than Temporal
takes to give a call up that ends its workers."""
PROGRESS_SECONDS = 10.0


@dataclass
class Report:
    """What happened in one run.

    Attributes:
        subject, database, seed, seconds: What was run.
        disasters: How many, by name.
        calls, ended, completed: How many.
        refused: How many calls were refused, by the error's reason.
        refused_billed: How many of those had billed, by the error's reason.
        billed_twice, completed_unbilled, unclear, given_up, stuck: The calls that break the oracle, in
            words.
        processes_ended: How many processes ended, however they did.
        overdue: How many of them had to be killed since they did not end after SIGTERM.
        longest_wait: The longest time in seconds that a client waited for the response of a round, of a
            call whose bill kills nobody.
        longest_to_end: The longest time in seconds that a call took to end after the last disaster, when
            users answer at once.
    """

    subject: str
    database: Kind
    seed: int
    seconds: float
    disasters: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    ended: int = 0
    completed: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    refused_billed: Counter[str] = field(default_factory=Counter[str])
    billed_twice: list[str] = field(default_factory=list[str])
    completed_unbilled: list[str] = field(default_factory=list[str])
    unclear: list[str] = field(default_factory=list[str])
    given_up: list[str] = field(default_factory=list[str])
    stuck: list[str] = field(default_factory=list[str])
    processes_ended: int = 0
    overdue: int = 0
    longest_wait: float = 0.0
    longest_to_end: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the oracle does."""
        return not (self.broken or self.overdue)

    @property
    def broken(self) -> dict[str, list[str]]:
        """What does not, with the calls concerned."""
        found = {
            "billed twice": self.billed_twice,
            "completed and not billed": self.completed_unbilled,
            "refused without a reason": self.unclear,
            "given up, though its bill kills nobody": self.given_up,
            "stuck": self.stuck,
        }
        return {what: calls for what, calls in found.items() if calls}


@asynccontextmanager
async def world_of(
    subject: Subject, kind: Kind, folder: Path, random: Random, processes: int = PROCESSES
) -> AsyncGenerator[World]:
    """A running fleet on a database of its own.

    Args:
        subject: What it serves.
        kind: The database.
        folder: For the files that processes share; empty.
        random: Draws what disasters leave open.
        processes: How many there are.
    """
    async with AsyncExitStack() as held:
        if kind == "postgres":
            url = held.enter_context(postgres.running(fsync=False))
            proxy = held.enter_context(Proxy(postgres.socket_of(url)).running())
            database = PostgresDatabase(postgres.database(url), proxy)
            calls = rounds = database.url
        elif kind == "temporal":
            server = held.enter_context(temporal.running(folder))
            database = TemporalEngine(server, held.enter_context(Proxy(server.port).running()))
            calls, rounds = database.url, folder / ROUNDS
        else:
            if not subject.wrappers:
                processes = 1  # a file of calls is for one
            database = SqliteDatabase(folder / (ROUNDS if subject.wrappers else CALLS))
            calls, rounds = f"sqlite:///{folder / CALLS}", folder / ROUNDS
        served = Served(
            subject,
            [new_key()],
            folder,
            calls,
            rounds,
            wait_seconds=WAIT_SECONDS,
            round_seconds=ROUND_SECONDS,
            honours_keys=True,
            places=places(),
        )
        fleet = await held.enter_async_context(Fleet(served, processes).running())
        yield World(fleet, database, random)


async def chaos(
    subject: Subject,
    kind: Kind,
    *,
    seed: int,
    seconds: float,
    only: tuple[str, ...] = (),
    clients: int = CLIENTS,
    bound_seconds: float = BOUND_SECONDS,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Run a subject under disasters.

    Args:
        subject: The subject.
        kind: The database.
        seed: Draws the disasters.
        seconds: How long disasters happen.
        only: The disasters that are drawn from, by name; all that the database can have by default.
        clients: How many call at a time.
        bound_seconds: How long calls may take to end after the last disaster.
        tell: Gets a line at the start and every ten seconds.
    """
    report = Report(subject.name, kind, seed, seconds)
    drawn = [each for each in DISASTERS.values() if kind in each.on and each.name in (only or DISASTERS)]
    tell(f"{subject.name} {kind}, seed {seed}: its processes start")
    with scratch() as folder:
        async with world_of(subject, kind, folder, Random(seed)) as world:
            crowd = Crowd(
                world.fleet,
                Random(f"{seed} clients"),
                subject.option.letter == "K",
                lambda: world.manners.pop(0) if world.manners else "plain",
            )
            began = over = anyio.current_time()
            now = "calm"

            async def tell_progress() -> None:
                while True:
                    await anyio.sleep(PROGRESS_SECONDS)
                    ended = sum(call.ended is not None for call in crowd.calls)
                    passed = anyio.current_time() - began
                    begun = len(crowd.calls)
                    tell(f"{subject.name} {kind} {passed:5.0f} s: {begun} calls, {ended} ended; {now}")

            async with anyio.create_task_group() as group:
                group.start_soon(tell_progress)
                async with anyio.create_task_group() as calling:
                    for _ in range(clients):
                        calling.start_soon(crowd.come_and_go)
                    while anyio.current_time() < began + seconds:
                        await anyio.sleep(world.random.uniform(*CALM_SECONDS))
                        disaster, lasts = world.random.choice(drawn), world.random.uniform(*LAST_SECONDS)
                        report.disasters[disaster.name] += 1
                        now = disaster.name
                        async with disaster.over(world):
                            await anyio.sleep(lasts)
                        now = "calm"
                    over, now = anyio.current_time(), "no more disasters"
                    crowd.over.set()
                    calling.cancel_scope.deadline = over + bound_seconds
                group.cancel_scope.cancel()
            report.processes_ended, report.overdue = world.fleet.ended, world.fleet.overdue
        effects = await weather.SqliteLedger(folder / LEDGER).effects()
    bills = Counter(effect.subject for effect in effects if effect.kind == "bill")
    judge(report, crowd.calls, bills, over)
    return report


def judge(report: Report, calls: list[Call], bills: Counter[str], over: float) -> None:
    """Hold what happened against the oracle.

    Args:
        report: Gets what is found.
        calls: All that were begun.
        bills: How many there are, by place.
        over: When the last disaster ended, by the event loop's clock.
    """
    report.calls = len(calls)
    for call in calls:
        billed, reply = bills[call.place], call.reply
        said = (
            "" if reply is None else f"{reply.code or ''} {reply.message or reply.text or reply.status}"
        )
        words = f"{call.location} ({call.manner}, {call.rounds} requests, {billed} bills): "
        if billed > 1:
            report.billed_twice.append(words + said)
        if reply is None or call.ended is None:
            report.stuck.append(
                words + f"begun {over - call.began:.1f} s before the last disaster ended"
            )
            continue
        report.ended += 1
        if call.manner != "fatal":
            report.longest_wait = max(report.longest_wait, call.waited)
        report.longest_to_end = max(report.longest_to_end, call.ended - over)
        if reply.text is not None and not reply.is_error:
            report.completed += 1
            if not billed:
                report.completed_unbilled.append(words + said)
        else:
            report.refused[reply.reason or "none"] += 1
            report.refused_billed[reply.reason or "none"] += billed > 0
            if reply.reason is None:
                report.unclear.append(words + said)
            if reply.reason == "gave_up" and call.manner != "fatal":
                report.given_up.append(words + said)


def lines_of(report: Report) -> list[str]:
    """A report as text."""
    disasters = ", ".join(f"{name} {times}" for name, times in sorted(report.disasters.items()))
    refusals = ", ".join(
        f"{reason} {times} ({report.refused_billed[reason]} of them billed)"
        for reason, times in sorted(report.refused.items())
    )
    lines = [
        f"{report.subject} on {report.database}, {report.seconds:.0f} s, seed {report.seed}: "
        + ("holds" if report.holds else "BROKEN"),
        f"  disasters        {sum(report.disasters.values())}: {disasters}",
        f"  calls            {report.calls}: {report.ended} ended, {report.completed} completed",
        f"  refused          {refusals or 'none'}",
        f"  billed twice     {len(report.billed_twice)}",
        f"  stuck            {len(report.stuck)}",
        f"  processes        {report.processes_ended} ended, {report.overdue} of them too late",
        f"  longest wait     {report.longest_wait:.1f} s for the response of a round",
        f"  longest to end   {report.longest_to_end:.1f} s after the last disaster",
    ]
    for what, calls in report.broken.items():
        lines += [f"  {what}: {call}" for call in calls]
    return lines
