"""A crowd of calls on Temporal, whose one worker dies and is replaced.

    python -m tests.chaos.size                   # 10,000 calls that wait for their user
    python -m tests.chaos.size --at-work 2000    # 2,000 calls in an effect of 20 s

The ledger counts every effect, also one whose key it has seen. Effects that `ran again` are those
that a destination which honours keys absorbs; `billed twice` counts those that it does not.

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

from mrtr_options.review.bench.deployments import scratch
from mrtr_options.review.bench.deployments.processes import LEDGER, ROUNDS, Served
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.bench.world import temporal
from mrtr_options.sdk.protection import new_key
from mrtr_options.terminal import Parser, console, refuse, run
from mrtr_options.tool.catalogue import option_at, option_named
from tests.chaos.crowd import settled
from tests.chaos.fleet import Fleet, progress
from tests.mutants.mutation import patched
from tests.sending import accepted

CLIENTS = 64
"""The number of rounds under way at a time."""
REQUEST_SECONDS = 30.0
EFFECT_SECONDS = 20.0
LOOK_SECONDS = 1.0
"""The interval at which the calls in their effect are counted."""
STUCK_SECONDS = 180.0
"""The worker dies anyway if no further call has reached its effect for this long."""
DIED = "died"
"""The file that marks the first worker's death. Without it, an effect does not end."""

PATIENT = """
+from dataclasses import replace
+from mrtr_options.tool.settings import configured, settings_in_force
+
-store = DurableStore()
+store = DurableStore(idle_seconds=86_400, wait_seconds=5.0, rounds=10**6, while_working="state")
@@
-server = build_server("weather-l", store.linear(call_weather), resources=[store.serving])
+with configured(replace(settings_in_force(), ttl_seconds=86_400)):
+    handler = store.linear(call_weather)
+    server = build_server("weather-l", handler, resources=[store.serving])
"""
"""A change to L: a question waits a day, since a busy machine takes long to begin all calls."""

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
    """Write L to a file of its own, with calls that wait for long.

    With `at_work`, the bill takes long after it was written to the ledger.
    """
    file = folder / "option_l_patient.py"
    patient = patched(option_named("L").source, PATIENT, file.name)
    file.write_text(patched(patient, SLOW, file.name) if at_work else patient, encoding="utf-8")
    return Subject(option_at(file))


@dataclass
class Found:
    """The figures of one run. Times are in seconds from the worker's death.

    Attributes:
        calls: The number of calls.
        at_work: Whether they should be in their effect when the worker dies.
        asked: The number of calls that got their question.
        began: The time that it took to begin them all, before.
        serves: The time at which the first new call got its question.
        replied: The times at which calls got their results.
        refused: The number of calls that ended in an error, by its reason.
        reached: The number of calls that were in their effect when the worker died.
        bills: The number of bills under each key. A destination that honours keys absorbs the
            second one.
    """

    calls: int
    at_work: bool
    asked: int = 0
    began: float = 0.0
    serves: float = 0.0
    replied: list[float] = field(default_factory=list[float])
    refused: Counter[str] = field(default_factory=Counter[str])
    reached: int = 0
    bills: Counter[str] = field(default_factory=Counter[str])

    @property
    def holds(self) -> bool:
        """Return whether every call ended with its result, billed once."""
        return len(self.replied) == len(self.bills) == self.calls

    @property
    def unreached(self) -> int:
        """The number of calls that should have been in their effect, and were not."""
        return self.calls - self.reached if self.at_work else 0

    @property
    def progress(self) -> str:
        """The progress of the calls, in a line."""
        ended = len(self.replied)
        return f"begun: {self.asked}, in their effect: {self.reached}, ended: {ended}"


async def size(
    calls: int, *, at_work: bool, tell: Callable[[str], None] = lambda line: None
) -> Found:
    """Begin calls, kill their worker, start another one, and bring them to their end.

    When the worker dies, every call is in its effect (`at_work`), or waits for its user.
    """
    found = Found(calls, at_work)
    turns = anyio.CapacityLimiter(CLIENTS)
    all_asked = anyio.Event()
    answered = anyio.Event()
    served = anyio.Event()
    served.set()
    died = 0.0

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

    with scratch() as folder, temporal.running(folder) as server:
        subject = subject_in(folder, at_work=at_work)
        shared = Served(subject, [new_key()], folder, server.url, folder / ROUNDS)
        fleet = Fleet(shared, 1, replace_seconds=0.05)
        told = progress(tell, lambda: found.progress)
        async with fleet.running(), told, anyio.create_task_group() as group:
            before = anyio.current_time()
            for _ in range(calls):
                group.start_soon(call)
            await all_asked.wait()
            found.began = anyio.current_time() - before
            if at_work:
                answered.set()
                await _wait_for_effects(found, folder / LEDGER)
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


async def _wait_for_effects(found: Found, ledger: Path) -> None:
    """Wait until all calls are in their effect, or no further one gets there."""
    grew = anyio.current_time()
    while found.reached < found.calls and anyio.current_time() < grew + STUCK_SECONDS:
        await anyio.sleep(LOOK_SECONDS)
        billed = len(_bills(ledger))
        if billed > found.reached:
            grew = anyio.current_time()
            found.reached = billed


def _bills(ledger: Path) -> Counter[str]:
    counted = "SELECT key, count(*) FROM effects WHERE kind = 'bill' GROUP BY key"
    with closing(sqlite3.connect(ledger, timeout=30)) as db:
        return Counter(dict(db.execute(counted)))


def lines_of(found: Found) -> list[str]:
    """Return the figures as lines of text."""
    which = (
        f"in an effect of {EFFECT_SECONDS:.0f} s" if found.at_work else "that wait for their user"
    )
    refused = (
        ", ".join(f"{reason} {times}" for reason, times in sorted(found.refused.items())) or "none"
    )
    last = max(found.replied, default=0.0)
    a_second = len(found.replied) / (last or 1)
    keys = len(found.bills)
    billed = min(keys, found.calls)
    again = found.bills.total() - keys
    return [
        f"L on Temporal, {found.calls} calls {which}: {'holds' if found.holds else 'BROKEN'}",
        f"  begun in          {found.began:.0f} s, {found.calls / found.began:.0f} a second",
        f"  serves new calls  {found.serves:.1f} s after its worker died",
        f"  all have ended    {last:.0f} s after that, {a_second:.0f} a second",
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
