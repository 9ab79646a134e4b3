"""What becomes of a crowd of calls on Temporal when their one worker dies and another one starts.

    python -m tests.chaos.size                   # 10,000 calls that wait for their user
    python -m tests.chaos.size --at-work 2000    # 2,000 calls in an effect of 20 s

The ledger counts every effect, also one whose key it has seen: `ran again` are those that a destination
which honours keys absorbs, and `billed twice` those that it does not.

Knows option L, which it changes, a Temporal of its own, and the fleet.
"""

import signal
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import mcp_types as types

from mrtr_options.bench import temporal
from mrtr_options.bench.deployments.processes import LEDGER, ROUNDS, Served
from mrtr_options.bench.history import Reply, Request
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Subject
from mrtr_options.sdk.protection import new_key
from mrtr_options.show.terminal import Parser, console, refuse, run
from mrtr_options.tool.catalogue import option_at, option_named
from tests.chaos.crowd import PAUSE_SECONDS, TRY_AGAIN
from tests.chaos.fleet import Fleet
from tests.mutants.mutation import patched

CLIENTS = 64
"""How many rounds are under way at a time."""
REQUEST_SECONDS = 30.0
EFFECT_SECONDS = 20.0
PROGRESS_SECONDS = 10.0
STUCK_SECONDS = 180.0
"""For how long no further call may reach its effect before the worker dies all the same."""
ANSWER = types.ElicitResult(action="accept", content={"units": "metric"})
DIED = "died"
"""The file that says so of the first worker: its effects last until then."""

PATIENT = """
+from dataclasses import replace
+from mrtr_options.tool.settings import configured, settings_in_force
+
-store = DurableStore()
+store = DurableStore(idle_seconds=86_400, wait_seconds=5.0, rounds=10**6)
@@
-server = build_server("weather-l", store.linear(call_weather), sealed=True, resources=[store.serving])
+with configured(replace(settings_in_force(), ttl_seconds=86_400)):
+    handler = store.linear(call_weather)
+    server = build_server("weather-l", handler, sealed=True, resources=[store.serving])
"""
"""On a busy machine it takes long to begin all calls: a question waits for its answer for a day."""

SLOW = f"""
 store = DurableStore(idle_seconds=86_400, wait_seconds=5.0, rounds=10**6)
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
    """L in a file of its own: its calls wait for long, and its bill takes long once it is written."""
    file = folder / "option_l_patient.py"
    patient = patched(option_named("L").source, PATIENT, file.name)
    file.write_text(patched(patient, SLOW, file.name) if at_work else patient, encoding="utf-8")
    return Subject(option_at(file))


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


@dataclass
class _Calls:
    """Those that are to be answered next."""

    fleet: Fleet
    found: Found
    tell: Callable[[str], None]
    asked: list[Request] = field(default_factory=list[Request])
    died: float = 0.0

    async def once(self, request: Request) -> tuple[Request, Reply]:
        """What a request comes to, and what is to be sent then."""
        reply = await self.fleet.send(0, request, seconds=REQUEST_SECONDS)
        return replace(request, answers=None, state=reply.state) if reply.later else request, reply

    async def round(self, request: Request) -> Reply:
        """What a round comes to, sent again for as long as it has to be."""
        while True:
            request, reply = await self.once(request)
            if not reply.later and reply.nothing is None and reply.reason not in TRY_AGAIN:
                return reply
            await anyio.sleep(0.0 if reply.later else PAUSE_SECONDS[1])

    async def begin(self, request: Request) -> None:
        reply = await self.round(request)
        answers = dict.fromkeys(reply.questions, ANSWER)
        self.asked.append(replace(request, answers=answers, state=reply.state))

    async def deliver(self, request: Request) -> None:
        self.asked.append((await self.once(request))[0])

    async def answer(self, request: Request) -> None:
        reply = await self.round(request)
        if reply.text is None:
            self.found.refused[reply.reason or str(reply.message)] += 1
        else:
            self.found.replied.append(anyio.current_time() - self.died)

    async def each(
        self, what: str, todo: Sequence[Request], do: Callable[[Request], Awaitable[None]]
    ) -> None:
        """Do something with each request, in order."""
        waiting = list(reversed(todo))

        async def client() -> None:
            while waiting:
                await do(waiting.pop())

        async def progress() -> None:
            while True:
                await anyio.sleep(PROGRESS_SECONDS)
                self.tell(f"{what}: {len(todo) - len(waiting)}")

        async with anyio.create_task_group() as group:
            group.start_soon(progress)
            async with anyio.create_task_group() as clients:
                for _ in range(CLIENTS):
                    clients.start_soon(client)
            group.cancel_scope.cancel()


async def size(calls: int, *, at_work: bool, tell: Callable[[str], None] = lambda line: None) -> Found:
    """Begin calls, kill their worker, start another one, and bring them to their end.

    Args:
        calls: How many.
        at_work: Whether each is in its effect when the worker dies; or else it waits for its user.
        tell: Gets a line now and then.
    """
    found = Found(calls, at_work)
    with scratch() as folder, temporal.running(folder) as server:
        subject = subject_in(folder, at_work=at_work)
        served = Served(subject, [new_key()], folder, server.url, folder / ROUNDS)
        async with Fleet(served, 1, replace_seconds=0.05).running() as fleet:
            them, before = _Calls(fleet, found, tell), anyio.current_time()
            await them.each("begun", [Request("Tokyo")] * calls, them.begin)
            found.began = anyio.current_time() - before
            grew, reached = anyio.current_time(), 0
            while at_work and reached < calls and anyio.current_time() < grew + STUCK_SECONDS:
                waiting, them.asked = them.asked, []
                await them.each("answered", waiting, them.deliver)
                if (billed := len(_bills(folder / LEDGER))) > reached:
                    grew, reached = anyio.current_time(), billed
                tell(f"in their effect: {billed}")
            found.unreached = calls - reached if at_work else 0
            (folder / DIED).touch()
            fleet.signal(0, signal.SIGKILL)
            them.died = anyio.current_time()
            await fleet.until_up(0)
            found.serves = anyio.current_time() - them.died
            tell("another worker serves")
            await them.each("ended", them.asked, them.answer)
        keys = _bills(folder / LEDGER)
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
