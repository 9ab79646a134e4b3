"""Every case on a framework that was built, and what of it is kept.

Knows the cases, the programs and the judge; nothing of any library.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Literal

import anyio
from pydantic import BaseModel

from mrtr_options.review.bench.history import History, Received, Reply, Sent
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.anomalies import ANOMALIES, found
from mrtr_options.review.judge.reading import Reading
from mrtr_options.tool.catalogue import Option
from scoreboard.frameworks.cases import ATTACKS, Case, bills_elsewhere, cases_for
from scoreboard.frameworks.frameworks import Framework, Variant
from scoreboard.frameworks.programs import PARKED, Afterwards, Programs
from scoreboard.servers.play import Told, told

AT_ONCE = 4
"""How many cases are played at the same time."""
RACES = 10
"""How often a case is played whose outcome depends on which process is first."""

End = Literal["result", "readable", "parked", "refused", "lost", "limitation", "unread", "question"]
"""What became of a call: the client has its result; has none, and reading the call gives it; the
framework keeps it for other processes; refuses the request, and the call waits on; none of these;
our own program failed, so nothing is known; an error, and the call was not read; or a question is
open.
"""


class Played(BaseModel):
    """How a case went.

    Attributes:
        end: What the client was left with: a result, an error, a question, or nothing.
        fate: What became of the call. None where that was not looked up: a run of an older form.
        read: What was read of it afterwards; empty where nothing was.
        date: When, a day; empty for the day of the whole review.
        times: For a case that is a race, how often its audits and bills came out how.
        says: The result's text, or the error's.
        audits, bills: The effects.
        shown: The anomalies of its history, by name.
        taken: Of an attack that was made: whether the framework went on from the pause. Else None.
        history: The run, a line for each thing that happened.
    """

    end: str
    fate: End | None = None
    read: str = ""
    date: str = ""
    times: dict[str, int] = {}
    says: str
    audits: int
    bills: int
    shown: list[str]
    taken: bool | None = None
    history: list[str]


class Reviewed(BaseModel):
    """The results of one way to write the tool.

    Attributes:
        version: Of the framework.
        date: When, a day.
        seconds: How long it took.
        processes: How many deliveries were made.
        lines: Of its source file.
        cases: By name.
    """

    version: str
    date: str
    seconds: int = 0
    processes: int = 0
    lines: int = 0
    cases: dict[str, Played] = {}


async def review(
    framework: Framework, variant: Variant, tell: Told, only: Collection[str] | None = None
) -> Reviewed:
    """Play every case, or only some by name, on a framework that was built."""
    began = time.monotonic()
    cases = [case for case in cases_for(variant.carries) if only is None or case.name in only]
    played: dict[str, Played] = {}
    processes = 0
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(case: Case) -> None:
        nonlocal processes
        async with limit:
            tell(f"{framework.name}, {variant.name}: {case.name}")
            runs: list[Played] = []
            for _ in range(RACES if case.slow else 1):
                where = Programs(framework, variant, case.slow)
                subject = Subject(Option("?", framework.name, framework.folder))
                history = await run(subject, case.scenario, where, client=case.client)
                processes += where.processes
                runs.append(taken(case, history, where.ours, where.afterwards))
            played[case.name] = of_races(runs) if case.slow else runs[0]

    async with anyio.create_task_group() as group:
        for case in cases:
            group.start_soon(one, case)
    return Reviewed(
        version=framework.version,
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began),
        processes=processes,
        lines=_lines(framework, variant),
        cases={case.name: played[case.name] for case in cases},
    )


def _lines(framework: Framework, variant: Variant) -> int:
    own = (path for path in framework.sources if path.name in variant.start)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in own)


def of_races(runs: Sequence[Played]) -> Played:
    """The run of several that charged most often, with how often each outcome came."""
    worst = max(runs, key=lambda each: (each.bills, len(each.shown)))
    times = Counter(f"{each.audits}/{each.bills}" for each in runs)
    return worst.model_copy(update={"times": dict(times.most_common())})


NOT_THE_END = {"orphan bill", "lost call"}
"""What the client alone cannot tell from a call that is readable, parked or waits on."""


def fate_of(end: str, last: Reply, ours: Sequence[str], read: Afterwards | None) -> End:
    """What became of a call: an error of our own program says nothing of the framework."""
    if ours:
        return "limitation"
    if end in ("result", "question"):
        return end
    parked = (last.message or "").startswith(PARKED)
    if parked or (read is not None and read.what == "parked"):
        return "parked"
    if read is None or read.what == "unread":
        return "unread"
    fates: dict[str, End] = {"result": "readable", "question": "refused", "error": "lost"}
    return fates[read.what]


def shown_by(history: History, fate: End) -> list[str]:
    """The anomalies of a run; none where our own program failed."""
    if fate == "limitation":
        return []
    left_out = {"result": {"orphan bill"}, "question": set[str](), "lost": set[str]()}.get(
        fate, NOT_THE_END
    )
    shown = found(history)
    return [each.name for each in ANOMALIES if each.name in shown and each.name not in left_out]


def taken(
    case: Case, history: History, ours: Sequence[str] = (), read: Afterwards | None = None
) -> Played:
    """What is kept of a run."""
    reading = Reading(history)
    end = reading.end
    kinds = {
        "result": end.is_result,
        "error": end.code is not None,
        "question": bool(end.questions),
    }
    kind = next((kind for kind, holds in kinds.items() if holds), "nothing")
    fate = fate_of(kind, end, ours, read)
    return Played(
        end=kind,
        fate=fate,
        read=f"{read.what}: {read.says}".removesuffix(": ") if read else "",
        date=datetime.now(UTC).date().isoformat(),
        says=end.text or end.message or "",
        audits=reading.effects("audit").total(),
        bills=reading.effects("bill").total(),
        shown=shown_by(history, fate),
        taken=_is_taken(case, history) if case.name in ATTACKS else None,
        history=[*told(history), *_read_lines(read)],
    )


def _read_lines(read: Afterwards | None) -> list[str]:
    """What the history says of looking the call up."""
    if read is None or read.what == "unread":
        return []
    return [f"afterwards the call is read: {read.what} {read.says!r}"]


def _is_taken(case: Case, history: History) -> bool | None:
    """Whether a request with a made-up pause, or that of another user's call, got no error, or an
    edited one billed what was written into it; None if the call ended before there was one.
    """
    whose: dict[str, str | None] = {}
    sent: dict[int, str | None] = {}
    attacks: set[int] = set()
    for event in history.events:
        if isinstance(event, Sent):
            state, who = event.request.state, event.request.principal
            sent[event.exchange] = who
            if event.request.forged or (state and whose.get(state, who) != who):
                attacks.add(event.exchange)
        elif isinstance(event, Received) and event.reply.state is not None:
            whose.setdefault(event.reply.state, sent[event.exchange])
    replies = [got.reply for _, got in history.exchanges if got.exchange in attacks]
    if case.name == "edited" and replies:
        return any(map(bills_elsewhere, history.events))
    return any(not reply.failed for reply in replies) if replies else None
