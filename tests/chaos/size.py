"""What becomes of a crowd of calls on Temporal when their one worker dies and another one starts.

    python -m tests.chaos.size                   # 10,000 calls that wait for their user
    python -m tests.chaos.size --at-work 2000    # 2,000 calls in an effect of 20 s

The ledger counts every effect, also one whose key it has seen: `ran again` are those that a
destination which honours keys absorbs, and `billed twice` those that it does not.

Knows option L, which it changes, a Temporal of its own, and the fleet.
"""

import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from mrtr_options.review.bench import temporal
from mrtr_options.review.bench.deployments.processes import LEDGER, ROUNDS, Served
from mrtr_options.review.bench.history import Reply, Request
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.sdk.protection import new_key
from mrtr_options.terminal import Parser, console, refuse, run
from mrtr_options.tool.catalogue import option_at, option_named
from tests.chaos.crowd import settled
from tests.chaos.fleet import Fleet, progress
from tests.mutants.mutation import patched
from tests.rounds import accepted

CLIENTS = 64
"""How many rounds are under way at a time."""
REQUEST_SECONDS = 30.0
EFFECT_SECONDS = 20.0
LOOK_SECONDS = 1.0
"""How often it is looked how many calls are in their effect."""
STUCK_SECONDS = 180.0
"""For how long no further call may reach its effect before the worker dies all the same."""
DIED = "died"
"""The file that says so of the first worker: its effects last until then."""

PATIENT = """
+from dataclasses import replace
+from mrtr_options.tool.settings import configured, settings_in_force
+
-store = DurableStore()
+store = DurableStore(idle_seconds=86_400, wait_seconds=5.0, rounds=10**6, while_working="state")
@@
-server = build_server("weather-l", store.linear(call_weather), sealed=True, resources=[store.serving])
+with configured(replace(settings_in_force(), ttl_seconds=86_400)):
+    handler = store.linear(call_weather)
+    server = build_server("weather-l", handler, sealed=True, resources=[store.serving])
"""
"""On a busy machine it takes long to begin all calls: a question waits for its answer for a day."""

SLOW = f"""
 store = DurableStore(idle_seconds=86_400, wait_seconds=5.0, rounds=10**6, while_working="state")
+
+import anyio
+
+async def bill(desk, place, key):
+    await desk.bill(place, key=key)
+    died = anyio.Path(__file__).with_name({DIED!r})
+    await anyio.sleep({EFFECT_SECONDS} if await died.exists() else float("inf"))
@@
-    await ctx.step("bill", lambda key: desk.bill(place, key=key))
+    await ctx.step("bill", lambda key: bill(desk, place, key))
"""


def subject_in(folder: Path, *, at_work: bool) -> Subject:
    """L in a file of its own: its calls wait for long, and its bill takes long once it is
    written.
    """
    file = folder / "option_l_patient.py"
    patient = patched(option_named("L").source, PATIENT, file.name)
    file.write_text(patched(patient, SLOW, file.name) if at_work else patient, encoding="utf-8")
    return Subject(option_at(file))


@dataclass
class Found:
    """What was measured. Times are in seconds from the worker's death.

    Attributes:
        calls, at_work: How many there were, and whether they were in their effect at its death.
        asked: How many have got their question.
        began: How long it took to begin them all, before.
        serves: When the first new call got its question.
        replied: When each of the calls got its result.
        refused: How many ended in an error, by its reason.
        unreached: How many were not in their effect when the worker died, though they should have
            been.
        bills: How often each key was billed: again, where a destination that honours keys absorbs
            it.
    """

    calls: int
    at_work: bool
    asked: int = 0
    began: float = 0.0
    serves: float = 0.0
    replied: list[float] = field(default_factory=list[float])
    refused: Counter[str] = field(default_factory=Counter[str])
    unreached: int = 0
    bills: Counter[str] = field(default_factory=Counter[str])

    @property
    def holds(self) -> bool:
        """Whether every call ended with its result, billed once."""
        return len(self.replied) == len(self.bills) == self.calls


async def size(
    calls: int, *, at_work: bool, tell: Callable[[str], None] = lambda line: None
) -> Found:
    """Begin calls, kill their worker, start another one, and bring them to their end.

    When the worker dies, each is in its effect, or else it waits for its user.
    """
    found = Found(calls, at_work)
    turns, all_asked = anyio.CapacityLimiter(CLIENTS), anyio.Event()
    served, answered = anyio.Event(), anyio.Event()
    served.set()
    died, reached = 0.0, 0

    async def send(request: Request) -> Reply:
        async with turns:
            await served.wait()
            return await fleet.send(0, request, seconds=REQUEST_SECONDS)

    async def call() -> None:
        asked = await settled(send, Request("Tokyo"))
        found.asked += 1
        if found.asked == calls:
            all_asked.set()
        await answered.wait()
        units = accepted(units="metric")
        answered_round = Request("Tokyo", dict.fromkeys(asked.questions, units), asked.state)
        reply = await settled(send, answered_round)
        if reply.text is None:
            found.refused[reply.reason or str(reply.message)] += 1
        else:
            found.replied.append(anyio.current_time() - died)

    def said() -> str:
        return f"begun: {found.asked}, in their effect: {reached}, ended: {len(found.replied)}"

    with scratch() as folder, temporal.running(folder) as server:
        subject = subject_in(folder, at_work=at_work)
        shared = Served(subject, [new_key()], folder, server.url, folder / ROUNDS)
        fleet = Fleet(shared, 1, replace_seconds=0.05)
        async with fleet.running(), progress(tell, said), anyio.create_task_group() as group:
            before = anyio.current_time()
            for _ in range(calls):
                group.start_soon(call)
            await all_asked.wait()
            found.began = anyio.current_time() - before
            grew = anyio.current_time()
            while at_work and reached < calls and anyio.current_time() < grew + STUCK_SECONDS:
                answered.set()
                await anyio.sleep(LOOK_SECONDS)
                if (billed := len(_bills(folder / LEDGER))) > reached:
                    grew, reached = anyio.current_time(), billed
            found.unreached = calls - reached if at_work else 0
            (folder / DIED).touch()
            served = anyio.Event()
            fleet.signal(0, signal.SIGKILL)
            died = anyio.current_time()
            await fleet.until_up(0)
            found.serves = anyio.current_time() - died
            tell("another worker serves")
            served.set()
            answered.set()
        found.bills = _bills(folder / LEDGER)
    return found


def _bills(ledger: Path) -> Counter[str]:
    counted = "SELECT key, count(*) FROM effects WHERE kind = 'bill' GROUP BY key"
    with closing(sqlite3.connect(ledger, timeout=30)) as db:
        return Counter(dict(db.execute(counted)))


def lines_of(found: Found) -> list[str]:
    """What was measured, as text."""
    which = (
        f"in an effect of {EFFECT_SECONDS:.0f} s" if found.at_work else "that wait for their user"
    )
    refused = (
        ", ".join(f"{reason} {times}" for reason, times in sorted(found.refused.items())) or "none"
    )
    last, keys = max(found.replied, default=0.0), len(found.bills)
    billed, again = min(keys, found.calls), found.bills.total() - keys
    return [
        f"L on Temporal, {found.calls} calls {which}: {'holds' if found.holds else 'BROKEN'}",
        f"  begun in          {found.began:.0f} s, {found.calls / found.began:.0f} a second",
        f"  serves new calls  {found.serves:.1f} s after its worker died",
        f"  all have ended    {last:.0f} s after that, {len(found.replied) / (last or 1):.0f} a second",
        f"  not at work       {found.unreached} of those that should have been at the death",
        f"  ended, refused    {len(found.replied)}, {refused}",
        f"  billed            {billed}, {keys - billed} of them twice",
        f"  ran again         {again} effects, under the key of the first time",
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
    found = anyio.run(
        lambda: size(args.at_work or args.parked or 10_000, at_work=at_work, tell=tell)
    )
    console().print("\n".join(lines_of(found)))
    return 0 if found.holds else 1


if __name__ == "__main__":
    raise SystemExit(run(_main))
