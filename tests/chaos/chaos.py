"""Chaos: a fleet under disasters drawn at random, a crowd of clients, and an oracle.

The oracle: every call ends within a bound after the last disaster. It is completed and billed once,
or it is refused with a reason and billed at most once. The destination honours idempotency keys.

    python -m tests.chaos --seconds 600 --subject L --database temporal --seed 7

The same seed draws the same disasters in the same order; what they hit is up to the machine. Knows
the fleet, the crowd and the disasters.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

import anyio

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import CALLS, LEDGER, ROUNDS, Served
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world import temporal, wrappers
from mrtr_options.sdk.protection import new_key
from mrtr_options.tool import weather
from scoreboard import postgres
from tests.chaos.crowd import Call, Crowd, places
from tests.chaos.disasters import DISASTERS, Disaster, Kind, Proxy, World
from tests.chaos.fleet import Fleet, progress


def kinds_of(subject: Subject) -> tuple[Kind, ...]:
    """Return the databases in which a subject can keep its calls or rounds."""
    return ("sqlite", "postgres") if subject.wrappers else ("sqlite", "temporal")


PROCESSES = 3
CLIENTS = 16
WAIT_SECONDS = 10.0
"""The time a guarded round waits for another delivery of itself; the guard's own default."""
ROUND_SECONDS = wrappers.ROUND_SECONDS
"""The time a guarded round may take."""
CALM_SECONDS = (0.0, 4.0)
"""The shortest and longest calm between two disasters."""
LAST_SECONDS = (0.5, 10.0)
"""The shortest and longest duration of a disaster; a momentary one is over at its begin."""
BOUND_SECONDS = 180.0
"""The time in which calls must end after the last disaster. It is longer than a guarded round, and
than Temporal takes to abandon a call that kills its workers.
"""


@dataclass(frozen=True)
class Plan:
    """A run of chaos: a subject on a database, and its disasters.

    Attributes:
        subject: The subject.
        kind: The database that it uses.
        seed: Draws the disasters.
        seconds: The time for which disasters happen.
        only: The names of the disasters to draw from; if empty, all that the database can have.
        clients: The number of clients that call at a time.
    """

    subject: Subject
    kind: Kind
    seed: int
    seconds: float
    only: tuple[str, ...] = ()
    clients: int = CLIENTS

    @property
    def disasters(self) -> list[Disaster]:
        """The disasters to draw from."""
        names = self.only or DISASTERS
        return [
            disaster
            for disaster in DISASTERS.values()
            if self.kind in disaster.on and disaster.name in names
        ]


@dataclass
class Report:
    """The figures of one run.

    Attributes:
        subject, database, seed, seconds: The plan of the run.
        disasters: The number of disasters, by name.
        calls, ended, completed: The numbers of calls.
        refused: The number of refused calls, by the error's reason.
        refused_billed: The number of refused calls that had billed, by the error's reason.
        broken: The calls that break the oracle, in words, by the way in which they break it.
        processes_ended: The number of processes that ended.
        overdue: The number of processes that had to be killed, as SIGTERM did not end them.
        longest_wait: The longest wait in seconds for a round of a call whose bill kills no process.
        longest_to_end: The longest time in seconds from the last disaster to the end of a call.
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
    broken: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    processes_ended: int = 0
    overdue: int = 0
    longest_wait: float = 0.0
    longest_to_end: float = 0.0

    @property
    def holds(self) -> bool:
        """Return whether the oracle holds."""
        return not (self.broken or self.overdue)


@asynccontextmanager
async def world_of(
    subject: Subject, kind: Kind, folder: Path, random: Random, processes: int = PROCESSES
) -> AsyncGenerator[World]:
    """Run a fleet on a database of its own, with the shared files in the folder."""
    rounds = folder / ROUNDS
    async with AsyncExitStack() as held:
        if kind == "postgres":
            direct = postgres.database(held.enter_context(postgres.running(fsync=False)))
            proxy = held.enter_context(Proxy(postgres.socket_of(direct)).running())
            name = direct.partition("?")[0].rpartition("/")[2]
            calls = rounds = f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}"
            down = partial(postgres.stopped, direct)
            world = partial(World, direct=direct, stopped=down, held=proxy.held)
        elif kind == "temporal":
            server = held.enter_context(temporal.running(folder))
            proxy = held.enter_context(Proxy(server.port).running())
            calls = f"temporal://127.0.0.1:{proxy.port}"
            world = partial(World, stopped=server.stopped, held=proxy.held)
        else:
            if not subject.wrappers:
                processes = 1  # only one process may open a file of calls
            calls = f"sqlite:///{folder / CALLS}"
            world = partial(World, direct=str(rounds if subject.wrappers else folder / CALLS))
        shared = Served(subject, [new_key()], folder, calls, rounds, WAIT_SECONDS, ROUND_SECONDS)
        served = replace(shared, destination="honours keys", places=places())
        fleet = await held.enter_async_context(Fleet(served, processes).running())
        yield world(fleet, random, kind)


async def chaos(plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Report:
    """Run a subject under disasters; tell a line at the start and every ten seconds."""
    title = f"{plan.subject.name} {plan.kind}"
    report = Report(plan.subject.name, plan.kind, plan.seed, plan.seconds)
    tell(f"{title}, seed {plan.seed}: its processes start")
    with scratch() as folder:
        async with world_of(plan.subject, plan.kind, folder, Random(plan.seed)) as world:
            crowd = Crowd(
                world.fleet,
                Random(f"{plan.seed} clients"),
                plan.subject.option.letter == "K",
                lambda: world.manners.pop(0) if world.manners else "plain",
            )
            began = over = anyio.current_time()
            now = "calm"

            def said() -> str:
                begun = len(crowd.calls)
                ended = len([call for call in crowd.calls if call.ended is not None])
                passed = anyio.current_time() - began
                return f"{title} {passed:5.0f} s: {begun} calls, {ended} ended; {now}"

            async with progress(tell, said), anyio.create_task_group() as calling:
                for _ in range(plan.clients):
                    calling.start_soon(crowd.come_and_go)
                while anyio.current_time() < began + plan.seconds:
                    await anyio.sleep(world.random.uniform(*CALM_SECONDS))
                    disaster = world.random.choice(plan.disasters)
                    lasts = world.random.uniform(*LAST_SECONDS)
                    report.disasters[disaster.name] += 1
                    now = disaster.name
                    async with disaster.over(world):
                        await anyio.sleep(lasts)
                    now = "calm"
                over = anyio.current_time()
                now = "no more disasters"
                crowd.over.set()
                calling.cancel_scope.deadline = over + BOUND_SECONDS
            report.processes_ended = world.fleet.ended
            report.overdue = world.fleet.overdue
        effects = await weather.SqliteLedger(folder / LEDGER).effects()
    bills = Counter(effect.subject for effect in effects if effect.kind == "bill")
    judge(report, crowd.calls, bills, over)
    return report


def judge(report: Report, calls: list[Call], bills: Counter[str], over: float) -> None:
    """Judge a run by the oracle, and complete its report.

    Args:
        report: The report.
        calls: All calls.
        bills: The number of bills of each place.
        over: The time at which the last disaster ended, by the event loop's clock.
    """
    report.calls = len(calls)
    for call in calls:
        billed = bills[call.place]
        reply = call.reply
        words = f"{call.location} ({call.manner}, {call.rounds} requests, {billed} bills): "
        if reply is None:
            words += f"begun {over - call.began:.1f} s before the last disaster ended"
        else:
            words += f"{reply.code or ''} {reply.message or reply.text or reply.status}"
        for what in _wrong(report, call, billed, over):
            report.broken[what].append(words)


def _wrong(report: Report, call: Call, billed: int, over: float) -> Iterator[str]:
    reply = call.reply
    if billed > 1:
        yield "billed twice"
    if reply is None or call.ended is None:
        yield "stuck"
        return
    report.ended += 1
    report.longest_to_end = max(report.longest_to_end, call.ended - over)
    if call.manner != "fatal":
        report.longest_wait = max(report.longest_wait, call.waited)
    if reply.text is not None and not reply.is_error:
        report.completed += 1
        if not billed:
            yield "completed and not billed"
    else:
        report.refused[reply.reason or "none"] += 1
        if billed:
            report.refused_billed[reply.reason or "none"] += 1
        if reply.reason is None:
            yield "refused without a reason"
        if reply.reason == "gave_up" and call.manner != "fatal":
            yield "given up, though its bill kills no process"


def lines_of(report: Report) -> list[str]:
    """Return a report as lines of text."""
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
        f"  billed twice     {len(report.broken.get('billed twice', ()))}",
        f"  stuck            {len(report.broken.get('stuck', ()))}",
        f"  processes        {report.processes_ended} ended, {report.overdue} of them too late",
        f"  longest wait     {report.longest_wait:.1f} s for the response of a round",
        f"  longest to end   {report.longest_to_end:.1f} s after the last disaster",
    ]
    for what, calls in report.broken.items():
        lines += [f"  {what}: {call}" for call in calls]
    return lines
